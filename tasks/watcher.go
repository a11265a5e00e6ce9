package tasks

import (
	"context"
	"log/slog"
	"time"

	"github.com/makegood/makegood/ledger"
)

// WatcherOptions of NewWatcher.
type WatcherOptions struct {
	Ledger   *ledger.Ledger
	Interval time.Duration // between reads; 0 means 1 s; below a third of LeaseTTL
	LeaseTTL time.Duration // 0 means ledger.DefaultLeaseTTL
	Grace    time.Duration // past an attempt's deadline before it is taken from a live worker
	Logger   *slog.Logger  // nil means slog.Default()
}

// Watcher puts the jobs of dead workers back into the queue.
//
// It calls a worker dead by its own reads alone: the first and the last at least one lease
// apart, no gap above a third of a lease, all showing the same renewal. So an outage of the
// database, which stops all renewals and all reads, condemns nobody.
type Watcher struct {
	WatcherOptions
	lastRead time.Time
	seen     map[string]observation // by worker
}

// observation is since when a worker shows the same renewal.
type observation struct {
	renewed time.Time // zero: it has no row
	since   time.Time
}

// NewWatcher makes a watcher.
func NewWatcher(o WatcherOptions) *Watcher {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.LeaseTTL == 0 {
		o.LeaseTTL = ledger.DefaultLeaseTTL
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Watcher{WatcherOptions: o, seen: map[string]observation{}}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	return every(ctx, w.Interval, func() {
		if err := w.Round(ctx); err != nil && ctx.Err() == nil {
			w.Logger.Warn("watcher", "error", err)
		}
	})
}

// Round reads the running jobs and their workers' renewals once.
func (w *Watcher) Round(ctx context.Context) error {
	now, err := w.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	jobs, err := w.running(ctx)
	if err != nil {
		return err
	}
	w.observe(now, jobs)
	for _, j := range jobs {
		o := j.Open
		since := w.seen[o.Worker]
		dead := !o.WorkerAlive(now) && now.Sub(since.since) >= w.LeaseTTL
		late := now.After(o.Deadline.Add(w.Grace))
		if (!dead && !late) || o.Attempts >= j.MaxAttempts {
			continue
		}
		back, err := w.Ledger.PutBack(ctx, ledger.PutBackJob{JobID: j.ID, Token: o.Token, Renewed: since.renewed, Grace: w.Grace})
		if err != nil {
			return err
		}
		if back.Changed {
			w.Logger.Warn("put back into the queue", "job", j.ID, "account", j.Account, "attempt", o.Attempts, "epoch", o.Epoch,
				"worker", o.Worker, "worker_dead", dead)
		}
	}
	return nil
}

// observe notes since when each worker shows the same renewal. After a gap in the reads all
// waiting begins anew.
func (w *Watcher) observe(now time.Time, jobs []ledger.Job) {
	fresh := map[string]observation{}
	gap := now.Sub(w.lastRead) > w.LeaseTTL/3
	for _, j := range jobs {
		id, renewed := j.Open.Worker, j.Open.WorkerRenewedAt
		before, known := w.seen[id]
		if !known || gap || !before.renewed.Equal(renewed) {
			before = observation{renewed, now}
		}
		fresh[id] = before
	}
	w.seen, w.lastRead = fresh, now
}

func (w *Watcher) running(ctx context.Context) (running []ledger.Job, err error) {
	for after := ""; ; {
		jobs, err := w.Ledger.OpenJobs(ctx, after, duePage)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			after = j.ID
			if j.Open.State == ledger.StateRunning {
				running = append(running, j)
			}
		}
		if len(jobs) < duePage {
			return running, nil
		}
	}
}
