package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/makegood/makegood/ledger"
)

// WatcherOptions of NewWatcher.
type WatcherOptions struct {
	Ledger   *ledger.Ledger
	Interval time.Duration // between reads; 0 means 1 s; at most a quarter of LeaseTTL is used
	LeaseTTL time.Duration // 0 means ledger.DefaultLeaseTTL
	Grace    time.Duration // past an attempt's deadline before it is taken from a live worker
	Logger   *slog.Logger  // nil means slog.Default()
}

// Watcher puts the jobs of dead workers, and attempts past their deadline, back into the
// queue. Two may run: each put-back is decided again under lock.
//
// It calls a worker dead by its own reads alone: the first and the last at least one lease
// apart, no gap above a third of a lease, all showing the same renewal. So an outage of the
// database, which stops all renewals and all reads, condemns nobody. A worker without a row
// counts likewise; one that stops in order gives its jobs back itself.
type Watcher struct {
	o        WatcherOptions
	log      *slog.Logger
	lastRead time.Time // end of it
	seen     map[string]observation
	tidied   time.Time
}

// observation is since when a worker shows the same renewal.
type observation struct {
	renewed time.Time // zero: it has no row
	since   time.Time // end of the first read, by this process's clock
}

const (
	tidyEvery = time.Minute
	tidyAfter = time.Hour // how long the row of a dead worker is kept for people to see
)

// NewWatcher makes a watcher.
func NewWatcher(o WatcherOptions) *Watcher {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = ledger.DefaultLeaseTTL
	}
	o.Interval = min(o.Interval, o.LeaseTTL/4)
	return &Watcher{o: o, log: orDefault(o.Logger), seen: map[string]observation{}}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	every(ctx, w.o.Interval, func() {
		if err := w.Round(ctx); err != nil && ctx.Err() == nil {
			w.log.Warn("a round of the watcher ended early; the next goes on", "error", err)
		}
	})
	return nil
}

// Round reads the running jobs and their workers' renewals once, and puts back what is lost.
func (w *Watcher) Round(ctx context.Context) error {
	begin := time.Now()
	now, err := w.o.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	var jobs []ledger.Job
	// Only what runs: a backlog must not make a round longer than the gap that it may have.
	err = eachPage(ctx, w.o.Ledger.Running, func(page []ledger.Job) error {
		jobs = append(jobs, page...)
		return nil
	})
	if err != nil {
		return err
	}
	w.observe(time.Now(), jobs)
	var errs []error
	for _, j := range jobs {
		if err := w.judge(ctx, j, begin, now); err != nil {
			errs = append(errs, err)
			if errors.Is(err, ledger.ErrUnavailable) || ctx.Err() != nil {
				break
			}
		}
	}
	return errors.Join(append(errs, w.tidy(ctx, now))...)
}

// observe notes since when each worker shows the same renewal. After a gap in the reads all
// waiting begins anew.
func (w *Watcher) observe(end time.Time, jobs []ledger.Job) {
	gap := end.Sub(w.lastRead) > w.o.LeaseTTL/3
	seen := map[string]observation{}
	for _, j := range jobs {
		id, renewed := j.Open.Worker, j.Open.WorkerRenewedAt
		before, known := w.seen[id]
		if !known || gap || !before.renewed.Equal(renewed) {
			before = observation{renewed, end}
		}
		seen[id] = before
	}
	w.seen, w.lastRead = seen, end
}

// judge puts one running job back if it is lost. One without an attempt left is the sweep's,
// unless a vendor has it: then somebody must go on asking.
func (w *Watcher) judge(ctx context.Context, j ledger.Job, begin, now time.Time) error {
	o := j.Open
	seen := w.seen[o.Worker]
	dead := !o.WorkerAlive(now) && begin.Sub(seen.since) >= w.o.LeaseTTL
	late := now.After(o.Deadline.Add(w.o.Grace))
	if (!dead && !late) || (o.Attempts >= j.MaxAttempts && j.Call == nil) {
		return nil
	}
	back, err := w.o.Ledger.PutBack(ctx, ledger.PutBackJob{JobID: j.ID, Token: o.Token, Renewed: seen.renewed, Grace: w.o.Grace})
	if err != nil {
		return err
	}
	if back.Changed {
		w.log.Warn("put back into the queue", "job", j.ID, "account", j.Account, "attempt", o.Attempts, "epoch", o.Epoch,
			"worker", o.Worker, "worker_dead", dead)
	}
	return nil
}

// tidy removes the rows of workers that have been dead for long, which changes nothing: a
// worker without a row is dead.
func (w *Watcher) tidy(ctx context.Context, now time.Time) error {
	if time.Since(w.tidied) < tidyEvery {
		return nil
	}
	w.tidied = time.Now()
	leases, err := w.o.Ledger.Workers(ctx)
	if err != nil {
		return err
	}
	for _, l := range leases {
		if _, runs := w.seen[l.ID]; runs || now.Sub(l.AliveUntil) < tidyAfter {
			continue
		}
		if err := w.o.Ledger.RemoveWorker(ctx, l.ID); err != nil {
			return err
		}
	}
	return nil
}
