package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
)

// WorkerOptions of NewWorker.
type WorkerOptions struct {
	Ledger          *ledger.Ledger
	Redis           redis.UniversalClient
	Mux             *Mux          // nil means DefaultMux
	Artifacts       *Artifacts    // where outputs go; nil refuses results that have any
	Concurrency     int           // jobs at once; 0 means 16
	LeaseTTL        time.Duration // 0 means ledger.DefaultLeaseTTL
	AttemptTimeout  time.Duration // 0 means ledger.DefaultAttemptTimeout
	ShutdownTimeout time.Duration // how long running jobs may go on at shutdown; 0 means 25 s
	MaxStarts       int           // 0 means ledger.DefaultMaxStarts
	MaxAttempts     int           // of jobs that charge themselves and name none; 0 means ledger.DefaultMaxAttempts
	Logger          *slog.Logger  // nil means slog.Default()
}

// Worker runs jobs.
type Worker struct {
	o     WorkerOptions
	id    string
	log   *slog.Logger
	stats counters

	mu        sync.Mutex
	running   map[string]*attempt // by token
	doubtful  []doubt
	givenBack bool // what was running is given back, and so is what starts now

	abandon chan struct{} // closed when what still runs is no longer waited for
	gone    chan struct{} // closed when Run is over: settling that an outage holds up ends too
}

// doubt is a Start whose answer was lost: the job may be running in this worker's name with
// nobody at it.
type doubt struct{ jobID, token string }

// Stats counts what a worker did with its deliveries, since it was made.
type Stats struct {
	Started   int64 // attempts that ran
	Completed int64 // attempts whose result was the job's
	Failed    int64 // attempts that did not end well, cancelled ones among them
	Late      int64 // attempts that made a result when the job had ended otherwise
	Yielded   int64 // visits that left the job waiting for its vendor, or for another attempt
	Dropped   int64 // deliveries forgotten: ended, running elsewhere, replaced, unreadable
	Unknown   int64 // deliveries of jobs that this ledger does not have
	Unpaid    int64 // tasks that charge themselves and whose account lacked the credits
}

type counters struct{ started, completed, failed, late, yielded, dropped, unknown, unpaid atomic.Int64 }

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
	w := &Worker{o: o, id: ledger.NewID(), running: map[string]*attempt{}, abandon: make(chan struct{}), gone: make(chan struct{})}
	w.log = orDefault(o.Logger).With("worker", w.id)
	return w
}

// ID is minted per start of a process: a worker that comes back is another one.
func (w *Worker) ID() string { return w.id }

// Stats counts what the worker did so far.
func (w *Worker) Stats() Stats {
	s := &w.stats
	return Stats{Started: s.started.Load(), Completed: s.completed.Load(), Failed: s.failed.Load(), Late: s.late.Load(),
		Yielded: s.yielded.Load(), Dropped: s.dropped.Load(), Unknown: s.unknown.Load(), Unpaid: s.unpaid.Load()}
}

const (
	stopWithin    = 5 * time.Second // for each step of a shutdown after the running jobs have had their time
	returnWithin  = time.Second     // for handlers to return once their context has ended
	longestRetry  = 5 * time.Second // between asynq's deliveries while the ledger is away
	taskCheck     = 200 * time.Millisecond
	delayedChecks = time.Second
)

// Run works until ctx ends, then lets running jobs finish for ShutdownTimeout and gives the
// rest back, which uses up none of their attempts. Run it once.
func (w *Worker) Run(ctx context.Context) error {
	defer close(w.gone)
	queueLog := asynqLog{w.log}
	server := asynq.NewServerFromRedisClient(w.o.Redis, asynq.Config{
		Concurrency: w.o.Concurrency, Queues: map[string]int{Queue: 1}, TaskCheckInterval: taskCheck,
		DelayedTaskCheckInterval: delayedChecks, ShutdownTimeout: stopWithin,
		RetryDelayFunc: func(n int, _ error, _ *asynq.Task) time.Duration {
			return min(time.Duration(n+1)*time.Second, longestRetry)
		},
		Logger: queueLog, LogLevel: queueLog.level(),
	})
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer loops.Wait()
	defer stopBackground()
	w.renew(background) // before the first job, so that the worker is known
	loops.Go(func() { every(background, w.o.LeaseTTL/renewals, func() { w.renew(background) }) })
	loops.Go(func() {
		every(background, min(progressEvery, w.o.LeaseTTL/renewals), func() { w.saveProgress(background) })
	})
	if err := server.Start(asynq.HandlerFunc(w.process)); err != nil {
		return fmt.Errorf("start the queue's server: %w", err)
	}

	<-ctx.Done()
	server.Stop() // no new deliveries
	w.drain(w.o.ShutdownTimeout)
	w.giveBack()
	close(w.abandon)
	w.drain(returnWithin)
	server.Shutdown()
	w.drain(returnWithin) // what a delivery under way started after all, and gives back
	stopBackground()
	loops.Wait()
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer stop()
	if err := w.o.Ledger.RemoveWorker(last, w.id); err != nil {
		w.log.Warn("the lease stays until it lapses", "error", err)
	}
	return nil
}

// process is what asynq calls for each delivery. Only an unreachable ledger is an error to
// it; whatever else happens is written in the ledger, and the delivery is over.
func (w *Worker) process(ctx context.Context, task *asynq.Task) error {
	jobID, epoch := string(task.Payload()), 0
	if task.Type() == TypeCharge {
		opened, err := w.charge(ctx, task)
		if err != nil || opened == "" {
			return err
		}
		jobID = opened
	} else if id, ok := asynq.GetTaskID(ctx); ok {
		epoch = epochOf(id)
	}
	token := ledger.NewID()
	// On a context that nobody cancels: a Start whose answer nobody takes would leave the job
	// running in our name. The ledger itself gives an outage up after a while.
	started, err := w.o.Ledger.Start(context.WithoutCancel(ctx), ledger.StartJob{JobID: jobID, Epoch: epoch, Token: token, Worker: w.id,
		LeaseTTL: w.o.LeaseTTL, AttemptTimeout: w.o.AttemptTimeout, MaxStarts: w.o.MaxStarts,
		ClaimsLater: func(jobType string) bool { return w.o.Mux.vendor(jobType) != nil }})
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrInvalid):
		w.stats.unknown.Add(1)
		w.log.Warn("dropped a task of no job of ours", "task", clip(jobID, 80), "epoch", epoch)
		return nil
	case err != nil:
		w.doubt(jobID, token)
		return err
	case started.Verdict == ledger.VerdictDrop:
		w.stats.dropped.Add(1)
		w.log.Debug("dropped a delivery", "job", jobID, "account", started.Job.Account, "epoch", epoch, "why", started.Why)
		return nil
	}
	a := w.begin(started.Job, token)
	go w.run(a)
	select {
	case <-a.done:
		crash.Here(crash.AckBefore)
	case <-w.abandon: // given back: its next epoch is another task
	}
	return nil
}

// doubt remembers a Start whose answer was lost.
func (w *Worker) doubt(jobID, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doubtful = append(w.doubtful, doubt{jobID, token})
}

// clearDoubts gives back what lost Starts may have taken: had one been committed, the job
// would be running in the name of a live worker and no delivery could have it before its
// deadline. A Start that was not committed is fenced here, and forgotten.
func (w *Worker) clearDoubts(ctx context.Context) {
	w.mu.Lock()
	open := w.doubtful
	w.doubtful = nil
	w.mu.Unlock()
	for _, d := range open {
		_, err := w.o.Ledger.Yield(ctx, ledger.YieldJob{JobID: d.jobID, Token: d.token, GiveBack: true})
		switch {
		case err == nil:
			w.log.Warn("gave back a job whose start was committed and not answered", "job", d.jobID)
		case !errors.Is(err, ledger.ErrFenced) && !errors.Is(err, ledger.ErrAlreadySettled) && !errors.Is(err, ledger.ErrNotFound):
			w.doubt(d.jobID, d.token)
		}
	}
}
