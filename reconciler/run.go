package reconciler

import (
	"context"
	"time"
)

const (
	// settleTime is the wait before the first sweep, and before the first one after an outage
	// of the ledger: relays must have had a round, and workers that could not renew their
	// leases must have had the chance. Without it a sweep would take the silence of the
	// outage for the workers' own. One sweep interval is enough where that is shorter.
	settleTime = 10 * time.Second
	// retryTime is how often an unreachable ledger is tried again, at most.
	retryTime = time.Second
)

// Run sweeps every interval until ctx ends, and returns ctx's error. Errors of a sweep are
// logged; none stops it.
func (r *Reconciler) Run(ctx context.Context, interval time.Duration) error {
	for {
		// Also where the ledger was out of reach: wait until it is back, then let everybody
		// report.
		if !r.awaitLedger(ctx, min(interval, retryTime)) || !pause(ctx, min(interval, settleTime)) {
			return ctx.Err()
		}
		for r.sweepOnce(ctx) {
			if !pause(ctx, interval) {
				return ctx.Err()
			}
		}
	}
}

// sweepOnce sweeps and reports whether the ledger was there to the end.
func (r *Reconciler) sweepOnce(ctx context.Context) bool {
	report, err := r.Sweep(ctx, SweepOptions{})
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		r.log.Error("a sweep ended early", "sweep_id", report.SweepID, "seen", report.Seen, "error", err)
		return false
	}
	r.log.Debug("sweep", "sweep_id", report.SweepID, "seen", report.Seen, "refunded", report.Refunded,
		"left", report.Left, "errors", report.Errors)
	return true
}

// awaitLedger waits until the ledger answers; false when ctx ended before.
func (r *Reconciler) awaitLedger(ctx context.Context, every time.Duration) bool {
	for logged := false; ; logged = true {
		_, err := r.ledger.Now(ctx)
		if err == nil {
			return true
		}
		if ctx.Err() == nil && !logged {
			r.log.Warn("the ledger is out of reach; sweeps wait for it", "error", err)
		}
		if !pause(ctx, every) {
			return false
		}
	}
}

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
