package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/makegood/makegood/provider"
)

// Job is what a handler is given. Attempt counts runs that used up one of the job's attempts, so
// it does not grow when a worker gave the job back at shutdown.
type Job struct {
	ID, Key, Tenant, Account, Type string
	Input                          json.RawMessage
	Units                          int    // asked for
	Cost                           int64  // held, in credits
	Attempt                        int    // 1 for the first
	Token                          string // of this attempt; no other has it
	// VendorKey is the idempotency key for a vendor, job_id:n. It is the same in each attempt
	// until the vendor itself has said that it failed (provider.Refused).
	VendorKey string

	report func(percent int, text string)
}

// Progress reports how far the job is: a percentage, kept within 0–100, and a line. Reports
// may come as often as the handler likes; the newest is kept.
func (j Job) Progress(percent int, text string) {
	if j.report != nil {
		j.report(min(max(percent, 0), 100), text)
	}
}

// Result is what a handler made.
type Result struct {
	Outputs []provider.Output
	Text    string
	Units   int    // delivered; 0 means all that were asked for, fewer is a partial delivery
	Cost    *int64 // credits; nil means what was held
	Usage   map[string]int64
}

// HandlerFunc makes what a job asks for. Errors are retried with growing waits until the
// job's attempts are used up; Permanent ends the job at once, RetryAfter names the wait. A panic
// is an error of the attempt.
//
// Its context ends when the attempt's time is over, when somebody cancelled the job
// (context.Cause is ErrCancelled), or when the worker stops and has given the job back
// (ErrShutdown). A result that comes all the same counts if the job is still open.
type HandlerFunc func(ctx context.Context, job Job) (Result, error)

// Permanent marks an error that no retry mends: the job fails and is refunded.
func Permanent(err error) error { return provider.Permanent(err) }

// RetryAfter marks an error that is worth another attempt after a wait.
func RetryAfter(err error, d time.Duration) error { return provider.RetryAfter(err, d) }

// Mux finds the handler of a job's type. It is safe for concurrent use.
type Mux struct {
	mu       sync.RWMutex
	handlers map[string]HandlerFunc
	vendors  map[string]provider.Vendor
}

// NewMux makes a Mux without handlers.
func NewMux() *Mux {
	return &Mux{handlers: map[string]HandlerFunc{}, vendors: map[string]provider.Vendor{}}
}

// DefaultMux is what HandleFunc fills and a Worker without a Mux uses.
var DefaultMux = NewMux()

// HandleFunc plugs a generator for a job type into DefaultMux.
func HandleFunc(jobType string, h HandlerFunc) { DefaultMux.HandleFunc(jobType, h) }

// HandleFunc plugs a generator for a job type in. A type has one handler; a second panics.
func (m *Mux) HandleFunc(jobType string, h HandlerFunc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free(jobType)
	m.handlers[jobType] = h
}

// HandleVendor plugs a vendor for a job type in. A type has one handler; a second panics, and
// so does a vendor that provider.CheckVendor refuses.
func (m *Mux) HandleVendor(jobType string, v provider.Vendor) {
	if err := provider.CheckVendor(v); err != nil {
		panic("tasks: " + err.Error())
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.free(jobType)
	m.vendors[jobType] = v
}

func (m *Mux) free(jobType string) {
	if m.handlers[jobType] != nil || m.vendors[jobType] != nil {
		panic("tasks: two handlers for job type " + jobType)
	}
}

// vendor finds the vendor of a type; nil when a function makes it, or nobody does.
func (m *Mux) vendor(jobType string) provider.Vendor {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.vendors[jobType]
}

// callers are the vendors that call back, by name.
func (m *Mux) callers() map[string]provider.Caller {
	m.mu.RLock()
	defer m.mu.RUnlock()
	list := map[string]provider.Caller{}
	for _, v := range m.vendors {
		if c, ok := v.(provider.Caller); ok {
			list[v.Name()] = c
		}
	}
	return list
}

// handler finds a handler. A type that has none fails for good: the job is refunded rather
// than passed around among workers that cannot do it.
func (m *Mux) handler(jobType string) HandlerFunc {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h, ok := m.handlers[jobType]; ok {
		return h
	}
	return func(context.Context, Job) (Result, error) {
		return Result{}, Permanent(noHandlerError{jobType})
	}
}

// noHandlerError fails a job for good.
type noHandlerError struct{ jobType string }

func (e noHandlerError) Error() string {
	return fmt.Sprintf("this worker has no handler for jobs of type %q", e.jobType)
}

// Provider runs jobs on a provider.
func Provider(p provider.Provider) HandlerFunc {
	return func(ctx context.Context, job Job) (Result, error) {
		made, err := p.Generate(ctx, provider.Request{JobID: job.ID, Key: job.VendorKey, Type: job.Type, Input: job.Input},
			job.Progress)
		if err != nil {
			return Result{}, err
		}
		return resultOf(made), nil
	}
}
