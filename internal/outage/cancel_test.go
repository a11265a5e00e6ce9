package outage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/tasks"
)

// heard is how soon the worker of a running job knows that it was cancelled, at most, with
// the default lease.
const heard = 3 * time.Second

func defaultLease(o *tasks.WorkerOptions) { o.LeaseTTL = ledger.DefaultLeaseTTL }

func (w *world) cancelled(id, kinds string) {
	w.t.Helper()
	j := w.ended(id)
	require.Equal(w.t, []any{ledger.StateFailed, ledger.EndCancelled, int64(0)}, []any{j.State(), j.End.Reason, j.End.Charged})
	require.Equal(w.t, kinds, w.kinds(id))
}

func TestCancelOfAQueuedJobEndsItAtOnce(t *testing.T) {
	onBoth(t, func(w *world) {
		w.relay()
		id := w.submit(job(handlerType, "a")).ID
		w.eventually("the queue has it", func() bool { return w.waiting() > 0 })
		j, err := w.cancel(id)
		require.NoError(w.t, err)
		require.NotNil(w.t, j.End)
		w.cancelled(id, kindsUnstarted)
		worker, _ := w.work(handled(func(context.Context, tasks.Job) (tasks.Result, error) { panic("never") }))
		w.eventually("its wake-up finds it ended", func() bool { return worker.Stats().Dropped > 0 })
		require.Zero(w.t, worker.Stats().Started)
		w.accounted(0)
	})
}

// renewed waits for the next renewal of a worker's lease: whoever cancels right after it waits
// longest.
func (w *world) renewed(worker string) {
	w.t.Helper()
	until := func() time.Time {
		leases, err := w.ledger.Workers(w.ctx)
		require.NoError(w.t, err)
		for _, l := range leases {
			if l.ID == worker {
				return l.AliveUntil
			}
		}
		return time.Time{}
	}
	before := until()
	w.eventually("the lease is renewed", func() bool { return until().After(before) })
}

func TestARunningHandlerSoonHearsOfACancel(t *testing.T) {
	onBoth(t, func(w *world) {
		w.relay()
		begun, cause := make(chan struct{}), make(chan error, 1)
		worker, _ := w.work(handled(func(ctx context.Context, _ tasks.Job) (tasks.Result, error) {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return tasks.Result{}, ctx.Err()
		}), defaultLease)
		id := w.submit(job(handlerType, "a")).ID
		<-begun
		w.renewed(worker.ID())
		asked := time.Now()
		j, err := w.cancel(id)
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.StateRunning, j.State(), "a wish")
		require.ErrorIs(w.t, <-cause, tasks.ErrCancelled)
		require.Less(w.t, time.Since(asked), heard)
		w.cancelled(id, kindsStopped)
		w.accounted(0)
	})
}

func TestAVendorSoonHearsOfACancel(t *testing.T) {
	const pace = time.Hour // nobody would ask before
	hold := fakevendor.Work{Hold: true}
	for name, during := range map[string]bool{"while the job waits for it": false, "while it is sent": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(w *world) {
				o := fakevendor.Options{PollAfter: pace, Work: hold}
				if during {
					o.Faults = []fakevendor.Fault{{At: fakevendor.After, Gate: "submit"}}
				}
				vendor := startVendor(w.t, o)
				w.relay(func(o *tasks.RelayOptions) { o.Interval = time.Second }) // the default
				worker, _ := w.work(soldBy(service(w.t, vendor)), defaultLease)
				id := w.submit(job(vendorType, "a")).ID
				if during {
					w.sees(vendor, fakevendor.Held, id)
					w.renewed(worker.ID())
				} else {
					w.eventually("it waits", func() bool { j := w.job(id); return j.State() == ledger.StateQueued && j.Call != nil })
				}
				asked := time.Now()
				_, err := w.cancel(id)
				require.NoError(w.t, err)
				vendor.Open("submit")
				w.sees(vendor, fakevendor.Cancel, id)
				require.Less(w.t, time.Since(asked), heard)
				w.cancelled(id, kindsStopped)
				rows := vendor.Bill().Job(id)
				require.Len(w.t, rows, 1)
				require.Equal(w.t, []any{fakevendor.Cancelled, int64(0)}, []any{rows[0].Status, rows[0].Cost})
				w.accounted(0)
			})
		})
	}
}

// A worker that is killed after a cancel: the job never runs again and still ends, refunded.
func TestACancelOutlivesItsWorker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		jobType string
		at      fakevendor.Point
		others  func(w *world) // who find its job
	}{
		"in a handler, found by the watcher": {handlerType, "", func(w *world) { w.watch() }},
		"in a handler, found by a sweep":     {handlerType, "", func(w *world) { w.sweep(patient) }},
		"at a vendor that accepted it":       {vendorType, fakevendor.After, func(w *world) { w.watch(); w.sweep(patient) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onPostgres(t, testenv.Redis(t), postgres.Options{})
			vendor := startVendor(t, fakevendor.Options{Work: fakevendor.Work{Hold: true},
				Faults: []fakevendor.Fault{{At: c.at, Gate: "submit"}}})
			d := newDesk(t)
			w.relay()
			p := startChild(t, orders{Database: w.url, Redis: w.redisURL, Vendor: vendor.URL(), Key: vendor.Key(), Desk: d.url})
			id := w.submit(job(c.jobType, "a")).ID
			if c.jobType == vendorType {
				w.sees(vendor, fakevendor.Held, id)
			} else {
				w.eventually("the handler waits", func() bool { return d.seen("a") == 1 })
			}
			_, err := w.cancel(id)
			require.NoError(t, err)
			p.kill()
			w.outlives(vendor, d, id, func() { c.others(w) })
			vendor.Open("submit")
		})
	}
}

// outlives lets everything else go on after the worker of a cancelled job has died.
func (w *world) outlives(vendor *fakevendor.Vendor, d *desk, id string, others func()) {
	w.t.Helper()
	j := w.job(id)
	require.NotNil(w.t, j.Open, "the worker was faster than the kill")
	require.False(w.t, j.Open.CancelAt.IsZero())
	mux := soldBy(service(w.t, vendor))
	mux.HandleFunc(handlerType, func(context.Context, tasks.Job) (tasks.Result, error) { panic("never") })
	worker, _ := w.work(mux)
	others()
	w.cancelled(id, kindsStopped)
	if rows := vendor.Bill().Job(id); j.Type == vendorType {
		require.Len(w.t, rows, 1)
		require.Equal(w.t, []any{fakevendor.Cancelled, int64(0)}, []any{rows[0].Status, rows[0].Cost})
		require.Equal(w.t, 1, vendor.Bill().Count(fakevendor.Submit, id), "nothing was sent again")
	} else {
		require.Zero(w.t, worker.Stats().Started)
		require.Equal(w.t, 1, d.seen("a"))
	}
	w.accounted(0)
}

// A worker dies between Start and its call, or after the call's number was stored, and no
// process is there to remember it.
func TestACancelledJobOfAWorkerWithoutALeaseIsNeverSubmitted(t *testing.T) {
	onBoth(t, func(w *world) {
		vendor := startVendor(w.t, fakevendor.Options{})
		w.relay()
		opened, err := w.ledger.Open(w.ctx, job(vendorType, "a"))
		require.NoError(w.t, err)
		id := opened.Job.ID
		started, err := w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Epoch: opened.Job.Open.Epoch, Token: "t", Worker: "ghost", LeaseTTL: lease,
			ClaimsLater: func(string) bool { return true }})
		if err != nil || started.Verdict != ledger.VerdictRun { // the relay was faster with a new epoch
			started, err = w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Token: "t", Worker: "ghost", LeaseTTL: lease,
				ClaimsLater: func(string) bool { return true }})
		}
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.VerdictRun, started.Verdict)
		_, err = w.cancel(id)
		require.NoError(w.t, err)
		claimed, err := w.ledger.ClaimCall(w.ctx, ledger.ClaimCall{JobID: id, Token: "t", Provider: "generations"})
		require.NoError(w.t, err)
		require.Equal(w.t, []any{false, "cancelled"}, []any{claimed.Permit, claimed.Why}, "from the cancel on nothing is permitted")
		require.NoError(w.t, w.ledger.RemoveWorker(w.ctx, "ghost"))
		w.work(soldBy(service(w.t, vendor)))
		w.watch()
		w.sweep(patient)
		w.cancelled(id, kindsStopped)
		require.Zero(w.t, vendor.Bill().Count(fakevendor.Submit, ""))
		w.accounted(0)
	})
}

// Cancel and completion race: whoever is first wins, whole, and the other one is told.
func TestCancelAndCompletionRace(t *testing.T) {
	onBoth(t, func(w *world) {
		const races = 30
		const renewal = 100 * time.Millisecond
		asked := make([]chan struct{}, races)
		w.relay()
		_, stop := w.work(handled(func(ctx context.Context, j tasks.Job) (tasks.Result, error) {
			var i int
			if err := json.Unmarshal([]byte(j.Key), &i); err != nil {
				return tasks.Result{}, err
			}
			<-asked[i]
			// Some at once, some about when the worker hears of it, some after that.
			wait := time.Duration(i%10) * renewal / 2
			if i%10 == 9 {
				wait = patience
			}
			result := time.NewTimer(wait)
			defer result.Stop()
			select {
			case <-result.C:
				return tasks.Result{}, nil
			case <-ctx.Done():
				return tasks.Result{}, ctx.Err()
			}
		}), func(o *tasks.WorkerOptions) { o.Concurrency, o.LeaseTTL = races, 4*renewal })
		ids := make([]string, races)
		for i := range ids {
			asked[i] = make(chan struct{})
			ids[i] = w.submit(job(handlerType, fmt.Sprint(i))).ID
		}
		for _, id := range ids {
			w.running(id)
		}
		var g sync.WaitGroup
		for i, id := range ids {
			g.Go(func() {
				close(asked[i])
				if _, err := w.cancel(id); err != nil && !errors.Is(err, ledger.ErrAlreadySettled) {
					w.t.Errorf("cancel: %v", err)
				}
			})
		}
		g.Wait()
		won := map[ledger.EndReason]int{}
		for _, id := range ids {
			j := w.ended(id)
			won[j.End.Reason]++
			again, err := w.cancel(id)
			if j.State() == ledger.StateCompleted {
				require.Equal(w.t, kindsDelivered, w.kinds(id))
				require.ErrorIs(w.t, err, ledger.ErrAlreadySettled)
				continue
			}
			w.cancelled(id, kindsStopped)
			require.NoError(w.t, err, "the same cancel again")
			require.Equal(w.t, ledger.EndCancelled, again.End.Reason)
		}
		stop()
		require.Equal(w.t, races, won[ledger.EndDelivered]+won[ledger.EndCancelled])
		require.Positive(w.t, won[ledger.EndDelivered])
		require.Positive(w.t, won[ledger.EndCancelled])
		w.accounted(int64(won[ledger.EndDelivered] * price))
	})
}

// The same race where it is decided: the worker obeys the cancel while the result of an
// earlier attempt arrives, in two processes.
func TestCancelAndCompletionRaceInTheLedger(t *testing.T) {
	onBoth(t, func(w *world) {
		const races = 30
		completed := 0
		for i := range races {
			opened, err := w.ledger.Open(w.ctx, job(handlerType, fmt.Sprint(i)))
			require.NoError(w.t, err)
			id := opened.Job.ID
			_, err = w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Epoch: 1, Token: "t", Worker: "w"})
			require.NoError(w.t, err)
			_, err = w.cancel(id)
			require.NoError(w.t, err)
			var completes, fails error
			var g sync.WaitGroup
			complete := func() {
				_, completes = w.ledger.Complete(w.ctx, ledger.CompleteJob{JobID: id, Token: "t", Actual: price, Delivered: 1})
			}
			fail := func() {
				_, fails = w.ledger.Fail(w.ctx, ledger.FailJob{JobID: id, Token: "t", Reason: ledger.EndCancelled})
			}
			both := []func(){complete, fail}
			g.Go(both[i%2])
			g.Go(both[1-i%2])
			g.Wait()
			if completes == nil {
				completed++
				require.ErrorIs(w.t, fails, ledger.ErrAlreadySettled)
				require.Equal(w.t, kindsDelivered, w.kinds(id))
				_, err = w.cancel(id)
				require.ErrorIs(w.t, err, ledger.ErrAlreadySettled)
				continue
			}
			require.ErrorIs(w.t, completes, ledger.ErrAlreadySettled)
			require.NoError(w.t, fails)
			w.cancelled(id, kindsStopped)
		}
		w.accounted(int64(completed * price))
	})
}
