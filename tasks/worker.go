package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// WorkerOptions of NewWorker.
type WorkerOptions struct {
	Ledger          *ledger.Ledger
	Redis           redis.UniversalClient
	Mux             *Mux          // nil means DefaultMux
	Artifacts       *Artifacts    // where outputs go; nil refuses jobs that have any
	Concurrency     int           // jobs at once; 0 means 16
	LeaseTTL        time.Duration // 0 means ledger.DefaultLeaseTTL
	AttemptTimeout  time.Duration // 0 means ledger.DefaultAttemptTimeout
	ShutdownTimeout time.Duration // 0 means 25 s
	MaxStarts       int           // 0 means ledger.DefaultMaxStarts
	MaxAttempts     int           // of jobs that charge themselves and name none
	Logger          *slog.Logger  // nil means slog.Default()
}

// Worker runs jobs.
type Worker struct {
	WorkerOptions
	id string

	mu      sync.Mutex
	running map[string]*attempt // by job id

	dropped, unpaid atomic.Int64
}

// attempt is a run of a job in this process.
type attempt struct {
	job    ledger.Job
	token  string
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu      sync.Mutex
	percent int
	text    string
	news    bool
}

// Why a handler's context ended, beside its deadline.
var (
	errCancelled = errors.New("the job was cancelled")
	errShutdown  = errors.New("the worker shuts down")
)

// NewWorker makes a worker with an id of its own.
func NewWorker(o WorkerOptions) *Worker {
	if o.Mux == nil {
		o.Mux = DefaultMux
	}
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = ledger.DefaultLeaseTTL
	}
	if o.ShutdownTimeout == 0 {
		o.ShutdownTimeout = 25 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	w := &Worker{WorkerOptions: o, id: ledger.NewID(), running: map[string]*attempt{}}
	w.Logger = o.Logger.With("worker", w.id)
	return w
}

// ID is minted per start of a process: a worker that comes back is another one.
func (w *Worker) ID() string { return w.id }

// Dropped counts deliveries that were forgotten: ended, running elsewhere, unknown.
func (w *Worker) Dropped() int64 { return w.dropped.Load() }

// Unpaid counts self-charging tasks whose account lacked the credits.
func (w *Worker) Unpaid() int64 { return w.unpaid.Load() }

// Run works until ctx ends, then lets running jobs finish for ShutdownTimeout and gives the
// rest back, which uses up none of their attempts.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.renew(ctx); err != nil {
		return err
	}
	server := asynq.NewServerFromRedisClient(w.Redis, asynq.Config{
		Concurrency: w.Concurrency, Queues: map[string]int{Queue: 1}, TaskCheckInterval: 200 * time.Millisecond,
		DelayedTaskCheckInterval: time.Second, ShutdownTimeout: w.ShutdownTimeout + 5*time.Second,
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration {
			return min(time.Duration(n+1)*time.Second, 5*time.Second)
		},
		Logger: asynqLog{w.Logger}, LogLevel: asynq.WarnLevel,
	})
	if err := server.Start(asynq.HandlerFunc(w.process)); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}
	leases, stopLeases := context.WithCancel(context.WithoutCancel(ctx))
	var leasing sync.WaitGroup
	leasing.Go(func() { w.lease(leases) })
	<-ctx.Done()
	server.Stop()
	w.drain()
	w.giveBack(context.WithoutCancel(ctx))
	server.Shutdown()
	stopLeases()
	leasing.Wait()
	if err := w.Ledger.RemoveWorker(context.WithoutCancel(ctx), w.id); err != nil {
		w.Logger.Warn("the lease stays until it lapses", "error", err)
	}
	return nil
}

// process is what asynq calls for each delivery. Only an unreachable ledger is an error to
// it; whatever else happens is written in the ledger, and the delivery is over.
func (w *Worker) process(ctx context.Context, task *asynq.Task) error {
	jobID, epoch := string(task.Payload()), 0
	if task.Type() == TypeCharge {
		job, err := w.charge(ctx, task)
		if err != nil || job == "" {
			return err
		}
		jobID = job
	} else if id, ok := asynq.GetTaskID(ctx); ok {
		epoch = epochOf(id)
	}
	token := ledger.NewID()
	started, err := w.Ledger.Start(ctx, ledger.StartJob{JobID: jobID, Epoch: epoch, Token: token, Worker: w.id, LeaseTTL: w.LeaseTTL,
		AttemptTimeout: w.AttemptTimeout, MaxStarts: w.MaxStarts})
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrInvalid):
		w.dropped.Add(1)
		w.Logger.Warn("dropped a task of no job of ours", "task", jobID)
		return nil
	case err != nil:
		return err
	case started.Verdict != ledger.VerdictRun:
		w.dropped.Add(1)
		w.Logger.Debug("dropped a delivery", "job", jobID, "epoch", epoch, "why", started.Why)
		return nil
	}
	w.run(started.Job, token)
	return nil
}

// charge opens a task that charges itself; "" when it may not run.
func (w *Worker) charge(ctx context.Context, task *asynq.Task) (jobID string, err error) {
	var c Charge
	if err := json.Unmarshal(task.Payload(), &c); err != nil {
		w.dropped.Add(1)
		w.Logger.Warn("dropped a task that cannot be read", "error", err)
		return "", nil
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = w.MaxAttempts
	}
	opened, err := w.Ledger.Open(ctx, c.open())
	switch {
	case err == nil:
		return opened.Job.ID, nil
	case errors.Is(err, ledger.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "", err
	case errors.Is(err, ledger.ErrInsufficientCredits):
		w.unpaid.Add(1)
	default:
		w.dropped.Add(1)
	}
	w.Logger.Warn("a task could not be charged and does not run", "account", c.Account, "type", c.Type, "error", err)
	return "", nil
}

// run runs one attempt on a context of its own: asynq cancels the task's when Redis is away,
// and that is no reason to stop a vendor.
func (w *Worker) run(job ledger.Job, token string) {
	deadline, stop := context.WithDeadline(context.Background(), time.Now().Add(job.Open.Deadline.Sub(job.Open.StartedAt)))
	defer stop()
	ctx, cancel := context.WithCancelCause(deadline)
	defer cancel(nil)
	a := &attempt{job: job, token: token, cancel: cancel, done: make(chan struct{})}
	w.mu.Lock()
	w.running[job.ID] = a
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		if w.running[job.ID] == a {
			delete(w.running, job.ID)
		}
		w.mu.Unlock()
		close(a.done)
	}()
	log := w.Logger.With("job", job.ID, "account", job.Account, "attempt", job.Open.Attempts, "epoch", job.Open.Epoch)
	log.Info("started", "type", job.Type)
	result, err := w.call(ctx, a)
	if err == nil {
		err = w.complete(a, result, log)
	}
	if err != nil {
		w.fail(a, err, context.Cause(ctx), log)
	}
}

// call runs the handler; a panic is an error of the attempt.
func (w *Worker) call(ctx context.Context, a *attempt) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			w.Logger.Error("a handler panicked", "job", a.job.ID, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("the generator panicked: %v", p)
		}
	}()
	j := a.job
	return w.Mux.handler(j.Type)(ctx, Job{ID: j.ID, Key: j.Key, Tenant: j.Tenant, Account: j.Account, Type: j.Type, Input: j.Input,
		Units: j.Units, Cost: j.Open.Held, Attempt: j.Open.Attempts, Token: a.token, report: a.report})
}

func (a *attempt) report(percent int, text string) {
	a.mu.Lock()
	a.percent, a.text, a.news = percent, text, true
	a.mu.Unlock()
}

// complete stores the artefacts and then the completion that names them. A loser removes only
// its own.
func (w *Worker) complete(a *attempt, r Result, log *slog.Logger) error {
	ctx := context.Background() // settling outlives shutdown and the attempt's deadline
	c := ledger.CompleteJob{JobID: a.job.ID, Token: a.token, Actual: a.job.Open.Held, Delivered: a.job.Units,
		Result: ledger.Result{Artifacts: []ledger.Artifact{}, Usage: r.Usage}}
	if r.Cost != nil {
		c.Actual = *r.Cost
	}
	if r.Units > 0 {
		c.Delivered = r.Units
	}
	if r.Text != "" {
		c.Result.Text = &r.Text
	}
	for n, out := range r.Outputs {
		if w.Artifacts == nil {
			return Permanent(errors.New("this worker has no store for outputs"))
		}
		stored, err := w.Artifacts.Write(ctx, a.job.ID, a.token, n, out)
		if err != nil {
			w.Artifacts.Remove(ctx, c.Result.Artifacts)
			return err
		}
		c.Result.Artifacts = append(c.Result.Artifacts, stored)
	}
	err := w.settle(func() error { _, err := w.Ledger.Complete(ctx, c); return err })
	if err != nil {
		if w.Artifacts != nil {
			w.Artifacts.Remove(ctx, c.Result.Artifacts)
		}
		if errors.Is(err, ledger.ErrAlreadySettled) || errors.Is(err, ledger.ErrFenced) {
			log.Warn("finished too late; the result is discarded", "error", err)
			return nil
		}
		return Permanent(err) // an actual cost out of bounds, say
	}
	log.Info("completed", "charged_at_most", c.Actual)
	return nil
}

// fail writes down how an attempt went wrong.
func (w *Worker) fail(a *attempt, failure, cause error, log *slog.Logger) {
	ctx := context.Background()
	reason := &ledger.JobError{Code: "generator_error", Message: clip(failure.Error())}
	err := w.settle(func() error {
		switch {
		case errors.Is(cause, errShutdown):
			_, err := w.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, GiveBack: true})
			return err
		case errors.Is(cause, errCancelled):
			_, err := w.Ledger.Fail(ctx, ledger.FailJob{JobID: a.job.ID, Token: a.token, Reason: ledger.EndCancelled})
			return err
		case provider.IsPermanent(failure):
			_, err := w.Ledger.Fail(ctx, ledger.FailJob{JobID: a.job.ID, Token: a.token, Error: reason})
			return err
		}
		_, err := w.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, After: backoff(a.job.Open.Attempts, failure), Error: reason})
		return err
	})
	log.Warn("attempt failed", "error", reason.Message, "permanent", provider.IsPermanent(failure), "ledger", err)
}

// clip keeps a vendor's words within what the ledger's readers want to see.
func clip(s string) string {
	const most = 1000
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// backoff is the wait before the next attempt: what the vendor asked for, or 1 s doubled with
// each attempt up to a minute, spread so that many do not come back at once.
func backoff(attempt int, err error) time.Duration {
	if d, ok := provider.RetryDelay(err); ok {
		return d
	}
	d := min(time.Second<<min(attempt-1, 6), time.Minute)
	return d/2 + rand.N(d/2+1)
}

// settle repeats what must be written until the ledger has answered: a result or a refund is
// not lost to an outage.
func (w *Worker) settle(write func() error) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := write()
		if !errors.Is(err, ledger.ErrUnavailable) {
			return err
		}
		w.Logger.Warn("the ledger is away; settling waits", "error", err)
		time.Sleep(wait)
	}
}

// asynqLog sends asynq's log to ours.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug(fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Warn(fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)); os.Exit(1) }
