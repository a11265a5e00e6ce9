package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
)

// pageSize is how many open jobs are read and decided on together.
const pageSize = 200

// Reports of sweeps that ended no job and met no error are forgotten after idleKept, by the
// sweeps themselves: up to forgetAtOnce each time, which is far more than come. The others are
// kept for ever, like the entries that they explain. What vendors called back with is forgotten
// as late, once no open job can be waiting for it: it may name where a result lies.
const (
	idleKept     = 7 * 24 * time.Hour
	forgetAtOnce = 1000
)

// Defaults of Options.
const (
	DefaultOrphanThreshold = 5 * time.Minute
	DefaultMaxQueueOutage  = 30 * time.Minute
	DefaultAttemptGrace    = 30 * time.Second
	DefaultMaxUnknown      = 24 * time.Hour
)

// Options of New. Zero durations and counts mean the defaults.
type Options struct {
	Ledger          *ledger.Ledger
	OrphanThreshold time.Duration // 0 means 5 minutes
	MaxQueueOutage  time.Duration // 0 means 30 minutes
	AttemptGrace    time.Duration // 0 means 30 seconds; the watcher's should be the same
	MaxUnknown      time.Duration // 0 means 24 hours
	MaxStarts       int           // 0 means ledger.DefaultMaxStarts
	Logger          *slog.Logger  // nil means slog.Default()
}

// Reconciler sweeps the open jobs of one ledger. It is safe for concurrent use.
type Reconciler struct {
	ledger *ledger.Ledger
	policy Policy
	log    *slog.Logger
}

// New makes a Reconciler.
func New(o Options) *Reconciler {
	p := Policy{OrphanThreshold: o.OrphanThreshold, MaxQueueOutage: o.MaxQueueOutage, AttemptGrace: o.AttemptGrace,
		MaxUnknown: o.MaxUnknown, MaxStarts: o.MaxStarts}
	if p.OrphanThreshold == 0 {
		p.OrphanThreshold = DefaultOrphanThreshold
	}
	if p.MaxQueueOutage == 0 {
		p.MaxQueueOutage = DefaultMaxQueueOutage
	}
	if p.AttemptGrace == 0 {
		p.AttemptGrace = DefaultAttemptGrace
	}
	if p.MaxUnknown == 0 {
		p.MaxUnknown = DefaultMaxUnknown
	}
	if p.MaxStarts == 0 {
		p.MaxStarts = ledger.DefaultMaxStarts
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Reconciler{ledger: o.Ledger, policy: p, log: o.Logger}
}

// SweepOptions of Sweep.
type SweepOptions struct {
	// DryRun decides and changes nothing, not even a row of the sweeps table.
	DryRun bool
	// Progress is told how many jobs were seen so far; nil for nobody.
	Progress func(seen int)
}

// Sweep decides once on every open job. A job that makes trouble is counted, logged and
// left; only a ledger that cannot be reached any more, or ctx, ends the sweep early, with
// what was done so far and an error.
func (r *Reconciler) Sweep(ctx context.Context, o SweepOptions) (Report, error) {
	report := Report{SweepID: ledger.NewID(), DryRun: o.DryRun, Decisions: []Decision{}}
	started, err := r.ledger.Now(ctx)
	if err != nil {
		return report, fmt.Errorf("sweep: read the clock: %w", err)
	}
	sweepErr := r.sweepPages(ctx, o, &report)
	if o.DryRun {
		return report, sweepErr
	}
	saveErr := r.save(ctx, &report, started)
	return report, errors.Join(sweepErr, saveErr)
}

func (r *Reconciler) sweepPages(ctx context.Context, o SweepOptions, report *Report) error {
	for after := ""; ; {
		policy, now, err := r.look(ctx)
		if err != nil {
			return fmt.Errorf("sweep: look at the queue: %w", err)
		}
		page, err := r.ledger.OpenJobs(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("sweep: read open jobs after %q: %w", after, err)
		}
		crash.Here(crash.SweepRead)
		for i, v := range r.decideAll(ctx, policy, now, page, o.DryRun) {
			report.Seen++
			if v.err != nil {
				report.fail()
				r.log.Error("the sweep left a job that makes trouble", "job", page[i].ID, "account", page[i].Account, "error", v.err)
				continue
			}
			report.add(page[i], v.decision)
			r.logEnd(page[i], v.decision, o.DryRun)
		}
		if o.Progress != nil {
			o.Progress(report.Seen)
		}
		if len(page) < pageSize {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
		after = page[len(page)-1].ID
	}
}

// look reads the clock and what the relays know, once a page: a long sweep must not decide
// on news of long ago.
func (r *Reconciler) look(ctx context.Context) (Policy, time.Time, error) {
	policy := r.policy
	relays, err := r.ledger.Relays(ctx)
	if err != nil {
		return policy, time.Time{}, err
	}
	now, err := r.ledger.Now(ctx)
	if err != nil {
		return policy, time.Time{}, err
	}
	policy.Queue = HealthOf(relays, now)
	return policy, now, nil
}

// verdict is what became of one job.
type verdict struct {
	decision ledger.SweepDecision
	err      error
}

// decideAll decides on a page. Most jobs are left, which needs no lock; the others go to the
// ledger together, where they share commits.
func (r *Reconciler) decideAll(ctx context.Context, p Policy, now time.Time, page []ledger.Job, dryRun bool) []verdict {
	verdicts := make([]verdict, len(page))
	var wg sync.WaitGroup
	for i, job := range page {
		d, err := decide(p, job, now)
		verdicts[i] = verdict{d, err}
		if err != nil || d.Action == ledger.SweepWait || dryRun {
			continue
		}
		wg.Go(func() { verdicts[i] = r.sweepJob(ctx, p, job.ID) })
	}
	wg.Wait()
	r.oneByOne(ctx, p, page, verdicts)
	return verdicts
}

func (r *Reconciler) sweepJob(ctx context.Context, p Policy, id string) verdict {
	swept, err := r.ledger.Sweep(ctx, ledger.SweepJob{JobID: id, Policy: p.Decide})
	return verdict{swept.Decision, err}
}

// oneByOne tries again what found the ledger unavailable, while it answers. A row that the
// database keeps refusing as contended takes its whole batch along: alone, the others pass.
func (r *Reconciler) oneByOne(ctx context.Context, p Policy, page []ledger.Job, verdicts []verdict) {
	for i := range verdicts {
		if !errors.Is(verdicts[i].err, ledger.ErrUnavailable) {
			continue
		}
		if _, err := r.ledger.Now(ctx); err != nil {
			return
		}
		verdicts[i] = r.sweepJob(ctx, p, page[i].ID)
	}
}

// decide shields the sweep from a row that no one thought of.
func decide(p Policy, job ledger.Job, now time.Time) (d ledger.SweepDecision, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return p.Decide(job, now), nil
}

func (r *Reconciler) logEnd(job ledger.Job, d ledger.SweepDecision, dryRun bool) {
	if d.Action == ledger.SweepWait || dryRun {
		return
	}
	r.log.Info("the sweep ended a job", "job", job.ID, "account", job.Account, "attempt", job.Open.Attempts, "epoch", job.Open.Epoch,
		"worker", job.Open.Worker, "action", string(d.Action),
		"reason", string(d.Reason), "credits", job.Held(), "evidence", string(d.Evidence))
}

// save leaves the sweep's row and drops idle ones of long ago, also for one that ended early or whose caller has gone.
func (r *Reconciler) save(ctx context.Context, report *Report, started time.Time) error {
	ctx = context.WithoutCancel(ctx)
	ended, err := r.ledger.Now(ctx)
	if err != nil {
		return fmt.Errorf("sweep: read the clock: %w", err)
	}
	err = r.ledger.SaveSweep(ctx, ledger.SweepReport{ID: report.SweepID, StartedAt: started, EndedAt: ended,
		Seen: report.Seen, Refunded: report.Refunded, Remaining: report.Left, Errors: report.Errors,
		Decisions: report.stored()})
	if err != nil {
		return fmt.Errorf("sweep: save the report: %w", err)
	}
	if err := r.ledger.ForgetSweeps(ctx, ended.Add(-idleKept), forgetAtOnce); err != nil {
		r.log.Warn("old reports of sweeps stay until the next one", "error", err)
	}
	if err := r.ledger.ForgetVendorEvents(ctx, ended.Add(-idleKept-r.policy.MaxUnknown)); err != nil {
		r.log.Warn("old callbacks of vendors stay until the next sweep", "error", err)
	}
	return nil
}
