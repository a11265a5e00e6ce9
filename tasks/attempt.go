package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// Why a handler's context ended, beside its deadline; see context.Cause.
var (
	ErrCancelled = errors.New("the job was cancelled")
	ErrShutdown  = errors.New("the worker stops and has given the job back")
)

// attempt is a run of a job in this process.
type attempt struct {
	job    ledger.Job
	token  string
	log    *slog.Logger
	ctx    context.Context //nolint:containedctx // is the attempt
	cancel context.CancelCauseFunc
	stop   context.CancelFunc
	done   chan struct{}
	call   *ledger.Call // at a vendor, whose result is being delivered; nil for none

	mu      sync.Mutex
	percent int
	text    string
	news    bool
}

// begin registers an attempt. It runs on a context of its own: asynq cancels the task's when
// Redis is away, and that is no reason to stop a vendor. Its time is measured by this
// machine's clock, its deadline was set by the database's.
func (w *Worker) begin(job ledger.Job, token string) *attempt {
	deadline, stop := context.WithTimeout(context.Background(), job.Open.Deadline.Sub(job.Open.StartedAt))
	ctx, cancel := context.WithCancelCause(deadline)
	a := &attempt{job: job, token: token, ctx: ctx, cancel: cancel, stop: stop, done: make(chan struct{}),
		log: w.log.With("job", job.ID, "account", job.Account, "attempt", job.Open.Attempts, "epoch", job.Open.Epoch)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[token] = a
	if w.givenBack {
		cancel(ErrShutdown)
	}
	return a
}

func (w *Worker) run(a *attempt) {
	defer func() {
		a.cancel(nil)
		a.stop()
		w.mu.Lock()
		delete(w.running, a.token)
		w.mu.Unlock()
		close(a.done)
	}()
	if context.Cause(a.ctx) != nil { // shutdown came between Start and here
		w.fail(a, a.ctx.Err())
		return
	}
	w.stats.started.Add(1)
	a.log.Info("started", "type", a.job.Type)
	if v := w.o.Mux.vendor(a.job.Type); v != nil || a.job.Call != nil {
		w.atVendor(a, v)
		return
	}
	result, err := w.call(a)
	crash.Here(crash.Generate)
	if err == nil {
		err = w.complete(a, result)
	}
	if err != nil {
		w.stats.failed.Add(1)
		w.fail(a, err)
	}
}

// call runs the handler; a panic is an error of the attempt.
func (w *Worker) call(a *attempt) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = w.panicked(a, p)
		}
	}()
	j := a.job
	return w.o.Mux.handler(j.Type)(a.ctx, Job{ID: j.ID, Key: j.Key, Tenant: j.Tenant, Account: j.Account, Type: j.Type, Input: j.Input,
		Units: j.Units, Cost: j.Open.Held, Attempt: j.Open.Attempts, Token: a.token,
		VendorKey: ledger.CallKey(j.ID, j.Open.N), report: a.report})
}

// panicked logs a panic without its text, which may hold what the client sent.
func (w *Worker) panicked(a *attempt, p any) error {
	what := fmt.Sprintf("%T", p)
	if fault, ok := p.(runtime.Error); ok {
		what = fault.Error()
	}
	a.log.Error("a handler panicked", "panic", what, "stack", string(debug.Stack()))
	return panicError{p}
}

type panicError struct{ value any }

func (p panicError) Error() string { return fmt.Sprintf("the handler panicked: %v", p.value) }

func (a *attempt) report(percent int, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.percent, a.text, a.news = percent, text, true
}

// complete stores the artefacts and then the completion that names them. A loser removes only
// its own.
func (w *Worker) complete(a *attempt, r Result) error {
	c, err := completion(a, r)
	if err != nil {
		return err
	}
	c.Result.Artifacts, err = w.store(a, r.Outputs)
	if err != nil {
		return err
	}
	if err = w.settle(func(ctx context.Context) error { _, err := w.o.Ledger.Complete(ctx, c); return err }); err == nil {
		w.stats.completed.Add(1)
		a.log.Info("completed", "actual", c.Actual, "delivered", c.Delivered)
		return nil
	}
	if errors.Is(err, ledger.ErrUnavailable) {
		return err // the process ends; the completion may have been committed, so its artefacts stay
	}
	w.remove(c.Result.Artifacts)
	if errors.Is(err, ledger.ErrAlreadySettled) {
		if w.recordLate(a) {
			w.stats.late.Add(1)
			a.log.Warn("the job had ended otherwise; the result is discarded")
		} else {
			a.log.Info("the job has ended; the result is discarded and was known")
		}
		return nil
	}
	return Permanent(err) // an actual cost out of bounds, say
}

// completion says what a result means for the ledger.
func completion(a *attempt, r Result) (ledger.CompleteJob, error) {
	c := ledger.CompleteJob{JobID: a.job.ID, Token: a.token, Actual: a.job.Open.Held, Delivered: a.job.Units, Result: ledger.Result{Usage: r.Usage}}
	if r.Cost != nil {
		c.Actual = *r.Cost
	}
	switch {
	case r.Units < 0:
		return c, Permanent(fmt.Errorf("the handler delivered %d units", r.Units))
	case r.Units > a.job.Units: // nobody pays for what was not asked for
		c.Delivered, c.Actual = a.job.Units, min(c.Actual, a.job.Open.Held)
	case r.Units > 0:
		c.Delivered = r.Units
	}
	if text := clean(r.Text); text != "" {
		c.Result.Text = &text
	}
	return c, nil
}

// storeTries is how often an output is offered to the store: the vendor was paid for it.
const storeTries = 4

// store writes the outputs, or none of them.
func (w *Worker) store(a *attempt, outputs []provider.Output) ([]ledger.Artifact, error) {
	stored := []ledger.Artifact{}
	if len(outputs) > 0 && w.o.Artifacts == nil {
		return nil, Permanent(errors.New("this worker has no store for outputs"))
	}
	for n, out := range outputs {
		var artifact ledger.Artifact
		var err error
		for try := range storeTries {
			if try > 0 && !pause(a.ctx, time.Second<<(try-1)) {
				break
			}
			// A late result may still win, so not the attempt's context.
			if artifact, err = w.o.Artifacts.Write(context.WithoutCancel(a.ctx), a.job.ID, a.token, n, out); err == nil || provider.IsPermanent(err) {
				break
			}
		}
		if err != nil {
			w.remove(stored)
			return nil, fmt.Errorf("%w: %w", errStore, err)
		}
		stored = append(stored, artifact)
	}
	return stored, nil
}

var errStore = errors.New("the result could not be stored")

func (w *Worker) remove(artifacts []ledger.Artifact) {
	if len(artifacts) > 0 {
		w.o.Artifacts.Remove(context.Background(), artifacts)
	}
}

// fail writes down how an attempt went wrong.
func (w *Worker) fail(a *attempt, failure error) {
	cause := context.Cause(a.ctx)
	reason := &ledger.JobError{Code: code(failure, cause), Message: clip(failure.Error(), 1000)}
	end := a.job
	how := "will be tried again"
	err := w.settle(func(ctx context.Context) error {
		var done ledger.Failed
		var err error
		switch {
		case errors.Is(cause, ErrCancelled):
			done, err = w.o.Ledger.Fail(ctx, ledger.FailJob{JobID: a.job.ID, Token: a.token, Reason: ledger.EndCancelled})
		case errors.Is(cause, ErrShutdown):
			done, err = w.o.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, GiveBack: true})
		case provider.IsPermanent(failure):
			done, err = w.o.Ledger.Fail(ctx, ledger.FailJob{JobID: a.job.ID, Token: a.token, Error: reason, Word: ledger.WordFailed})
		default:
			done, err = w.o.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, After: backoff(a.job.Open.Attempts, failure), Error: reason,
				Word: word(failure)})
		}
		end = done.Job
		return err
	})
	switch {
	case err != nil:
		a.log.Warn("the attempt failed and is no longer the job's", "code", reason.Code, "error", err)
	default:
		if end.End != nil {
			how = string(end.End.Reason)
		}
		a.log.Warn("the attempt failed", "code", reason.Code, "job_is", how)
	}
}

// word is what a handler's error says for its vendor.
func word(failure error) ledger.CallWord {
	if provider.IsRefused(failure) {
		return ledger.WordFailed
	}
	return ledger.WordNone
}

// code names a failure.
func code(failure, cause error) string {
	_, noHandler := errors.AsType[noHandlerError](failure)
	_, panicked := errors.AsType[panicError](failure)
	_, invalid := errors.AsType[*provider.InputError](failure)
	switch {
	case errors.Is(cause, ErrCancelled):
		return "cancelled"
	case errors.Is(cause, ErrShutdown):
		return "shutdown"
	case panicked:
		return "panic"
	case noHandler:
		return "no_handler"
	case invalid:
		return string(ledger.CodeInvalid)
	case errors.Is(failure, errStore):
		return "store_error"
	case errors.Is(cause, context.DeadlineExceeded) && errors.Is(failure, context.DeadlineExceeded):
		return "timeout"
	}
	return "generator_error"
}

// backoff is the wait before the next attempt: what the vendor asked for, or 1 s doubled with
// each attempt up to a minute, spread so that many do not come back at once.
func backoff(attempt int, err error) time.Duration {
	if d, ok := provider.RetryDelay(err); ok {
		return d
	}
	const most = 6 // 64 s, so the cap holds
	d := min(time.Second<<min(max(attempt-1, 0), most), time.Minute)
	return d/2 + rand.N(d/2+1)
}

// settle repeats what must be written until the ledger has answered: a result or a refund is
// not lost to an outage, nor to a shutdown before its time is over.
func (w *Worker) settle(write func(context.Context) error) error {
	ctx := context.Background() // the ledger bounds each try
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := write(ctx)
		if !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		w.log.Warn("the ledger is away; settling waits", "error", err)
		timer := time.NewTimer(wait)
		select {
		case <-w.gone:
			timer.Stop()
			return err
		case <-timer.C:
		}
	}
}

// clean makes text storable: UTF-8 without NUL, which PostgreSQL refuses.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// clip keeps somebody's words within so many bytes, and storable.
func clip(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return clean(s)
}
