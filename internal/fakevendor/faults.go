package fakevendor

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// A Fault is one line of the vendor's script: which calls it meets, and what
// happens to them. Several may meet one call; their delays and gates add up, and
// at each [Point] the first that does something does it.
type Fault struct {
	// Which calls. They are counted per fault, by what is said here.
	Call      Kind   `json:"call,omitempty"`       // Submit (also ""), Get, Lookup, Cancel or File
	KeyPrefix string `json:"key_prefix,omitempty"` // of the idempotency key of the call or its generation
	Prompt    string `json:"prompt,omitempty"`     // contained in the prompt of the call or its generation
	Nth       int    `json:"nth,omitempty"`        // first of the matching calls to be met; 0 = 1
	Times     int    `json:"times,omitempty"`      // how many are met from there; 0 = 1, -1 = all

	// What happens.
	At         Point    `json:"at,omitempty"`          // "" = after for what spoils an answer, otherwise before
	Delay      Duration `json:"delay,omitempty"`       // waits first, whether or not the client does
	Gate       string   `json:"gate,omitempty"`        // then until this gate is opened, see Vendor.Open
	Do         Action   `json:"do,omitempty"`          // "" = goes on as if nothing were
	Status     int      `json:"status,omitempty"`      // of Answer; 0 = 500
	RetryAfter int      `json:"retry_after,omitempty"` // seconds, header of Answer; 0 = none
	Location   string   `json:"location,omitempty"`    // of Redirect; "" = the same address
	Chunk      int      `json:"chunk,omitempty"`       // bytes at a time of Trickle; 0 = 1
	Every      Duration `json:"every,omitempty"`       // between two of them; 0 = 100 ms

	Work *Work `json:"work,omitempty"` // what a generation accepted by this call does; nil = as Options say
}

// A Point is where a fault happens in the life of a call.
type Point string

// Points. Client and idempotency key meet them in this order.
const (
	Before Point = "before" // before anything is done: the key stays unused
	During Point = "during" // only Submit: execution has begun, nothing is accepted. An Answer is kept for the key
	After  Point = "after"  // done, accepted and billed, not answered. An Answer is kept for the key
)

// An Action is what a fault does.
type Action string

// Actions. Before the point After, none of them lets the call take effect. Only
// Answer and OKError are the vendor's own answers and so replayed for the key;
// the others happen to the connection, as do all of them to a replay, whose kept
// answer stays as it is.
//
// Go's http.Transport repeats a GET, and a POST that has an Idempotency-Key, when
// a connection that it had used before breaks without an answer: such a client
// may not notice a single Drop, and the vendor counts two calls. A request whose
// GetBody is nil is not repeated.
const (
	Answer    Action = "answer"    // an error with Status and RetryAfter
	OKError   Action = "ok_error"  // 200 with an error as its body
	Drop      Action = "drop"      // resets the connection
	Hang      Action = "hang"      // never answers; ends with the client or the vendor
	Redirect  Action = "redirect"  // 307 to Location
	Malformed Action = "malformed" // JSON that does not parse; a file whose checksum is wrong
	Truncated Action = "truncated" // half of the body, then the connection is cut
	Trickle   Action = "trickle"   // the body Chunk bytes at a time
)

// spoils says that the action needs an answer to work on.
func (a Action) spoils() bool { return a == Malformed || a == Truncated || a == Trickle }

// own says that the action is an answer of the vendor's.
func (a Action) own() bool { return a == Answer || a == OKError }

var (
	calls   = []Kind{Submit, Get, Lookup, Cancel, File}
	points  = []Point{"", Before, During, After}
	actions = []Action{"", Answer, OKError, Drop, Hang, Redirect, Malformed, Truncated, Trickle}
)

// Validate says everything that is wrong with f.
func (f Fault) Validate() error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	f = f.filled()
	refuse(!slices.Contains(calls, f.Call), "call %q: want one of %v", f.Call, calls)
	refuse(!slices.Contains(points, f.At), "at %q: want before, during or after", f.At)
	refuse(!slices.Contains(actions, f.Do), "do %q: want one of %v", f.Do, actions[1:])
	refuse(f.At == During && f.Call != Submit, "at during: only a submit has it")
	refuse(f.Do.spoils() && f.At != After, "do %s: there is an answer to spoil only after", f.Do)
	refuse(f.Nth < 1, "nth %d is negative", f.Nth)
	refuse(f.Times < -1, "times %d: want -1 for all", f.Times)
	refuse(f.Status < 200 || f.Status > 599, "status %d: want 200 to 599", f.Status)
	refuse(f.RetryAfter < 0, "retry_after %d is negative", f.RetryAfter)
	refuse(f.Chunk < 1, "chunk %d is negative", f.Chunk)
	refuse(f.Delay < 0 || f.Every < 0, "delay and every must not be negative")
	refuse(f.Work != nil && f.Call != Submit, "work: only a submit begins any")
	if f.Work != nil {
		errs = append(errs, f.Work.Validate())
	}
	return errors.Join(errs...)
}

// Validate says everything that is wrong with w.
func (w Work) Validate() error {
	var errs []error
	if w.Queue < 0 || w.Duration < 0 || w.PollAfter < 0 {
		errs = append(errs, errors.New("queue, duration and poll_after must not be negative"))
	}
	if w.Early < 0 {
		errs = append(errs, fmt.Errorf("early %d is negative", w.Early))
	}
	errs = append(errs, w.Outcome.Validate())
	for i, c := range w.Callbacks {
		if err := c.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("callback %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// Validate says what is wrong with o.
func (o Outcome) Validate() error {
	if o.Status != "" && !o.Status.Ended() {
		return fmt.Errorf("outcome %q: want succeeded, failed or cancelled", o.Status)
	}
	if o.Delivered < 0 {
		return fmt.Errorf("delivered %d is negative", o.Delivered)
	}
	return nil
}

// filled puts in what the zero values stand for.
func (f Fault) filled() Fault {
	f.Call = or(f.Call, Submit)
	f.Nth = or(f.Nth, 1)
	f.Times = or(f.Times, 1)
	f.Status = or(f.Status, http.StatusInternalServerError)
	f.Chunk = or(f.Chunk, 1)
	f.Every = or(f.Every, defaultEvery)
	if f.At == "" {
		f.At = Before
		if f.Do.spoils() {
			f.At = After
		}
	}
	return f
}

func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// script holds the faults and counts the calls that each has matched.
type script struct {
	mu    sync.Mutex
	lines []*line
}

type line struct {
	Fault
	Seen int `json:"seen"` // calls that matched so far, met or not
}

// add appends faults: all of them, or none when one is wrong.
func (s *script) add(faults ...Fault) error {
	lines := make([]*line, 0, len(faults))
	for i, f := range faults {
		if err := f.Validate(); err != nil {
			return fmt.Errorf("fault %d: %w", i, err)
		}
		lines = append(lines, &line{Fault: f.filled()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, lines...)
	return nil
}

func (s *script) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

func (s *script) list() []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]line, 0, len(s.lines))
	for _, l := range s.lines {
		list = append(list, *l)
	}
	return list
}

// meet counts a call and returns the faults that it meets.
func (s *script) meet(call Kind, key, prompt string) []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	var met []Fault
	for _, l := range s.lines {
		if l.Call != call || !strings.HasPrefix(key, l.KeyPrefix) || !strings.Contains(prompt, l.Prompt) {
			continue
		}
		l.Seen++
		if l.Seen >= l.Nth && (l.Times == -1 || l.Seen < l.Nth+l.Times) {
			met = append(met, l.Fault)
		}
	}
	return met
}
