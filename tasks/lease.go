package tasks

import (
	"context"
	"os"
	"time"

	"github.com/makegood/makegood/ledger"
)

// progressEvery is how often a worker's newest reports are saved.
const progressEvery = 500 * time.Millisecond

// lease renews the worker's lease, three times within its length, and saves progress, until
// ctx ends. A renewal that fails is tried again: the worker goes on meanwhile, since only a
// watcher that reads decides that it is dead.
func (w *Worker) lease(ctx context.Context) {
	renewAt := time.Now()
	_ = every(ctx, min(progressEvery, w.LeaseTTL/3), func() {
		w.saveProgress(ctx)
		if time.Now().Before(renewAt) {
			return
		}
		renewAt = time.Now().Add(w.LeaseTTL / 3)
		if err := w.renew(ctx); err != nil && ctx.Err() == nil {
			w.Logger.Warn("the lease could not be renewed", "error", err)
		}
	})
}

// renew renews the lease and stops the jobs that somebody asked to cancel.
func (w *Worker) renew(ctx context.Context) error {
	host, _ := os.Hostname()
	cancelled, err := w.Ledger.RenewWorker(ctx, ledger.WorkerLease{ID: w.id, Host: host, PID: os.Getpid()}, w.LeaseTTL)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range cancelled {
		if a := w.running[id]; a != nil {
			a.cancel(errCancelled)
		}
	}
	return err
}

func (w *Worker) attempts() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]*attempt, 0, len(w.running))
	for _, a := range w.running {
		list = append(list, a)
	}
	return list
}

func (w *Worker) saveProgress(ctx context.Context) {
	for _, a := range w.attempts() {
		a.mu.Lock()
		percent, text, news := a.percent, a.text, a.news
		a.news = false
		a.mu.Unlock()
		if !news {
			continue
		}
		if err := w.Ledger.SaveProgress(ctx, a.job.ID, a.token, percent, clip(text)); err != nil && ctx.Err() == nil {
			w.Logger.Debug("progress was not saved", "job", a.job.ID, "error", err)
		}
	}
}

// drain waits for running jobs, for ShutdownTimeout at most.
func (w *Worker) drain() {
	over := time.NewTimer(w.ShutdownTimeout)
	defer over.Stop()
	for _, a := range w.attempts() {
		select {
		case <-a.done:
		case <-over.C:
			return
		}
	}
}

// giveBack returns what is still running to the queue before its handler is told to stop, so
// that another worker may have it at once.
func (w *Worker) giveBack(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	for _, a := range w.attempts() {
		_, err := w.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, GiveBack: true})
		w.Logger.Info("given back", "job", a.job.ID, "account", a.job.Account, "attempt", a.job.Open.Attempts, "error", err)
		a.cancel(errShutdown)
	}
}
