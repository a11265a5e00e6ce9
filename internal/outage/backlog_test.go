package outage

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

const (
	backlogLen = 2000

	// threshold stands for the five minutes of ORPHAN_THRESHOLD. The relays look less often
	// than that, so that most of the backlog is silent for most of the time.
	threshold = time.Second
)

// patient sweeps by the scaled threshold and takes no outage for too long.
var patient = reconciler.Options{OrphanThreshold: threshold, MaxQueueOutage: 10 * time.Minute}

// fill submits a backlog for which there is no worker.
func (w *world) fill(n int, change func(i int, o *ledger.OpenJob)) []string {
	w.t.Helper()
	const accounts = 20
	for i := range accounts {
		w.grant(ledger.AccountName{Tenant: alice.Tenant, Name: fmt.Sprint("user-", i)}, int64(n*price/accounts))
	}
	ids := make([]string, n)
	var g errgroup.Group
	g.SetLimit(64)
	for i := range ids {
		o := job(handlerType, fmt.Sprint(i))
		o.Name = fmt.Sprint("user-", i%accounts)
		if change != nil {
			change(i, &o)
		}
		ids[i] = o.ID
		g.Go(func() error { _, err := w.client.Submit(w.ctx, o); return err })
	}
	require.NoError(w.t, g.Wait())
	return ids
}

// age waits until the whole backlog is old.
func (w *world) age() {
	w.t.Helper()
	filled := time.Now()
	w.eventually("the backlog is old", func() bool { return time.Since(filled) > 3*threshold })
}

// runAll runs everything that is open, and counts the runs of each job.
func (w *world) runAll() (calls func(id string) int64) {
	w.t.Helper()
	var runs sync.Map
	_, stop := w.work(handled(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
		n, _ := runs.LoadOrStore(j.ID, new(atomic.Int64))
		n.(*atomic.Int64).Add(1) //nolint:errcheck // all are
		return tasks.Result{}, nil
	}), func(o *tasks.WorkerOptions) { o.Concurrency, o.LeaseTTL = 64, 10*time.Second })
	w.eventually("everything ends", func() bool {
		open, err := w.ledger.OpenJobs(w.ctx, "", 1)
		require.NoError(w.t, err)
		return len(open) == 0
	})
	stop()
	return func(id string) int64 {
		if n, ok := runs.Load(id); ok {
			return n.(*atomic.Int64).Load() //nolint:errcheck // all are
		}
		return 0
	}
}

// waiting is how many tasks the queue has, 0 also when it is away.
func (w *world) waiting() int {
	n, err := w.redis.LLen(w.ctx, "asynq:{"+tasks.Queue+"}:pending").Result()
	if err != nil {
		return 0
	}
	return int(n)
}

// alone keeps backlogs apart: several at once would measure how busy the machine is.
var alone = make(chan struct{}, 1)

// backlog is the story of 2000 waiting jobs: something happens to their queue while sweeps run
// all the time; then workers come and all of them run, once.
func backlog(w *world, happens func(stopRelay func())) {
	w.t.Helper()
	alone <- struct{}{}
	defer func() { <-alone }()
	stopRelay := w.relay()
	swept, stopSweeps := w.sweep(patient)
	ids := w.fill(backlogLen, nil)
	w.age()
	require.Positive(w.t, swept.waited(reconciler.WaitUnproven), "no job was ever silent: the sweeps had nothing to decide")
	happens(stopRelay)
	took := w.within(patience, "the queue has all of them", func() bool { return w.waiting() >= backlogLen })
	w.t.Logf("the queue has all of them after %s", took.Round(time.Millisecond))
	w.age()
	require.Zero(w.t, swept.refunded())
	begin := time.Now()
	calls := w.runAll()
	w.t.Logf("all of them have run after %s", time.Since(begin).Round(time.Millisecond))
	stopSweeps()
	stopRelay()
	require.Zero(w.t, swept.refunded())
	for _, id := range ids {
		j := w.job(id)
		require.Equal(w.t, ledger.StateCompleted, j.State())
		require.EqualValues(w.t, price, j.End.Charged)
		require.EqualValues(w.t, 1, calls(id))
	}
	w.accounted(backlogLen * price)
}

func TestABacklogIsNotRefundedWhateverHappensToTheQueue(t *testing.T) {
	t.Parallel()
	const (
		seconds = 500 * time.Millisecond // of five minutes that are one second
		minutes = 4 * threshold
	)
	for name, happens := range map[string]func(w *world, server *testenv.RedisServer){
		"nothing": func(*world, *testenv.RedisServer) {},
		"it hangs for seconds": func(w *world, server *testenv.RedisServer) {
			server.Freeze()
			w.pass(seconds)
			server.Thaw()
		},
		"it is away for minutes": func(w *world, server *testenv.RedisServer) {
			server.Kill()
			w.pass(minutes)
			server.Start()
		},
		"it restarts": func(_ *world, server *testenv.RedisServer) {
			server.Kill()
			server.Start()
		},
		"it restarts empty": func(w *world, server *testenv.RedisServer) {
			dir, err := w.redis.ConfigGet(w.ctx, "dir").Result()
			require.NoError(w.t, err)
			server.Kill()
			require.NoError(w.t, os.RemoveAll(filepath.Join(dir["dir"], "appendonlydir")))
			server.Start()
		},
		"it is flushed": func(w *world, server *testenv.RedisServer) {
			server.FlushAll(w.t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testenv.OwnRedis(t)
			w := onPostgres(t, server.URL(), postgres.Options{})
			backlog(w, func(func()) { happens(w, server) })
		})
	}
}

// pass lets time pass, in which nothing is expected to happen.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	begin := time.Now()
	w.eventually("time passes", func() bool { return time.Since(begin) > d })
}

func TestABacklogInOneFileOutlivesItsQueue(t *testing.T) {
	t.Parallel()
	start := func() string {
		server, err := embeddedredis.Start()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		return server.URL()
	}
	w := onSQLite(t, start())
	backlog(w, func(stopRelay func()) {
		stopRelay() // as with kill -9: the queue was in its process
		w.connect(start())
		w.relay()
	})
}

// An outage of the queue that lasts too long is the other proof that its jobs are lost. One
// relay that is cut off proves nothing while another one reaches the queue.
func TestTooLongAnOutageIsRefundedWithEvidence(t *testing.T) {
	t.Parallel()
	const jobs, outage = 200, 2 * time.Second
	server := testenv.OwnRedis(t)
	w := onPostgres(t, server.URL(), postgres.Options{})
	stopRelay := w.relay()
	w.relay(func(o *tasks.RelayOptions) { o.Redis = redisClient(t, "redis://127.0.0.1:1") }) // cut off
	swept, _ := w.sweep(reconciler.Options{OrphanThreshold: threshold, MaxQueueOutage: outage})
	ids := w.fill(jobs, nil)
	w.eventually("one of the two relays is cut off for too long", func() bool {
		relays, err := w.ledger.Relays(w.ctx)
		require.NoError(t, err)
		now, err := w.ledger.Now(w.ctx)
		require.NoError(t, err)
		cut := 0
		for _, r := range relays {
			if !r.OutageSince.IsZero() && now.Sub(r.OutageSince) > 2*outage {
				cut++
			}
		}
		return cut == 1 && len(relays) == 2
	})
	w.age()
	require.Zero(t, swept.refunded())
	require.Positive(t, swept.waited(reconciler.WaitUnproven))

	server.Kill()
	w.eventually("all are refunded", func() bool { return swept.refunded() == jobs })
	for _, id := range ids {
		j := w.job(id)
		require.Equal(t, []any{ledger.StateRefunded, ledger.EndOrphaned}, []any{j.State(), j.End.Reason})
		var evidence map[string]any
		require.NoError(t, json.Unmarshal(j.End.Evidence, &evidence))
		require.Equal(t, []any{"unreachable", "2s"}, []any{evidence["queue"], evidence["threshold"]})
	}
	w.accounted(0)

	// The queue comes back and still has their tasks: none runs.
	server.Start()
	worker, _ := w.work(handled(func(context.Context, tasks.Job) (tasks.Result, error) { panic("never") }),
		func(o *tasks.WorkerOptions) { o.Concurrency = 32 })
	w.eventually("all tasks are dropped", func() bool { return worker.Stats().Dropped == jobs })
	require.Zero(t, worker.Stats().Started)
	stopRelay()
	w.accounted(0)
}

func TestMaxWaitEndsWhatTheQueueStillHas(t *testing.T) {
	onBoth(t, func(w *world) {
		const jobs = 100
		w.relay()
		ids := w.fill(jobs, func(i int, o *ledger.OpenJob) {
			if i%2 == 0 {
				o.MaxWait = 2 * time.Second
			}
		})
		w.eventually("the queue has all of them", func() bool { return w.waiting() >= jobs })
		swept, _ := w.sweep(patient)
		w.eventually("half of them waited too long", func() bool { return swept.refunded() == jobs/2 })
		w.age()
		require.Equal(w.t, jobs/2, swept.refunded())
		require.GreaterOrEqual(w.t, w.waiting(), jobs, "the queue has them all the same")
		for i, id := range ids {
			if i%2 == 0 {
				j := w.job(id)
				require.Equal(w.t, []any{ledger.StateFailed, ledger.EndMaxWait}, []any{j.State(), j.End.Reason})
				require.Equal(w.t, kindsUnstarted, w.kinds(id))
			}
		}
		calls := w.runAll()
		for i, id := range ids {
			require.EqualValues(w.t, i%2, calls(id))
		}
		w.accounted(jobs / 2 * price)
	})
}
