package reconciler

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// orphan opens a job whose task the queue refuses for longer than the threshold.
func (w *world) orphan() string {
	w.t.Helper()
	w.relay(time.Time{})
	job := w.open(alice, 8)
	w.clock.advance(6 * time.Minute)
	w.refuse(job)
	w.relay(time.Time{})
	return job
}

func (w *world) sweep() Report {
	w.t.Helper()
	r, err := w.reconciler().Sweep(w.ctx, SweepOptions{})
	require.NoError(w.t, err)
	return r
}

func TestOrphanIsRefundedOnceByTwoSweepsAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 100)
		job := w.orphan()
		require.EqualValues(t, 92, w.available(alice))

		var reports [2]Report
		var errs [2]error
		var wg sync.WaitGroup
		for i := range reports {
			wg.Go(func() { reports[i], errs[i] = w.reconciler().Sweep(w.ctx, SweepOptions{}) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs[:]...))
		require.Equal(t, 1, reports[0].Refunded+reports[1].Refunded)
		require.EqualValues(t, 100, w.available(alice))

		j := w.job(job)
		require.Equal(t, ledger.StateRefunded, j.State())
		require.Equal(t, ledger.EndOrphaned, j.End.Reason)
		var e evidence
		require.NoError(t, json.Unmarshal(j.End.Evidence, &e))
		require.Equal(t, evidence{LastSignOfLife: "2026-03-01T12:00:00.000Z", Sign: "deduct", Threshold: "5m", Epoch: 1,
			Queue: "refused", Vendor: "no_reference"}, e)
		require.Equal(t, 2, w.count("SELECT count(*) FROM sweeps"))
		require.True(t, w.verify().OK)
	})
}

func TestSweepRacesCompletion(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		const jobs = 12
		w.grant(alice, 1000)
		ids := make([]string, jobs)
		for i := range ids {
			ids[i] = w.open(alice, 8, attempts(1))
			w.start(ids[i])
		}
		w.clock.advance(6 * time.Minute)
		var swept Report
		var sweepErr error
		delivered := make([]bool, jobs)
		var wg sync.WaitGroup
		wg.Go(func() { swept, sweepErr = w.reconciler().Sweep(w.ctx, SweepOptions{}) })
		for i, id := range ids {
			wg.Go(func() {
				_, err := w.ledger.Complete(w.ctx, ledger.CompleteJob{JobID: id, Token: id + "-t", Actual: 8, Delivered: 1})
				delivered[i] = err == nil
				if err != nil && !errors.Is(err, ledger.ErrAlreadySettled) {
					t.Errorf("complete: %v", err)
				}
			})
		}
		wg.Wait()
		require.NoError(t, sweepErr)
		done := 0
		for i, id := range ids {
			want := ledger.StateRefunded
			if delivered[i] {
				want = ledger.StateCompleted
				done++
			}
			j := w.job(id)
			require.Equal(t, want, j.State())
		}
		require.Equal(t, jobs, swept.Refunded+done)
		require.EqualValues(t, 1000-8*done, w.available(alice))
		require.True(t, w.verify().OK)
	})
}

func TestDryRunChangesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 100)
		job := w.orphan()
		late := w.open(alice, 3)
		seen := 0
		r, err := w.reconciler().Sweep(w.ctx, SweepOptions{DryRun: true, Progress: func(n int) { seen = n }})
		require.NoError(t, err)
		require.Equal(t, 2, seen)
		require.True(t, r.DryRun)
		require.Equal(t, []int{2, 1, 1, 0}, []int{r.Seen, r.Refunded, r.Left, r.Errors})
		require.Equal(t, job, r.Decisions[0].JobID)
		require.Equal(t, late, r.Decisions[1].JobID)
		require.Equal(t, WaitRecent, r.Decisions[1].Reason)
		j := w.job(job)
		require.Equal(t, ledger.StateQueued, j.State())
		require.EqualValues(t, 89, w.available(alice))
		require.Zero(t, w.count("SELECT count(*) FROM sweeps"))
	})
}

// TestEachEnding drives one job into each row of the table that ends it.
func TestEachEnding(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 100)
		orphan := w.orphan()
		maxed := w.open(alice, 1, maxWait(time.Second))
		cancel := w.open(alice, 2)
		w.start(cancel)
		_, err := w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: "default", JobID: cancel})
		require.NoError(t, err)
		spent := w.open(alice, 4, attempts(1))
		w.start(spent)
		w.clock.advance(20 * time.Minute)
		w.relay(time.Time{})
		r := w.sweep()
		require.Equal(t, []int{4, 4, 0, 0}, []int{r.Seen, r.Refunded, r.Left, r.Errors})
		for id, want := range map[string]ledger.EndReason{orphan: ledger.EndOrphaned, maxed: ledger.EndMaxWait,
			cancel: ledger.EndCancelled, spent: ledger.EndOrphaned} {
			j := w.job(id)
			require.Equal(t, want, j.End.Reason)
			require.NotEmpty(t, j.End.Evidence)
		}
		require.EqualValues(t, 100, w.available(alice))
		require.Zero(t, w.sweep().Seen)
		require.True(t, w.verify().OK)
	})
}

func TestLiveWorkerPastItsDeadline(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 10)
		job := w.open(alice, 4, attempts(1))
		w.start(job)
		w.clock.advance(ledger.DefaultAttemptTimeout + DefaultAttemptGrace)
		renew := func() {
			_, err := w.ledger.RenewWorker(w.ctx, ledger.WorkerLease{ID: "w1"}, 10*time.Second)
			require.NoError(t, err)
		}
		renew()
		require.Zero(t, w.sweep().Refunded)
		w.clock.advance(time.Second)
		renew()
		require.Equal(t, 1, w.sweep().Refunded)
		require.Equal(t, ledger.EndExhausted, w.job(job).End.Reason)
	})
}

func TestQueueOutage(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 10)
		w.open(alice, 4)
		start := w.clock.read()
		w.clock.advance(29 * time.Minute)
		w.relay(start)
		require.Equal(t, WaitUnproven, w.sweep().Decisions[0].Reason)
		w.clock.advance(2 * time.Minute)
		require.Zero(t, w.sweep().Refunded, "no relay is at work")
		w.relay(start)
		r := w.sweep()
		require.Equal(t, 1, r.Refunded)
		require.Contains(t, string(r.Decisions[0].Evidence), `"threshold":"30m"`)
		require.EqualValues(t, 10, w.available(alice))
	})
}

func TestSweepsThatDecidedNothingAreForgottenAfterAWeek(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 100)
		w.sweep() // nothing to do
		w.orphan()
		require.Equal(t, 1, w.sweep().Refunded)
		w.clock.advance(idleKept - 7*time.Minute)
		w.sweep()
		require.Equal(t, 3, w.count("SELECT count(*) FROM sweeps"), "the first is not quite a week old")
		w.clock.advance(2 * time.Minute)
		w.sweep()
		require.Equal(t, 3, w.count("SELECT count(*) FROM sweeps"), "it made room for the newest")
		w.clock.advance(2 * idleKept)
		w.sweep()
		require.Equal(t, 2, w.count("SELECT count(*) FROM sweeps"))
		require.Equal(t, 1, w.count("SELECT count(*) FROM sweeps WHERE refunded = 1"), "what ended a job is kept")
	})
}

func TestSweepForgetsOldCallbacks(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		require.NoError(t, w.ledger.SaveVendorEvent(w.ctx, ledger.VendorEvent{Provider: "studio", ID: "e", Ref: "r", News: []byte("{}")}))
		w.clock.advance(idleKept)
		w.sweep()
		require.Equal(t, 1, w.count("SELECT count(*) FROM vendor_events"), "a job may wait for it")
		w.clock.advance(DefaultMaxUnknown + time.Minute)
		w.sweep()
		require.Zero(t, w.count("SELECT count(*) FROM vendor_events"))
	})
}

// TestBadRowNeverStopsASweep: the database refuses to end one of the jobs.
func TestBadRowNeverStopsASweep(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 1000)
		const jobs = pageSize + 7
		ids := make([]string, jobs)
		for i := range ids {
			ids[i] = w.open(alice, 1, maxWait(time.Second))
		}
		bad := ids[3]
		// An outcome that stands already without the job having ended.
		w.exec("INSERT INTO credit_transactions (id, account_id, kind, delta, job_id, reason, actor, created_at) " +
			"SELECT '" + ledger.NewID() + "', account_id, 'task_failed', 0, job_id, 'x', 'x', created_at FROM jobs WHERE job_id = '" + bad + "'")
		w.clock.advance(time.Minute)
		var log bytes.Buffer
		r := New(Options{Ledger: w.ledger, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		report, err := r.Sweep(w.ctx, SweepOptions{})
		require.NoError(t, err)
		require.Equal(t, []int{jobs, jobs - 1, 1, 1}, []int{report.Seen, report.Refunded, report.Left, report.Errors})
		require.Contains(t, log.String(), bad)
		require.Equal(t, 1, w.count("SELECT errors FROM sweeps"))
	})
}

func TestReportShape(t *testing.T) {
	t.Parallel()
	r := Report{SweepID: "s", Decisions: []Decision{}}
	for range maxWaits + 5 {
		p, j := subject(opened(0))
		r.add(j, p.Decide(j, noon))
	}
	require.Len(t, r.Decisions, maxWaits)
	require.Equal(t, maxWaits+5, r.Left)
	r.Decisions = r.Decisions[:1]
	raw, err := json.Marshal(r)
	require.NoError(t, err)
	require.JSONEq(t, `{"sweep_id":"s","dry_run":false,"seen":0,"refunded":0,"left":105,"errors":0,"decisions":[
		{"job_id":"j","state":"queued","action":"wait","reason":"recent","evidence":{"last_sign_of_life":"2026-03-01T12:00:00.000Z",
		"sign":"deduct","threshold":"5m","attempt":0,"epoch":1,"queue":"unknown","vendor":"no_reference"}}]}`, string(raw))
	require.JSONEq(t, `[{"job_id":"j","state":"queued","action":"wait","reason":"recent","evidence":null}]`, string(r.stored()))
}
