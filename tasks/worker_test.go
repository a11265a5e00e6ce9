package tasks_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/tasks"
)

func text(s string) provider.Output {
	return provider.Output{ContentType: "text/plain", Data: []byte(s)}
}

// deliver puts a task for a job into the queue, whatever the ledger thinks of it.
func (w *world) deliver(jobID string, epoch string) {
	w.t.Helper()
	opts := []asynq.Option{asynq.Queue(tasks.Queue)}
	if epoch != "" {
		opts = append(opts, asynq.TaskID(jobID+":"+epoch))
	}
	_, err := asynq.NewClientFromRedisClient(w.redis).EnqueueContext(w.ctx, asynq.NewTask(tasks.TypeJob, []byte(jobID)), opts...)
	require.NoError(w.t, err)
}

func TestASubmittedJobRunsAndItsResultIsKept(t *testing.T) {
	onBoth(t, func(w *world) {
		var got tasks.Job
		worker, stop := w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
			got = j
			j.Progress(150, "nearly\x00 there")
			cost := int64(7)
			return tasks.Result{Outputs: []provider.Output{text("one"), text("two")}, Text: "ok\x00\xff", Cost: &cost, Usage: map[string]int64{"steps": 3}}, nil
		})
		id := w.submit(job("k")).ID
		j := w.ended(id)
		stop()
		require.Equal(w.t, ledger.StateCompleted, j.End.State)
		require.Equal(w.t, 2, j.End.Delivered)
		require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 settle+3 ", w.kinds(id))
		w.balance(granted - 7)
		require.Equal(w.t, id, got.ID)
		require.Equal(w.t, "k", got.Key)
		require.Equal(w.t, 1, got.Attempt)
		require.EqualValues(w.t, 10, got.Cost)
		require.JSONEq(w.t, `{"prompt":"a fox","n":2}`, string(got.Input))
		require.Equal(w.t, "ok\uFFFD", *j.End.Result.Text)
		require.Len(w.t, j.End.Result.Artifacts, 2)
		require.Equal(w.t, id+"/"+got.Token+"/1.txt", j.End.Result.Artifacts[1].Key)
		data, err := w.files.Read(w.ctx, j.End.Result.Artifacts[1].Key)
		require.NoError(w.t, err)
		require.Equal(w.t, "two", string(data))
		require.Equal(w.t, tasks.Stats{Started: 1, Completed: 1}, worker.Stats())
		leases, err := w.ledger.Workers(w.ctx)
		require.NoError(w.t, err)
		require.Empty(w.t, leases, "the worker gave its lease back")
	})
}

func TestAPartialResultPaysWhatItSays(t *testing.T) {
	onBoth(t, func(w *world) {
		w.work(func(context.Context, tasks.Job) (tasks.Result, error) {
			cost := int64(5)
			return tasks.Result{Units: 1, Cost: &cost}, nil
		})
		j := w.ended(w.submit(job("")).ID)
		require.Equal(w.t, ledger.EndPartial, j.End.Reason)
		require.Equal(w.t, 1, j.End.Delivered)
		w.balance(granted - 5)
	})
}

func TestARedeliveredTaskNeverRunsAgain(t *testing.T) {
	onBoth(t, func(w *world) {
		var calls atomic.Int64
		begun, release := make(chan struct{}), make(chan struct{})
		worker, _ := w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
			calls.Add(1)
			if j.Key == "bad" {
				return tasks.Result{}, tasks.Permanent(errors.New("refused"))
			}
			close(begun)
			<-release
			return tasks.Result{}, nil
		})
		dropped := func(n int64) {
			w.eventually("the delivery is dropped", func() bool { return worker.Stats().Dropped == n })
		}
		id := w.submit(job("good")).ID
		w.signal("the job runs", begun)
		w.deliver(id, "")
		w.deliver(id, "2")
		dropped(2)
		close(release)
		w.ended(id)
		w.eventually("the queue has let go", func() bool { return w.deliverable(id + ":1") })
		w.deliver(id, "1")
		dropped(3)

		bad := w.submit(job("bad")).ID
		require.Equal(w.t, ledger.StateFailed, w.ended(bad).End.State)
		w.eventually("the queue has let go", func() bool { return w.deliverable(bad + ":1") })
		w.deliver(bad, "1")
		dropped(4)
		require.EqualValues(w.t, 2, calls.Load())
		w.balance(granted - 10)
	})
}

// deliverable reports whether the queue no longer knows a task.
func (w *world) deliverable(taskID string) bool {
	_, err := asynq.NewInspectorFromRedisClient(w.redis).GetTaskInfo(tasks.Queue, taskID)
	return errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound)
}

func TestATaskOfNoJobIsDroppedAndCounted(t *testing.T) {
	onBoth(t, func(w *world) {
		worker, _ := w.work(func(context.Context, tasks.Job) (tasks.Result, error) { panic("never") })
		w.deliver(ledger.NewID(), "1")
		w.deliver("rubbish", "1")
		w.eventually("both are dropped", func() bool { return worker.Stats().Unknown == 2 })
		w.eventually("the queue has let go", func() bool { return w.deliverable("rubbish:1") })
	})
}

func TestFailuresEndOrAreTriedAgain(t *testing.T) {
	onBoth(t, func(w *world) {
		boom := errors.New("boom")
		w.relay()
		w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
			switch {
			case j.Key == "permanent":
				return tasks.Result{}, tasks.Permanent(boom)
			case j.Key == "disguise":
				return tasks.Result{Outputs: []provider.Output{text("one"), {ContentType: "image/png", Data: []byte("<html>")}}}, nil
			case j.Key == "panic" && j.Attempt == 1:
				panic(boom)
			case j.Key == "retry" && j.Attempt < 3, j.Key == "never":
				return tasks.Result{}, tasks.RetryAfter(errors.New("busy "+strings.Repeat("é\x00", 2000)), 10*time.Millisecond)
			}
			return tasks.Result{}, nil
		})
		never := job("never")
		never.MaxAttempts = 2
		noHandler := job("none")
		noHandler.Type = "film"
		ids := map[string]string{}
		for _, o := range []ledger.OpenJob{job("permanent"), job("disguise"), job("panic"), job("retry"), never, noHandler} {
			ids[o.Key] = w.submit(o).ID
		}
		for key, want := range map[string]struct {
			reason   ledger.EndReason
			code     string
			attempts int
		}{
			"permanent": {ledger.EndVendor, "generator_error", 1},
			"disguise":  {ledger.EndVendor, "store_error", 1},
			"panic":     {ledger.EndDelivered, "", 2},
			"retry":     {ledger.EndDelivered, "", 3},
			"never":     {ledger.EndExhausted, "generator_error", 2},
			"none":      {ledger.EndVendor, "no_handler", 1},
		} {
			j := w.ended(ids[key])
			require.Equal(w.t, want.reason, j.End.Reason, key)
			require.Equal(w.t, want.attempts, j.End.Attempts, key)
			if want.code != "" {
				require.Equal(w.t, want.code, j.End.Error.Code, key)
				require.LessOrEqual(w.t, len(j.End.Error.Message), 1010, key)
			}
		}
		attempts, err := w.ledger.Attempts(w.ctx, ids["panic"])
		require.NoError(w.t, err)
		require.Equal(w.t, "panic", attempts[0].Error.Code)
		require.Equal(w.t, "deduct-10 task_started+0 task_failed+0 refund+10 ", w.kinds(ids["permanent"]))
		require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(ids["retry"]))
		w.balance(granted - 20)
	})
}

func TestCancelStopsAQueuedAndARunningJob(t *testing.T) {
	onBoth(t, func(w *world) {
		begun, cause := make(chan struct{}), make(chan error, 1)
		queued, err := w.ledger.Open(w.ctx, job("queued")) // before there is a worker
		require.NoError(w.t, err)
		_, err = w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: queued.Job.ID})
		require.NoError(w.t, err)
		worker, _ := w.work(func(ctx context.Context, _ tasks.Job) (tasks.Result, error) {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return tasks.Result{}, ctx.Err()
		}, func(o *tasks.WorkerOptions) { o.LeaseTTL = 600 * time.Millisecond })
		w.deliver(queued.Job.ID, "1")
		w.eventually("the cancelled job's task is dropped", func() bool { return worker.Stats().Dropped == 1 })
		id := w.submit(job("running")).ID
		w.signal("the job runs", begun)
		_, err = w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: id})
		require.NoError(w.t, err)
		require.Equal(w.t, ledger.EndCancelled, w.ended(id).End.Reason)
		require.ErrorIs(w.t, <-cause, tasks.ErrCancelled)
		w.balance(granted)
	})
}

func TestAnAttemptHasATime(t *testing.T) {
	onBoth(t, func(w *world) {
		w.work(func(ctx context.Context, _ tasks.Job) (tasks.Result, error) {
			<-ctx.Done()
			return tasks.Result{}, ctx.Err()
		}, func(o *tasks.WorkerOptions) { o.AttemptTimeout = 100 * time.Millisecond })
		once := job("")
		once.MaxAttempts = 1
		j := w.ended(w.submit(once).ID)
		require.Equal(w.t, ledger.EndExhausted, j.End.Reason)
		require.Equal(w.t, "timeout", j.End.Error.Code)
		w.balance(granted)
	})
}

// A handler that does not even look at its context holds up neither the shutdown nor the job.
func TestShutdownGivesBackAndUsesUpNoAttempt(t *testing.T) {
	onBoth(t, func(w *world) {
		begun, release := make(chan struct{}, 2), make(chan struct{})
		deaf := func(context.Context, tasks.Job) (tasks.Result, error) {
			begun <- struct{}{}
			<-release
			return tasks.Result{}, nil
		}
		_, stop := w.work(deaf, func(o *tasks.WorkerOptions) { o.ShutdownTimeout = 50 * time.Millisecond })
		id := w.submit(job("")).ID
		w.signal("the job runs", begun)
		began := time.Now()
		stop()
		require.Less(w.t, time.Since(began), 10*time.Second)
		j := w.job(id)
		require.Equal(w.t, ledger.StateQueued, j.State())
		require.Zero(w.t, j.Open.Attempts)
		require.Equal(w.t, 2, j.Open.Epoch)

		w.relay()
		var attempt atomic.Int64
		_, stop = w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
			attempt.Store(int64(j.Attempt))
			return tasks.Result{}, nil
		})
		require.Equal(w.t, ledger.StateCompleted, w.ended(id).End.State)
		require.EqualValues(w.t, 1, attempt.Load())
		stop()
		close(release) // the first handler is late, and its result is discarded
		w.balance(granted - 10)
		require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(id))
	})
}

func TestShutdownWaitsForAJobThatIsNearlyDone(t *testing.T) {
	onBoth(t, func(w *world) {
		begun, release := make(chan struct{}), make(chan struct{})
		_, stop := w.work(func(context.Context, tasks.Job) (tasks.Result, error) {
			close(begun)
			<-release
			return tasks.Result{}, nil
		}, func(o *tasks.WorkerOptions) { o.ShutdownTimeout = time.Minute })
		id := w.submit(job("")).ID
		w.signal("the job runs", begun)
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		inspector := asynq.NewInspectorFromRedisClient(w.redis)
		w.eventually("the worker takes nothing any more", func() bool {
			servers, err := inspector.Servers()
			require.NoError(w.t, err)
			return len(servers) == 1 && servers[0].Status == "stopped"
		})
		require.Equal(w.t, ledger.StateRunning, w.state(id))
		close(release)
		w.signal("the worker has stopped", stopped)
		require.Equal(w.t, ledger.StateCompleted, w.state(id))
	})
}
