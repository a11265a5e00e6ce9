package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/makegood/makegood/ledger"
)

// Charge is a task that charges itself: enqueued by plain asynq code with no Open before, it
// is opened by the worker that takes it. Without the credits it does not run, is not tried
// again and leaves nothing behind. Its Key makes it one job however often it is delivered,
// also when the same job is submitted under that key in the ordinary way.
type Charge struct {
	Tenant      string          `json:"tenant"`
	Account     string          `json:"account"`
	Type        string          `json:"type"`
	Key         string          `json:"key"`  // required
	Cost        int64           `json:"cost"` // credits
	Units       int             `json:"units,omitempty"`
	Input       json.RawMessage `json:"input,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	MaxAttempts int             `json:"max_attempts,omitempty"` // 0 means the worker's default
	MaxWait     time.Duration   `json:"max_wait,omitempty"`     // counted from when a worker opens it
}

// errNoKey refuses a Charge that each delivery would charge anew.
var errNoKey = ledger.Invalid("key", "is required: a task may be delivered twice, and the key makes it one charge")

// open is the command that charges it.
func (c Charge) open() (ledger.OpenJob, error) {
	job := ledger.OpenJob{AccountName: ledger.AccountName{Tenant: c.Tenant, Name: c.Account}, Key: c.Key, Type: c.Type, Cost: c.Cost,
		Units: c.Units, Input: c.Input, Metadata: c.Metadata, MaxAttempts: c.MaxAttempts, MaxWait: c.MaxWait, CheckAfter: firstLook,
		Actor: ledger.ActorWorker}
	if c.Key == "" {
		return job, errNoKey
	}
	return job, job.Validate()
}

// NewTask makes the asynq task of a Charge, after the same checks as a submit. Enqueue it with
// any asynq client; it names its queue itself. Errors are ledger.ErrInvalid.
func NewTask(c Charge) (*asynq.Task, error) {
	if _, err := c.open(); err != nil {
		return nil, err
	}
	var payload bytes.Buffer
	to := json.NewEncoder(&payload)
	to.SetEscapeHTML(false) // would make an input longer than it was
	if err := to.Encode(c); err != nil {
		return nil, fmt.Errorf("encode charge: %w", err)
	}
	return asynq.NewTask(TypeCharge, payload.Bytes(), asynq.Queue(Queue), asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout)), nil
}

// charge opens a task that charges itself; "" when it may not run.
func (w *Worker) charge(ctx context.Context, task *asynq.Task) (jobID string, err error) {
	var c Charge
	if err := json.Unmarshal(task.Payload(), &c); err != nil {
		w.stats.dropped.Add(1)
		w.log.Warn("dropped a task that charges itself and cannot be read", "bytes", len(task.Payload()))
		return "", nil //nolint:nilerr // no delivery of it will be better
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = w.o.MaxAttempts
	}
	job, err := c.open()
	var opened ledger.Opened
	if err == nil {
		opened, err = w.o.Ledger.Open(ctx, job)
	}
	switch {
	case err == nil:
		return opened.Job.ID, nil
	case errors.Is(err, ledger.ErrInsufficientCredits):
		w.stats.unpaid.Add(1)
	case errors.Is(err, ledger.ErrInvalid), errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrClosed),
		errors.Is(err, ledger.ErrKeyReused), errors.Is(err, ledger.ErrConflict):
		w.stats.dropped.Add(1)
	default: // the ledger could not be reached, or this worker stops
		return "", err
	}
	w.log.Warn("a task could not be charged and does not run", "account", c.Account, "type", c.Type, "error", err)
	return "", nil
}
