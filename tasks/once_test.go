package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

// counting counts its calls, by job.
type counting struct {
	mu    sync.Mutex
	calls map[string]int
}

func (c *counting) handle(_ context.Context, j tasks.Job) (tasks.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[j.ID]++
	return tasks.Result{}, nil
}

// of is how often a job was run, and all is how often anything was.
func (c *counting) of(id string) int { c.mu.Lock(); defer c.mu.Unlock(); return c.calls[id] }

func (c *counting) all() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, calls := range c.calls {
		n += calls
	}
	return n
}

func (w *world) sweep() reconciler.Report {
	w.t.Helper()
	report, err := reconciler.New(reconciler.Options{Ledger: w.ledger, Logger: w.log}).Sweep(w.ctx, reconciler.SweepOptions{})
	if err != nil {
		w.t.Errorf("sweep: %v", err)
	}
	return report
}

func TestTwentySubmitsOfTheLastCreditStartOneJob(t *testing.T) {
	onBoth(t, func(w *world) {
		var made counting
		w.work(made.handle)
		o := job("")
		o.Cost = granted // all there is
		var accepted, insufficient atomic.Int64
		var id atomic.Value
		var race sync.WaitGroup
		for range 20 {
			race.Go(func() {
				switch opened, err := w.client.Submit(w.ctx, o); {
				case err == nil:
					accepted.Add(1)
					id.Store(opened.Job.ID)
				case errors.Is(err, ledger.ErrInsufficientCredits):
					insufficient.Add(1)
				default:
					w.t.Errorf("submit: %v", err)
				}
			})
		}
		race.Wait()
		require.Equal(w.t, []int64{1, 19}, []int64{accepted.Load(), insufficient.Load()})
		only, _ := id.Load().(string)
		require.Equal(w.t, ledger.StateCompleted, w.ended(only).End.State)
		require.Equal(w.t, 1, made.all())
		w.balance(0)
	})
}

// A job waits in the queue for too long and is refunded; then its task is delivered after all.
func TestATaskOfAJobThatTheSweepEndedNeverRuns(t *testing.T) {
	onBoth(t, func(w *world) {
		o := job("")
		o.MaxWait = time.Millisecond
		id := w.submit(o).ID
		w.eventually("it has waited for too long", func() bool { return w.sweep().Refunded == 1 })
		require.Equal(w.t, ledger.EndMaxWait, w.job(id).End.Reason)
		w.balance(granted)
		var made counting
		worker, _ := w.work(made.handle)
		w.eventually("the task is dropped", func() bool { return worker.Stats().Dropped == 1 })
		w.eventually("the queue has let go", func() bool { return w.deliverable(id + ":1") })
		w.deliver(id, "1") // once more, as after a lost "done"
		w.eventually("and again", func() bool { return worker.Stats().Dropped == 2 })
		require.Zero(w.t, made.all())
		require.Nil(w.t, w.job(id).End.Result)
		require.Equal(w.t, "deduct-10 task_failed+0 refund+10 ", w.kinds(id))
		w.balance(granted)
	})
}

// Workers and sweeps meet jobs that are past their time, all at once: each is either run and
// charged, or refunded and never run.
func TestAWorkerAndTheSweepRaceAndExactlyOneWins(t *testing.T) {
	onBoth(t, func(w *world) {
		const jobs = 40
		o := job("")
		o.MaxWait, o.Cost = time.Millisecond, granted/jobs
		var ids []string
		for range jobs {
			opened, err := w.ledger.Open(w.ctx, o)
			require.NoError(w.t, err)
			ids = append(ids, opened.Job.ID)
		}
		var made counting
		first, once := make(chan struct{}), sync.Once{}
		w.work(func(ctx context.Context, j tasks.Job) (tasks.Result, error) {
			once.Do(func() { close(first) })
			return made.handle(ctx, j)
		})
		var race sync.WaitGroup
		race.Go(func() {
			for _, id := range ids {
				w.deliver(id, "1")
			}
		})
		for range 2 {
			race.Go(func() {
				w.signal("the worker is at it", first)
				w.sweep()
			})
		}
		race.Wait()
		run := 0
		for _, id := range ids {
			j := w.ended(id)
			kinds := w.kinds(id)
			switch j.End.State {
			case ledger.StateCompleted:
				run++
				require.Equal(w.t, 1, made.of(id))
				require.Equal(w.t, "deduct-2 task_started+0 task_completed+0 ", kinds)
			default:
				require.Equal(w.t, ledger.EndMaxWait, j.End.Reason)
				require.Zero(w.t, made.of(id), "refunded and run")
				require.Equal(w.t, "deduct-2 task_failed+0 refund+2 ", kinds)
			}
		}
		w.t.Logf("%d run, %d refunded", run, jobs-run)
		require.Positive(w.t, run)
		require.Equal(w.t, run, made.all())
		w.balance(granted - int64(run)*o.Cost)
	})
}

// What is posted again while Redis is away is the same job, and it runs once.
func TestPostingAgainWhileRedisIsDownIsTheSameJob(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	server.Kill()
	first := w.submit(job("order"))
	again, err := w.client.Submit(w.ctx, job("order"))
	require.NoError(t, err)
	require.Equal(t, []any{first.ID, true}, []any{again.Job.ID, again.Replayed})
	w.balance(granted - 10)
	server.Start()
	var made counting
	w.relay()
	w.work(made.handle)
	require.Equal(t, ledger.StateCompleted, w.ended(first.ID).End.State)
	again, err = w.client.Submit(w.ctx, job("order"))
	require.NoError(t, err)
	require.Equal(t, []any{first.ID, true, ledger.StateCompleted}, []any{again.Job.ID, again.Replayed, again.Job.State()})
	require.Equal(t, 1, made.all())
	w.balance(granted - 10)
}

// FLUSHALL under a worker, a relay and a watcher at work: one job is running, five wait.
func TestAFlushedRedisLosesNeitherWaitingNorRunningJobs(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	w := newWorld(t, postgresStore(t), server.URL())
	w.relay()
	w.watch(2 * time.Second)
	var made counting
	begun, release := make(chan struct{}), make(chan struct{})
	w.work(func(ctx context.Context, j tasks.Job) (tasks.Result, error) {
		if j.Key == "running" {
			close(begun)
			<-release
		}
		return made.handle(ctx, j)
	}, func(o *tasks.WorkerOptions) { o.Concurrency = 1 })
	ids := []string{w.submit(job("running")).ID}
	w.signal("the job runs", begun)
	for i := range 5 {
		ids = append(ids, w.submit(job(fmt.Sprint(i))).ID)
	}
	server.FlushAll(t)
	w.eventually("all are queued again", func() bool {
		for _, id := range ids[1:] {
			if o := w.job(id).Open; o.Epoch < 2 || !o.EnqueuedAt.After(o.QueuedAt) {
				return false
			}
		}
		return true
	})
	close(release)
	for _, id := range ids {
		require.Equal(t, ledger.StateCompleted, w.ended(id).End.State)
		require.Equal(t, 1, made.of(id))
	}
	w.balance(granted - 60)
}

// A cost below zero is a fault of the generator's, and never a credit to the customer.
func TestANegativeCostIsNeverACredit(t *testing.T) {
	onBoth(t, func(w *world) {
		w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
			cost := map[string]int64{"negative": -5, "endless": ledger.MaxAmount + 1, "free": 0}[j.Key]
			return tasks.Result{Cost: &cost}, nil
		})
		for _, key := range []string{"negative", "endless"} {
			j := w.ended(w.submit(job(key)).ID)
			require.Equal(w.t, []any{ledger.StateFailed, ledger.EndVendor}, []any{j.End.State, j.End.Reason}, key)
			require.NotNil(w.t, j.End.Error, key)
			w.balance(granted)
		}
		require.Equal(w.t, ledger.StateCompleted, w.ended(w.submit(job("free")).ID).End.State)
		w.balance(granted)
	})
}
