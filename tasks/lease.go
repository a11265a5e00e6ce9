package tasks

import (
	"context"
	"os"
	"time"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
)

const (
	// renewals of a lease within its length: two may fail, and with the default lease a cancel
	// is heard of within 3 s.
	renewals      = 4
	progressEvery = 500 * time.Millisecond // between saves of the newest reports
	progressLen   = 200                    // bytes of a report's line
)

// renew renews the worker's lease and stops the jobs that somebody asked to cancel. A renewal
// that fails is tried again: the worker goes on meanwhile, since only a watcher that can read
// decides that it is dead.
func (w *Worker) renew(ctx context.Context) {
	within, stop := context.WithTimeout(ctx, max(w.o.LeaseTTL/3, time.Second))
	defer stop()
	host, _ := os.Hostname()
	crash.Here(crash.RenewBefore)
	cancelled, err := w.o.Ledger.RenewWorker(within, ledger.WorkerLease{ID: w.id, Host: host, PID: os.Getpid()}, w.o.LeaseTTL)
	crash.Here(crash.RenewAfter)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Warn("the lease could not be renewed", "error", err)
		}
		return
	}
	asked := map[string]bool{}
	for _, id := range cancelled {
		asked[id] = true
	}
	for _, a := range w.attempts() {
		if asked[a.job.ID] {
			a.cancel(ErrCancelled)
		}
	}
	w.clearDoubts(within)
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

// saveProgress saves the newest report of each attempt.
func (w *Worker) saveProgress(ctx context.Context) {
	for _, a := range w.attempts() {
		a.mu.Lock()
		percent, text, news := a.percent, a.text, a.news
		a.news = false
		a.mu.Unlock()
		if !news {
			continue
		}
		if err := w.o.Ledger.SaveProgress(ctx, a.job.ID, a.token, percent, clip(text, progressLen)); err != nil && ctx.Err() == nil {
			a.log.Debug("progress was not saved", "error", err)
		}
	}
}

// drain waits until nothing runs, for so long at most.
func (w *Worker) drain(most time.Duration) {
	over := time.NewTimer(most)
	defer over.Stop()
	for list := w.attempts(); len(list) > 0; list = w.attempts() {
		select {
		case <-list[0].done:
		case <-over.C:
			return
		}
	}
}

// giveBack returns what is still running to the queue, and then tells the handlers to stop: in
// this order another worker may have a job at once, however long its handler takes to return.
func (w *Worker) giveBack() {
	w.mu.Lock()
	w.givenBack = true
	w.mu.Unlock()
	ctx, stop := context.WithTimeout(context.Background(), stopWithin)
	defer stop()
	for _, a := range w.attempts() {
		if _, err := w.o.Ledger.Yield(ctx, ledger.YieldJob{JobID: a.job.ID, Token: a.token, GiveBack: true}); err != nil {
			a.log.Warn("could not be given back; the watcher will put it back", "error", err)
		} else {
			a.log.Info("given back")
		}
		a.cancel(ErrShutdown)
	}
	w.clearDoubts(ctx)
}
