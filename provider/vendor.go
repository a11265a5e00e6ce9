package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Vendor takes requests and makes them while nobody waits: it is asked later, or calls back.
// A Vendor is a [Poller], a [Caller], or both; it may be a [Finder] and a [Canceller] too.
//
// A transport error is never a verdict. Submit must tell apart what the vendor said from what
// nobody knows: an error marked with [Refused] or [Permanent] is the vendor's own word that it
// does not have the request and will not make it; after any other error it may have it. Of a
// request that is sent [Request.Again], that must be its word on the key: a refusal of this one
// sending, such as a limit on the rate, says nothing of an earlier one.
type Vendor interface {
	// Name is short, stable and stored with each call.
	Name() string
	// Estimate is as [Provider.Estimate].
	Estimate(input json.RawMessage) (Estimate, error)
	// Traits says what the vendor can be trusted with.
	Traits() Traits
	// Submit hands a request over and returns as soon as the vendor has named it.
	Submit(ctx context.Context, req Request) (Submission, error)
	// Download fetches what a call made. An error marked with [Permanent] says that it can
	// never be had; after any other the same call is asked again, and nothing is submitted.
	Download(ctx context.Context, ref string, news News) (Result, error)
}

// Poller can be asked how a call goes.
type Poller interface {
	Poll(ctx context.Context, ref string) (News, error)
}

// Finder can look a call up by its idempotency key. ErrNotFound is the vendor's word that it
// knows no such call.
type Finder interface {
	Find(ctx context.Context, key string) (ref string, err error)
}

// Canceller can be told to stop. It returns what is true afterwards: a call that had succeeded
// before stays succeeded, and Units counts what was made before it stopped.
type Canceller interface {
	Cancel(ctx context.Context, ref string) (News, error)
}

// Caller calls back when there is news.
type Caller interface {
	// Callback reads and authenticates one callback. ErrUnsigned refuses it; any other error
	// says that it cannot be read.
	Callback(header http.Header, body []byte) (Event, error)
}

// ErrNotFound is a vendor's word that it has no such call.
var ErrNotFound = errors.New("the vendor has no such call")

// ErrUnsigned refuses a callback whose signature is missing, wrong or too old.
var ErrUnsigned = errors.New("the callback is not signed by the vendor")

// Traits is what a vendor can be trusted with. The zero value trusts it with nothing.
type Traits struct {
	// Resubmit says whether a call may be sent again under its own idempotency key when
	// nobody knows whether the vendor has it.
	Resubmit Resubmit
	// Pace is the wait between questions when the vendor names none; 0 means 5 s.
	Pace time.Duration
	// Timeout of each request to it; 0 means 30 s.
	Timeout time.Duration
	// FindAfter is how long after a submit the vendor's "no such call" may be believed; 0
	// means 1 minute. It matters only where Resubmit is never.
	FindAfter time.Duration
}

// Resubmit is a vendor's answer to the same idempotency key sent twice.
type Resubmit string

// Answers.
const (
	// ResubmitNever: it may do, and bill, the work twice. A call whose answer was lost waits
	// for the vendor's word, as unknown.
	ResubmitNever Resubmit = ""
	// ResubmitSafe: it makes one call of them.
	ResubmitSafe Resubmit = "safe"
)

// WithDefaults fills in what is zero.
func (t Traits) WithDefaults() Traits {
	if t.Pace == 0 {
		t.Pace = 5 * time.Second
	}
	if t.Timeout == 0 {
		t.Timeout = 30 * time.Second
	}
	if t.FindAfter == 0 {
		t.FindAfter = time.Minute
	}
	return t
}

// Submission is a vendor's answer to Submit.
type Submission struct {
	Ref  string // the vendor's name for the call; required
	News News   // what it said besides; the zero value for nothing
}

// News is what a vendor says of a call.
type News struct {
	Status  Status          `json:"status"`
	Percent int             `json:"percent,omitempty"` // 0–100
	Text    string          `json:"text,omitempty"`    // one line for a person
	After   time.Duration   `json:"after,omitempty"`   // ask again after it; 0 for the vendor's usual pace
	Units   int             `json:"units,omitempty"`   // made; of a call that was cancelled, what is there all the same
	Error   string          `json:"error,omitempty"`   // of a failure
	Final   bool            `json:"final,omitempty"`   // of a failure: no new call can do better
	Payload json.RawMessage `json:"payload,omitempty"` // what Download needs to know
}

// Status is a vendor's verdict, or that there is none yet.
type Status string

// Statuses. "" counts as working.
const (
	StatusWorking   Status = "working"
	StatusSucceeded Status = "succeeded" // all of it, or a part: Result.Units tells
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// Verdict reports whether the news is the vendor's last word on the call.
func (n News) Verdict() bool {
	return n.Status == StatusSucceeded || n.Status == StatusFailed || n.Status == StatusCancelled
}

// Event is one callback.
type Event struct {
	ID   string `json:"id"`  // the vendor's name for it: it counts once
	Ref  string `json:"ref"` // the call it is about
	Key  string `json:"key"` // the call's idempotency key, where the vendor repeats it; "" otherwise
	News News   `json:"news"`
}

// CheckVendor says why a vendor cannot be used: nobody would ever hear of its calls.
func CheckVendor(v Vendor) error {
	_, polls := v.(Poller)
	_, calls := v.(Caller)
	if !polls && !calls {
		return fmt.Errorf("provider %s can neither be polled nor calls back", v.Name())
	}
	return nil
}

// Refused marks err as the vendor's own word that it does not have the request and will not
// make it, so that a new one, under a new key, cannot be a second one. Refused(nil) is nil.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &refusedError{err}
}

// IsRefused says whether err, or an error it wraps, was marked by [Refused] or [Permanent], or
// is an [InputError].
func IsRefused(err error) bool {
	_, refused := errors.AsType[*refusedError](err)
	return refused || IsPermanent(err)
}

type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }
