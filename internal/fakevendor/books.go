package fakevendor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// A Kind is something the vendor counts, for each idempotency key.
type Kind string

// Calls, counted when they arrive, and what came of them.
const (
	Submit Kind = "submit" // each one, replays and refusals included
	Get    Kind = "get"
	Lookup Kind = "lookup"
	Cancel Kind = "cancel"
	File   Kind = "file"

	Unauthenticated Kind = "unauthenticated"
	Accepted        Kind = "accepted" // generations
	Replayed        Kind = "replayed" // submits answered with an earlier answer
	Ended           Kind = "ended"    // generations, whatever the outcome
	Held            Kind = "held"     // times that a fault's delay or gate began to hold up a call
	Struck          Kind = "struck"   // calls that a fault answered, spoiled or cut

	CallbackSent     Kind = "callback_sent" // deliveries that were tried
	CallbackReceived Kind = "callback_received"
)

// Why the vendor cannot do as it is told.
var (
	ErrUnknown = errors.New("no such generation")
	ErrEnded   = errors.New("the generation has ended")
)

// books are what the vendor knows: generations, the answers kept for
// idempotency keys, counts. They change only by records, which are appended to
// the file, if there is one, before they take effect; reading the file applies
// the same records again.
type books struct {
	mu          sync.Mutex
	file        *os.File // nil = in memory only
	broken      error    // a write failed: nothing more is accepted
	generations map[string]*Generation
	order       []string // ids as accepted
	ended       map[string]chan struct{}
	keys        map[string]*keyBook
	serving     map[string]bool // keys whose submit is being served; not in the file
	changed     chan struct{}   // closed at each change
}

// keyBook is what is known of an idempotency key.
type keyBook struct {
	fingerprint string // of the request that the answer belongs to
	answer      *answer
	generation  string // id; "" = none was accepted
	counts      map[Kind]int
}

// A record is one change of the books and one line of the file.
type record struct {
	At    time.Time `json:"at"`
	Event event     `json:"event"`

	Key         string      `json:"key,omitempty"`
	Kind        Kind        `json:"kind,omitempty"`        // counted
	Fingerprint string      `json:"fingerprint,omitempty"` // accepted, answered
	Answer      *answer     `json:"answer,omitempty"`      // accepted, answered
	Generation  *Generation `json:"generation,omitempty"`  // accepted

	ID        string `json:"id,omitempty"` // advanced, ended, heard
	Status    Status `json:"status,omitempty"`
	Percent   int    `json:"percent,omitempty"`
	Delivered int    `json:"delivered,omitempty"`
	Error     *Error `json:"error,omitempty"`
}

type event string

const (
	counted  event = "counted"
	accepted event = "accepted" // a generation, and the answer its key will get from now on
	answered event = "answered" // the answer only: execution began and failed
	advanced event = "advanced" // status processing, percent, delivered
	ended    event = "ended"
	heard    event = "heard" // somebody received a callback about the end
)

// openBooks reads the file, if a name is given, and appends to it from then on.
// A last line that a crash cut short never took effect and is cut off.
func openBooks(name string) (*books, error) {
	b := &books{
		generations: map[string]*Generation{},
		ended:       map[string]chan struct{}{},
		keys:        map[string]*keyBook{},
		serving:     map[string]bool{},
		changed:     make(chan struct{}),
	}
	if name == "" {
		return b, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the books: %w", err)
	}
	if err := b.read(file); err != nil {
		return nil, errors.Join(fmt.Errorf("read the books in %s: %w", name, err), file.Close())
	}
	b.file = file
	return b, nil
}

// read applies every line and leaves the file positioned after the last.
func (b *books) read(file *os.File) error {
	if info, err := file.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	whole := bytes.LastIndexByte(data, '\n') + 1
	line := 0
	for text := range bytes.Lines(data[:whole]) {
		line++
		var r record
		if err := json.Unmarshal(text, &r); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		b.apply(r)
	}
	if err := file.Truncate(int64(whole)); err != nil {
		return err
	}
	_, err = file.Seek(int64(whole), io.SeekStart)
	return err
}

func (b *books) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil {
		return nil
	}
	file := b.file
	b.file, b.broken = nil, os.ErrClosed
	return file.Close()
}

// commit makes r durable and applies it. Counts are written but not synced:
// they survive the process, and no answer depends on them. The caller holds mu.
func (b *books) commit(r record) error {
	if b.broken != nil {
		return b.broken
	}
	if r.At.IsZero() {
		r.At = time.Now().UTC()
	}
	if b.file != nil {
		if err := b.write(r); err != nil {
			b.broken = fmt.Errorf("write the books: %w", err)
			return b.broken
		}
	}
	b.apply(r)
	close(b.changed)
	b.changed = make(chan struct{})
	return nil
}

func (b *books) write(r record) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := b.file.Write(append(line, '\n')); err != nil {
		return err
	}
	if r.Event == counted {
		return nil
	}
	return b.file.Sync()
}

// apply is the only place where the books change.
func (b *books) apply(r record) {
	switch r.Event {
	case counted:
		b.count(r.Key, r.Kind)
	case accepted:
		g := *r.Generation
		b.generations[g.ID] = &g
		b.order = append(b.order, g.ID)
		b.ended[g.ID] = make(chan struct{})
		k := b.key(g.Key)
		k.fingerprint, k.answer, k.generation = r.Fingerprint, r.Answer, g.ID
		b.count(g.Key, Accepted)
	case answered:
		k := b.key(r.Key)
		k.fingerprint, k.answer = r.Fingerprint, r.Answer
	case advanced:
		g := b.generations[r.ID]
		if g.BeganAt == nil {
			g.BeganAt = &r.At
		}
		g.Status, g.Percent, g.Delivered = Processing, r.Percent, r.Delivered
	case ended:
		g := b.generations[r.ID]
		g.Status, g.Delivered, g.Error, g.EndedAt = r.Status, r.Delivered, r.Error, &r.At
		close(b.ended[r.ID])
		b.count(g.Key, Ended)
	case heard:
		b.generations[r.ID].Told = true
	}
}

func (b *books) key(key string) *keyBook {
	k := b.keys[key]
	if k == nil {
		k = &keyBook{counts: map[Kind]int{}}
		b.keys[key] = k
	}
	return k
}

func (b *books) count(key string, kind Kind) { b.key(key).counts[kind]++ }

// tally counts something about a key; "" is for what belongs to none.
func (b *books) tally(key string, kind Kind) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commit(record{Event: counted, Key: key, Kind: kind})
}

// claim begins to serve a submit. With verdict serve the caller must release the
// key; with replay the answer is the one to give.
func (b *books) claim(key, fingerprint string) (verdict, *answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.serving[key] {
		return busy, nil
	}
	if k := b.keys[key]; k != nil && k.answer != nil {
		if k.fingerprint != fingerprint {
			return reused, nil
		}
		return replay, k.answer
	}
	b.serving[key] = true
	return serve, nil
}

type verdict int

const (
	serve verdict = iota
	replay
	busy
	reused
)

func (b *books) release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.serving, key)
}

// accept bills a generation and keeps the answer for its key; answer is told the
// generation as it was accepted.
func (b *books) accept(g Generation, fingerprint string, reply func(Generation) answer) (Generation, answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g.ID, g.Status, g.AcceptedAt = "gen_"+ulid.Make().String(), Queued, time.Now().UTC()
	for _, id := range b.order {
		if other := b.generations[id]; other.Job() == g.Job() && !other.Status.Ended() {
			g.Beside = append(g.Beside, id)
		}
	}
	kept := reply(g)
	err := b.commit(record{At: g.AcceptedAt, Event: accepted, Generation: &g, Fingerprint: fingerprint, Answer: &kept})
	return g, kept, err
}

// refuse keeps an answer for a key without a generation.
func (b *books) refuse(key, fingerprint string, a answer) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.commit(record{Event: answered, Key: key, Fingerprint: fingerprint, Answer: &a})
}

// open finds a generation that has not ended. The caller holds mu.
func (b *books) open(id string) (*Generation, error) {
	g := b.generations[id]
	switch {
	case g == nil:
		return nil, fmt.Errorf("%w: %s", ErrUnknown, id)
	case g.Status.Ended():
		return nil, fmt.Errorf("%w: %s %s", ErrEnded, id, g.Status)
	default:
		return g, nil
	}
}

// advance lets processing begin or go on. Neither progress nor what is ready
// ever falls. first says that it began.
func (b *books) advance(id string, percent, delivered int) (g Generation, first bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	open, err := b.open(id)
	if err != nil {
		return Generation{}, false, err
	}
	first = open.Status == Queued
	if first {
		delivered = max(delivered, open.Work.Early)
	}
	err = b.commit(record{
		Event:     advanced,
		ID:        id,
		Percent:   min(max(percent, open.Percent), 100),
		Delivered: min(max(delivered, open.Delivered), open.Asked),
	})
	return *open, first, err
}

// end settles a generation.
func (b *books) end(id string, o Outcome) (Generation, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g, err := b.open(id)
	if err != nil {
		return Generation{}, err
	}
	r := record{Event: ended, ID: id, Status: o.Status, Delivered: min(o.Delivered, g.Asked)}
	switch o.Status {
	case "", Succeeded:
		r.Status = Succeeded
		if o.Delivered == 0 {
			r.Delivered = g.Asked
		}
	case Cancelled:
		r.Delivered = max(r.Delivered, g.Delivered)
	case Failed:
		r.Error = &Error{Code: o.Code, Message: o.Message, Transient: o.Transient}
		if o.Code == "" {
			r.Error.Code = "generation_failed"
		}
	default:
		return Generation{}, fmt.Errorf("%q is no end of a generation", o.Status)
	}
	err = b.commit(r)
	return *g, err
}

// tell notes that a callback about the end was received.
func (b *books) tell(id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.generations[id]; g == nil || g.Told || !g.Status.Ended() {
		return nil
	}
	return b.commit(record{Event: heard, ID: id})
}

func (b *books) generation(id string) (Generation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.generations[id]
	if g == nil {
		return Generation{}, false
	}
	return *g, true
}

func (b *books) byKey(key string) (Generation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.keys[key]; k != nil && k.generation != "" {
		return *b.generations[k.generation], true
	}
	return Generation{}, false
}

// all returns the generations whose key begins with prefix, as accepted.
func (b *books) all(prefix string) []Generation {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []Generation
	for _, id := range b.order {
		if g := b.generations[id]; strings.HasPrefix(g.Key, prefix) {
			list = append(list, *g)
		}
	}
	return list
}

// end of a generation, to be waited for.
func (b *books) done(id string) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[id]
}

// wait blocks until kind has been counted n times for keys that begin with
// prefix, or ctx ends. It returns the count.
func (b *books) wait(ctx context.Context, kind Kind, prefix string, n int) (int, error) {
	for {
		b.mu.Lock()
		count, changed := 0, b.changed
		for key, k := range b.keys {
			if strings.HasPrefix(key, prefix) {
				count += k.counts[kind]
			}
		}
		b.mu.Unlock()
		if count >= n {
			return count, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return count, fmt.Errorf("%d of %d times %s for keys %q…: %w", count, n, kind, prefix, context.Cause(ctx))
		}
	}
}

// bill copies what there is to pay and what was counted.
func (b *books) bill() Bill {
	b.mu.Lock()
	defer b.mu.Unlock()
	bill := Bill{Rows: []Row{}, Keys: []Key{}, Calls: map[Kind]int{}}
	for _, id := range b.order {
		g := b.generations[id]
		row := Row{
			ID: id, Key: g.Key, Job: g.Job(), Status: g.Status, AcceptedAt: g.AcceptedAt, EndedAt: g.EndedAt,
			Asked: g.Asked, Units: g.units(), Cost: int64(g.units()) * g.Price,
			Beside: append([]string{}, g.Beside...), Calls: maps.Clone(b.keys[g.Key].counts),
		}
		bill.Rows = append(bill.Rows, row)
		bill.Units += row.Units
		bill.Cost += row.Cost
	}
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		k := b.keys[key]
		bill.Keys = append(bill.Keys, Key{Key: key, Job: jobOf(key), Generation: k.generation, Calls: maps.Clone(k.counts)})
		for kind, n := range k.counts {
			bill.Calls[kind] += n
		}
	}
	return bill
}
