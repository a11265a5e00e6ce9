package tasks_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/tasks"
)

func done(context.Context, tasks.Job) (tasks.Result, error) { return tasks.Result{}, nil }

func TestJobsSubmittedWhileRedisIsDownRunWhenItIsBack(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	server.Kill()
	began := time.Now()
	id := w.submit(job("")).ID
	require.Less(t, time.Since(began), 5*time.Second, "a submit does not hang")
	w.relay()
	w.eventually("the relay reports the outage", func() bool {
		relays, err := w.ledger.Relays(w.ctx)
		require.NoError(t, err)
		return len(relays) == 1 && !relays[0].OutageSince.IsZero()
	})
	server.Start()
	w.work(done)
	require.Equal(t, ledger.StateCompleted, w.ended(id).End.State)
	w.eventually("the relay reports its end", func() bool {
		relays, err := w.ledger.Relays(w.ctx)
		require.NoError(t, err)
		return len(relays) == 1 && relays[0].OutageSince.IsZero()
	})
	w.balance(granted - 10)
}

func TestAFrozenRedisDoesNotHangASubmit(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	server.Freeze()
	began := time.Now()
	id := w.submit(job("")).ID
	require.Less(t, time.Since(began), 5*time.Second)
	server.Thaw()
	w.relay()
	w.work(done)
	require.Equal(t, ledger.StateCompleted, w.ended(id).End.State)
}

func TestAFlushedRedisIsFilledAgain(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	relay := tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log})
	require.NoError(t, relay.Round(w.ctx)) // sets the marker
	var ids []string
	for i := range 5 {
		ids = append(ids, w.submit(job(fmt.Sprint(i))).ID)
	}
	server.FlushAll(t)
	require.NoError(t, relay.Round(w.ctx))
	for _, id := range ids {
		j := w.job(id)
		require.Equal(t, 2, j.Open.Epoch)
		require.False(t, j.Open.EnqueuedAt.IsZero())
	}
	require.NoError(t, relay.Round(w.ctx))
	require.Equal(t, 2, w.job(ids[0]).Open.Epoch, "the marker is set, so nothing moves again")
	w.work(done)
	for _, id := range ids {
		require.Equal(t, ledger.StateCompleted, w.ended(id).End.State)
	}
	w.balance(granted - 50)
}

func TestARefusingQueueIsTold(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	require.NoError(t, tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log}).Round(w.ctx))
	require.NoError(t, w.redis.ConfigSet(w.ctx, "maxmemory", "1").Err())
	id := w.submit(job("")).ID
	j := w.job(id)
	require.False(t, j.Open.RefusedAt.IsZero(), "at submit")
	refusedAt := j.Open.RefusedAt
	relay := tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log})
	require.NoError(t, relay.Round(w.ctx))
	require.True(t, w.job(id).Open.RefusedAt.After(refusedAt), "by the relay")
	relays, err := w.ledger.Relays(w.ctx)
	require.NoError(t, err)
	for _, r := range relays {
		require.True(t, r.OutageSince.IsZero(), "Redis was reached")
	}
}

func TestTheRelayLooksAtWhatTheQueueHas(t *testing.T) {
	onBoth(t, func(w *world) {
		relay := tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log})
		require.NoError(w.t, relay.Round(w.ctx))
		inspector := asynq.NewInspectorFromRedisClient(w.redis)
		opened, err := w.ledger.Open(w.ctx, job("")) // due at once
		require.NoError(w.t, err)
		id := opened.Job.ID
		due := func() {
			epoch := w.job(id).Open.Epoch
			_, err := w.ledger.Sight(w.ctx, ledger.SightJob{JobID: id, Epoch: epoch, Sign: ledger.SignSeen})
			require.NoError(w.t, err)
			require.NoError(w.t, relay.Round(w.ctx))
		}
		require.NoError(w.t, relay.Round(w.ctx))
		require.False(w.t, w.job(id).Open.EnqueuedAt.IsZero())
		require.True(w.t, w.job(id).Open.CheckAt.After(w.job(id).Open.EnqueuedAt), "looked at again later")
		due()
		require.Equal(w.t, 1, w.job(id).Open.Epoch, "pending is as it should be")
		require.False(w.t, w.job(id).Open.SeenAt.IsZero())
		require.NoError(w.t, inspector.ArchiveTask(tasks.Queue, id+":1"))
		due()
		require.Equal(w.t, 2, w.job(id).Open.Epoch, "archived is lost")
		require.NoError(w.t, inspector.DeleteTask(tasks.Queue, id+":2"))
		due()
		require.Equal(w.t, 2, w.job(id).Open.Epoch, "a task that was gone is there again")
		require.False(w.t, w.deliverable(id+":2"))
	})
}

// A worker may die between the queue, which gave it a task, and the ledger, which it told
// nothing: then no lease, only the relay can miss it.
func TestATaskThatWasTakenAndNeverStartedIsSoonDeliveredAgain(t *testing.T) {
	onBoth(t, func(w *world) {
		taken, over := make(chan struct{}), make(chan struct{})
		dead := asynq.NewServerFromRedisClient(w.redis, asynq.Config{Concurrency: 1, Queues: map[string]int{tasks.Queue: 1},
			TaskCheckInterval: 50 * time.Millisecond, LogLevel: asynq.FatalLevel})
		require.NoError(w.t, dead.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { close(taken); <-over; return nil })))
		defer dead.Shutdown()
		defer close(over)
		relay := tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Logger: w.log})
		require.NoError(w.t, relay.Round(w.ctx)) // sets the marker
		id := w.submit(job("")).ID
		w.signal("the task is taken", taken)

		look := func() {
			_, err := w.ledger.Sight(w.ctx, ledger.SightJob{JobID: id, Epoch: w.job(id).Open.Epoch, Sign: ledger.SignSeen}) // due
			require.NoError(w.t, err)
			require.NoError(w.t, relay.Round(w.ctx))
		}
		look()
		require.Equal(w.t, 1, w.job(id).Open.Epoch, "a worker has a moment to say what it took")
		w.within(10*time.Second, "the next epoch", func() bool { look(); return w.job(id).Open.Epoch > 1 })
		w.work(done)
		require.Equal(w.t, ledger.StateCompleted, w.ended(id).End.State)
		require.Equal(w.t, 1, w.job(id).End.Attempts)
	})
}

func TestTheJobOfAWorkerThatVanishedRunsAgainOnce(t *testing.T) {
	onBoth(t, func(w *world) {
		const ttl = 500 * time.Millisecond
		opened, err := w.ledger.Open(w.ctx, job(""))
		require.NoError(w.t, err)
		id := opened.Job.ID
		started, err := w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Epoch: 1, Token: "t1", Worker: "ghost", LeaseTTL: ttl})
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.VerdictRun, started.Verdict)
		var calls atomic.Int64
		w.work(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil })
		w.relay()
		w.watch(ttl)
		j := w.ended(id)
		require.Equal(w.t, 2, j.End.Attempts)
		require.EqualValues(w.t, 1, calls.Load())
		require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(id))
		attempts, err := w.ledger.Attempts(w.ctx, id)
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.AttemptLost, attempts[0].Outcome)
	})
}

func TestAWorkerWithoutARowCountsAsDeadAfterALease(t *testing.T) {
	onBoth(t, func(w *world) {
		const ttl = 300 * time.Millisecond
		opened, err := w.ledger.Open(w.ctx, job(""))
		require.NoError(w.t, err)
		_, err = w.ledger.Start(w.ctx, ledger.StartJob{JobID: opened.Job.ID, Epoch: 1, Token: "t1", Worker: "ghost"})
		require.NoError(w.t, err)
		require.NoError(w.t, w.ledger.RemoveWorker(w.ctx, "ghost"))
		watcher := tasks.NewWatcher(tasks.WatcherOptions{Ledger: w.ledger, LeaseTTL: ttl, Logger: w.log})
		require.NoError(w.t, watcher.Round(w.ctx))
		require.Equal(w.t, ledger.StateRunning, w.state(opened.Job.ID), "one read condemns nobody")
		w.watch(ttl)
		w.eventually("put back", func() bool { return w.state(opened.Job.ID) == ledger.StateQueued })
	})
}

func TestTheWatcherLeavesTheLivingAloneAndTakesWhatIsLate(t *testing.T) {
	onBoth(t, func(w *world) {
		const ttl = 600 * time.Millisecond
		opened, err := w.ledger.Open(w.ctx, job(""))
		require.NoError(w.t, err)
		id := opened.Job.ID
		const timeout = 3 * time.Second
		started, err := w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Epoch: 1, Token: "t1", Worker: "alive", LeaseTTL: time.Minute, AttemptTimeout: timeout})
		require.NoError(w.t, err)
		w.watch(ttl)
		w.eventually("put back", func() bool { return w.state(id) == ledger.StateQueued })
		attempts, err := w.ledger.Attempts(w.ctx, id)
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.AttemptTimedOut, attempts[0].Outcome)
		require.True(w.t, attempts[0].EndedAt.After(started.Job.Open.Deadline))
	})
}

func TestATaskChargesItself(t *testing.T) {
	onBoth(t, func(w *world) {
		var calls atomic.Int64
		worker, _ := w.work(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil })
		queue := asynq.NewClientFromRedisClient(w.redis)
		put := func(c tasks.Charge) {
			task, err := tasks.NewTask(c)
			require.NoError(w.t, err)
			_, err = queue.EnqueueContext(w.ctx, task)
			require.NoError(w.t, err)
		}
		charge := tasks.Charge{Tenant: alice.Tenant, Account: alice.Name, Type: "image", Key: "poor", Cost: granted + 1}
		put(charge)
		w.eventually("refused", func() bool { return worker.Stats().Unpaid == 1 })
		jobs, err := w.ledger.Jobs(w.ctx, ledger.JobFilter{Tenant: alice.Tenant}, ledger.Page{Limit: 10})
		require.NoError(w.t, err)
		require.Empty(w.t, jobs, "nothing is stored")
		_, err = queue.EnqueueContext(w.ctx, asynq.NewTask(tasks.TypeCharge, []byte(`{"tenant":"acme","account":"alice","type":"image","cost":1}`)), asynq.Queue(tasks.Queue))
		require.NoError(w.t, err)
		_, err = queue.EnqueueContext(w.ctx, asynq.NewTask(tasks.TypeCharge, []byte(`{`)), asynq.Queue(tasks.Queue))
		require.NoError(w.t, err)
		w.eventually("without a key, or unreadable", func() bool { return worker.Stats().Dropped == 2 })
		w.balance(granted)
		charge.Key, charge.Cost = "rich", 10
		put(charge)
		put(charge)
		w.eventually("the second is a replay", func() bool { return worker.Stats().Dropped == 3 })
		w.eventually("the first ran", func() bool { return worker.Stats().Completed == 1 })
		require.EqualValues(w.t, 1, calls.Load())
		w.balance(granted - 10)
	})
}

func TestBothStylesRacedOnOneKeyChargeOnce(t *testing.T) {
	onBoth(t, func(w *world) {
		var calls atomic.Int64
		worker, _ := w.work(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil })
		const each = 5
		var race sync.WaitGroup
		for range each {
			race.Go(func() {
				_, err := w.client.Submit(w.ctx, job("both"))
				if err != nil {
					w.t.Errorf("submit: %v", err)
				}
			})
			race.Go(func() {
				o := job("both")
				task, err := tasks.NewTask(tasks.Charge{Tenant: o.Tenant, Account: o.Name, Type: o.Type, Key: o.Key, Cost: o.Cost, Units: o.Units,
					Input: []byte(`{"n":2.0, "prompt":"a fox"}`)})
				if err == nil {
					_, err = asynq.NewClientFromRedisClient(w.redis).EnqueueContext(w.ctx, task)
				}
				if err != nil {
					w.t.Errorf("enqueue: %v", err)
				}
			})
		}
		race.Wait()
		w.eventually("all deliveries are over", func() bool {
			s := worker.Stats()
			return s.Completed == 1 && s.Started+s.Dropped >= each
		})
		require.EqualValues(w.t, 1, calls.Load())
		require.Zero(w.t, worker.Stats().Unpaid)
		w.balance(granted - 10)
	})
}
