package outage

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/tasks"
)

// A process that freezes inside a transaction delays those on the same account by at most
// three seconds. Others go on beside them, unless the very same commit was to serve both.
func TestAProcessFrozenInsideATransactionDelaysOthersLittle(t *testing.T) {
	t.Parallel()
	w := onPostgres(t, testenv.Redis(t), postgres.Options{})
	for i := range 10 {
		w.grant(ledger.AccountName{Tenant: alice.Tenant, Name: fmt.Sprint("other-", i)}, price)
	}
	p := startChild(t, orders{Database: w.url, Freeze: true})
	p.frozen()
	begin, same := time.Now(), make(chan error, 1)
	go func() { _, err := w.ledger.Open(w.ctx, job(handlerType, "same")); same <- err }()
	w.eventually("it waits for the lock", func() bool {
		var waiting int
		require.NoError(t, w.db.QueryRowContext(w.ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND wait_event_type = 'Lock'",
			w.sessions()).Scan(&waiting))
		return waiting == 1
	})
	for i := range 10 {
		o, asked := job(handlerType, fmt.Sprint(i)), time.Now()
		o.Name = fmt.Sprint("other-", i)
		_, err := w.ledger.Open(w.ctx, o)
		require.NoError(t, err)
		require.Less(t, time.Since(asked), 200*time.Millisecond, "another account")
	}
	require.Empty(t, same, "the frozen process holds the lock")
	require.NoError(t, <-same)
	require.Less(t, time.Since(begin), 3*time.Second, "the same account")
	t.Logf("delayed by %s", time.Since(begin).Round(time.Millisecond))

	p.signal(syscall.SIGCONT)
	require.NoError(t, p.cmd.Wait(), "it must find its transaction lost")
	workers, err := w.ledger.Workers(w.ctx)
	require.NoError(t, err)
	require.Empty(t, workers, "nothing of it was written")
}

// A worker that is frozen while its job is at a vendor and thaws long after another one has
// delivered the job: one call, one charge.
func TestAWorkerFrozenDuringASubmitThawsToNothing(t *testing.T) {
	t.Parallel()
	for _, at := range []fakevendor.Point{fakevendor.Before, fakevendor.After} {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			w := onPostgres(t, testenv.Redis(t), postgres.Options{})
			vendor := startVendor(t, fakevendor.Options{Faults: []fakevendor.Fault{{At: at, Gate: "submit"}}})
			w.relay()
			w.watch()
			p := startChild(t, orders{Database: w.url, Redis: w.redisURL, Vendor: vendor.URL(), Key: vendor.Key(), Desk: "http://127.0.0.1:1"})
			id := w.submit(job(vendorType, "a")).ID
			w.sees(vendor, fakevendor.Held, id)
			p.signal(syscall.SIGSTOP)
			p.frozen()
			w.pass(3 * lease)
			w.work(soldBy(service(t, vendor)))
			j := w.ended(id)
			require.Equal(t, ledger.StateCompleted, j.State())

			vendor.Open("submit")
			p.signal(syscall.SIGCONT)
			p.signal(syscall.SIGTERM)
			did := p.stopped()
			require.Zero(t, did.Completed+did.Failed+did.Yielded, "%+v", did)
			require.Equal(t, kindsDelivered, w.kinds(id))
			billed(t, vendor, id)
			require.Equal(t, fakevendor.Succeeded, vendor.Bill().Job(id)[0].Status)
			w.accounted(price)
		})
	}
}

func TestAWorkerFrozenInAHandlerThawsToNothing(t *testing.T) {
	t.Parallel()
	w := onPostgres(t, testenv.Redis(t), postgres.Options{})
	w.relay()
	w.watch()
	d := newDesk(t)
	p := startChild(t, orders{Database: w.url, Redis: w.redisURL, Desk: d.url})
	id := w.submit(job(handlerType, "a")).ID
	w.eventually("the handler waits", func() bool { return d.seen("a") == 1 })
	p.signal(syscall.SIGSTOP)
	p.frozen()
	w.pass(3 * lease)
	var calls atomic.Int64
	w.work(handled(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil }))
	j := w.ended(id)
	require.Equal(t, ledger.StateCompleted, j.State())
	require.EqualValues(t, 1, calls.Load())

	d.let("a")
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	did := p.stopped()
	require.Equal(t, []int64{1, 0, 1}, []int64{did.Started, did.Completed, did.Late}, "its result came too late")
	require.Equal(t, j.End.Token, w.job(id).End.Token)
	require.Equal(t, kindsDelivered, w.kinds(id))
	w.accounted(price)
}

// SIGTERM to a worker whose jobs do not finish: they are handed over, no attempt is used up,
// and what a vendor was asked for is not asked for again.
func TestSIGTERMHandsOverWhatDoesNotFinish(t *testing.T) {
	t.Parallel()
	const timeout, handover = time.Second, 2 * time.Second
	w := onPostgres(t, testenv.Redis(t), postgres.Options{})
	vendor := startVendor(t, fakevendor.Options{Faults: []fakevendor.Fault{{At: fakevendor.After, Gate: "submit", Times: 2}}})
	w.relay()
	w.watch()
	d := newDesk(t)
	p := startChild(t, orders{Database: w.url, Redis: w.redisURL, Vendor: vendor.URL(), Key: vendor.Key(), Desk: d.url, Shutdown: timeout})
	handlers := map[string]string{}
	for _, key := range []string{"hears", "hears too", "deaf", "deaf too", "quick"} {
		handlers[key] = w.submit(job(handlerType, key)).ID
		w.eventually(key+" waits", func() bool { return d.seen(key) == 1 })
	}
	sold := []string{}
	for _, key := range []string{"sold", "sold too"} {
		id := w.submit(job(vendorType, key)).ID
		w.sees(vendor, fakevendor.Held, id)
		sold = append(sold, id)
	}

	begin := time.Now()
	p.signal(syscall.SIGTERM)
	d.let("quick")
	unfinished := append([]string{handlers["hears"], handlers["hears too"], handlers["deaf"], handlers["deaf too"]}, sold...)
	for _, id := range unfinished {
		w.eventually("it is handed over", func() bool { j := w.job(id); return j.State() == ledger.StateQueued })
	}
	took := time.Since(begin)
	require.Less(t, took, timeout+handover)
	require.GreaterOrEqual(t, took, timeout, "they had their time")
	t.Logf("handed over %s after SHUTDOWN_TIMEOUT", (took - timeout).Round(time.Millisecond))
	for _, id := range unfinished {
		require.Zero(t, w.job(id).Open.Attempts)
	}
	require.Equal(t, ledger.StateCompleted, func() ledger.State { j := w.job(handlers["quick"]); return j.State() }())
	did := p.stopped()
	require.EqualValues(t, 1, did.Completed)

	mux := soldBy(service(t, vendor))
	var firsts atomic.Int64
	mux.HandleFunc(handlerType, func(_ context.Context, j tasks.Job) (tasks.Result, error) {
		if j.Attempt == 1 {
			firsts.Add(1)
		}
		return tasks.Result{}, nil
	})
	w.work(mux)
	for _, id := range unfinished {
		j := w.ended(id)
		require.Equal(t, ledger.StateCompleted, j.State())
		require.Equal(t, kindsDelivered, w.kinds(id))
	}
	require.EqualValues(t, 4, firsts.Load())
	for _, id := range sold {
		require.Equal(t, 1, vendor.Bill().Count(fakevendor.Submit, id), "the submit was not repeated")
	}
	billed(t, vendor, sold...)
	vendor.Open("submit")
	w.accounted(int64(len(unfinished)+1) * price)
}
