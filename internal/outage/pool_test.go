package outage

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/tasks"
)

const (
	sleepers = 50              // jobs at their vendor at once
	sleep    = 2 * time.Second // of a vendor
	readable = 200 * time.Millisecond
)

// reader reads alice's balance all the time.
type reader struct {
	w    *world
	held sync.Mutex // while somebody looks at the sessions, nobody reads
	took []time.Duration
	stop func()
}

func (w *world) read() *reader {
	r := &reader{w: w}
	r.stop = w.background(func(ctx context.Context) error {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			r.held.Lock()
			begin := time.Now()
			_, err := w.ledger.Balance(ctx, alice)
			r.took = append(r.took, time.Since(begin))
			r.held.Unlock()
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	})
	return r
}

// quick checks that reads were. A machine that is busy with something else may hold up one in
// a hundred, yet none as long as a vendor sleeps.
func (r *reader) quick() {
	r.w.t.Helper()
	r.stop()
	slices.Sort(r.took)
	n := len(r.took)
	require.Greater(r.w.t, n, 20)
	r.w.t.Logf("%d reads: median %s, slowest %s", n, r.took[n/2].Round(time.Microsecond), r.took[n-1].Round(time.Microsecond))
	require.Less(r.w.t, r.took[n-1-n/100], readable)
	require.Less(r.w.t, r.took[n-1], sleep/2)
}

// noTransaction asks the database, over a connection of its own, whether any session of the
// ledger has a transaction open. Nothing but the calls to the vendor must be under way.
func (r *reader) noTransaction(watch *pgx.Conn) {
	w := r.w
	w.t.Helper()
	r.held.Lock()
	defer r.held.Unlock()
	sessions := func(more string) (list []string) {
		rows, err := watch.Query(w.ctx, "SELECT state || ': ' || query FROM pg_stat_activity WHERE application_name = $1"+more, w.sessions())
		require.NoError(w.t, err)
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(w.t, err)
		return list
	}
	require.NotEmpty(w.t, sessions(""), "the ledger has no sessions under this name")
	for range 10 {
		require.Empty(w.t, sessions(" AND (xact_start IS NOT NULL OR state <> 'idle')"))
	}
}

// pooled runs a test with a pool of two connections and with one of a single one.
func pooled(t *testing.T, test func(w *world, r *reader, watch *pgx.Conn)) {
	t.Helper()
	for _, n := range []int32{2, 1} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := onPostgres(t, testenv.Redis(t), postgres.Options{MaxConns: n})
			watch, err := pgx.Connect(t.Context(), w.url)
			require.NoError(t, err)
			defer watch.Close(context.Background())
			r := w.read()
			test(w, r, watch)
			r.quick()
		})
	}
}

// crowded lets all jobs be at their vendor at once, and renews leases rarely: a renewal in the
// moment of looking would be a transaction of its own.
func crowded(o *tasks.WorkerOptions) { o.Concurrency, o.LeaseTTL = sleepers, time.Minute }

func (w *world) submitAll(jobType string) (ids []string) {
	w.t.Helper()
	for i := range sleepers {
		ids = append(ids, w.submit(job(jobType, fmt.Sprint(i))).ID)
	}
	return ids
}

func (w *world) deliveredAll(ids []string) {
	w.t.Helper()
	for _, id := range ids {
		require.Equal(w.t, ledger.StateCompleted, func() ledger.State { j := w.ended(id); return j.State() }())
	}
	w.accounted(int64(len(ids) * price))
}

// The tests of this file measure, so none runs beside another one.

func TestAFewConnectionsServeManySleepingHandlers(t *testing.T) {
	pooled(t, func(w *world, r *reader, watch *pgx.Conn) {
		var asleep atomic.Int64
		w.work(handled(func(context.Context, tasks.Job) (tasks.Result, error) {
			asleep.Add(1)
			time.Sleep(sleep) // a vendor's answer takes that long
			return tasks.Result{}, nil
		}), crowded)
		stopRelay := w.relay()
		ids := w.submitAll(handlerType)
		w.eventually("all are asleep", func() bool { return asleep.Load() == sleepers })
		stopRelay()
		r.noTransaction(watch)
		w.deliveredAll(ids)
	})
}

func TestAFewConnectionsServeManyCallsToAVendor(t *testing.T) {
	pooled(t, func(w *world, r *reader, watch *pgx.Conn) {
		slow := func(call fakevendor.Kind) fakevendor.Fault {
			return fakevendor.Fault{Call: call, Times: -1, Delay: fakevendor.Duration(sleep)}
		}
		vendor := startVendor(w.t, fakevendor.Options{PollAfter: time.Second, Work: fakevendor.Work{Queue: fakevendor.Duration(time.Millisecond)},
			Faults: []fakevendor.Fault{slow(fakevendor.Submit), slow(fakevendor.Get), slow(fakevendor.File)}})
		relay := tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log})
		require.NoError(w.t, relay.Round(w.ctx)) // sets the marker
		relayed := time.Now()
		w.work(soldBy(service(w.t, vendor)), crowded)
		ids := w.submitAll(vendorType)
		calls := map[fakevendor.Kind]bool{fakevendor.Submit: true, fakevendor.Get: true, fakevendor.File: true}
		for range sleepers * 10 {
			if len(calls) == 0 {
				break
			}
			w.eventually("calls of a kind are under way", func() bool {
				if time.Since(relayed) > 100*time.Millisecond { // what waits for its vendor is asked after again
					require.NoError(w.t, relay.Round(w.ctx))
					relayed = time.Now()
				}
				for call := range calls {
					if vendor.Bill().Count(call, "") == sleepers {
						delete(calls, call)
						return true
					}
				}
				return false
			})
			r.noTransaction(watch)
		}
		w.deliveredAll(ids)
		billed(w.t, vendor, ids...)
	})
}
