// Package provider is the seam between a charged job and whatever makes its
// result: an image model behind HTTP, a renderer in this process, a person.
//
// A [Provider] answers while one waits; a [Vendor] takes the request and answers later.
// Neither knows anything of credits held, accounts or queues. Everything
// that makes a charge safe (attempts, keys, refunds) happens around it, so this
// package imports nothing of Makegood's.
//
// Three outcomes of Generate matter to the caller:
//
//   - a Result and a nil error: delivered. Fewer Units than Estimate asked for
//     means delivered in part; the account then pays Result.Cost, no more.
//   - an error marked with [Permanent] or an [InputError]: trying again cannot
//     help, the job is failed and its credits go back.
//   - any other error: worth another attempt, at once or after the delay that
//     [RetryAfter] put on it.
//
// Implementations are safe for concurrent use.
package provider

import (
	"context"
	"encoding/json"
)

// Provider makes what a job asked for.
type Provider interface {
	// Name is short, stable and stored with each job, for example "local".
	Name() string

	// Estimate says what the request would cost and how many units it asks
	// for. It does no I/O and validates the input of a job of the given kind
	// as fully as Generate would: an input that it accepts is one that
	// Generate never refuses. Whatever is wrong is an [InputError].
	Estimate(input json.RawMessage) (Estimate, error)

	// Generate runs the request and blocks until it is made, failed, or ctx
	// is done; then it returns ctx's cause, unmarked, so that the job may be
	// tried again. progress may be nil.
	Generate(ctx context.Context, req Request, progress Progress) (Result, error)
}

// Progress is told how far a request has come: percent from 0 to 100, never
// falling, and one line for a person. It is called from the goroutine that
// runs Generate and should return quickly.
type Progress = func(percent int, text string)

// Estimate is the price of a request before it runs.
type Estimate struct {
	Cost  int64 // credits, for all units
	Units int   // what is asked for: pictures, clips, answers
}

// Request is one attempt at a job.
type Request struct {
	JobID string          // the job's ULID
	Key   string          // idempotency key for the vendor: the same key never makes work twice
	Again bool            // the key may have been sent before, and its answer was lost
	Type  string          // kind of work, for example "image"
	Input json.RawMessage // as the client sent it
}

// Result is what was delivered.
type Result struct {
	Outputs []Output         // artefacts in order; may be empty when Text is the result
	Text    string           // result or remark as text; may be empty
	Units   int              // delivered, at most Estimate.Units
	Cost    int64            // credits for what was delivered
	Usage   map[string]int64 // what the vendor counted, by name; may be nil
}

// Output is one artefact.
type Output struct {
	ContentType string // media type, for example "image/png"
	Data        []byte
}
