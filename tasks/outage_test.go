package tasks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/tasks"
)

// unsteady is a store whose transactions are not reached, or whose answers are lost.
type unsteady struct {
	ledger.Store
	away, mute atomic.Bool
	failed     atomic.Int64
}

func (s *unsteady) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	if s.away.Load() {
		s.failed.Add(1)
		return &ledger.StoreError{Fate: ledger.FateUnreached, Err: errors.New("away")}
	}
	if err := s.Store.Transact(ctx, names, decide); err != nil {
		return err
	}
	if s.mute.Load() {
		s.failed.Add(1)
		return &ledger.StoreError{Fate: ledger.FateUnknown, Err: errors.New("cut off")}
	}
	return nil
}

// A Start that was committed and never answered leaves the job running in the name of a live
// worker with nobody at it: the worker gives it back itself, long before its deadline.
func TestAStartWhoseAnswerWasLostIsGivenBack(t *testing.T) {
	t.Parallel()
	store := &unsteady{Store: postgresStore(t)}
	w := newWorld(t, store, testenv.Redis(t))
	id := w.submit(job("")).ID
	store.mute.Store(true)
	var calls atomic.Int64
	w.work(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil })
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	w.eventually("asynq is told to try again", func() bool {
		info, err := inspector.GetTaskInfo(tasks.Queue, id+":1")
		return err == nil && info.Retried > 0
	})
	require.Equal(t, ledger.StateRunning, w.state(id))
	store.mute.Store(false)
	w.relay()
	j := w.ended(id)
	require.Equal(t, ledger.StateCompleted, j.End.State)
	require.Equal(t, 1, j.End.Attempts, "the lost start used up no attempt")
	require.EqualValues(t, 1, calls.Load())
	w.balance(granted - 10)
}

func TestAResultOutlastsAnOutageOfTheLedger(t *testing.T) {
	t.Parallel()
	store := &unsteady{Store: postgresStore(t)}
	w := newWorld(t, store, testenv.Redis(t))
	var calls atomic.Int64
	worker, _ := w.work(func(context.Context, tasks.Job) (tasks.Result, error) {
		calls.Add(1)
		store.away.Store(true)
		return tasks.Result{}, nil
	})
	id := w.submit(job("")).ID
	w.eventually("the completion fails for longer than the ledger waits", func() bool { return store.failed.Load() > 10 })
	store.away.Store(false)
	require.Equal(t, ledger.StateCompleted, w.ended(id).End.State)
	require.EqualValues(t, 1, calls.Load())
	w.eventually("counted", func() bool { return worker.Stats().Completed == 1 })
}

func TestADeliveryThatTheLedgerCannotTakeComesAgain(t *testing.T) {
	t.Parallel()
	store := &unsteady{Store: postgresStore(t)}
	w := newWorld(t, store, testenv.Redis(t))
	id := w.submit(job("")).ID
	store.away.Store(true)
	w.work(done)
	inspector := asynq.NewInspectorFromRedisClient(w.redis)
	w.eventually("asynq is told to try again", func() bool {
		info, err := inspector.GetTaskInfo(tasks.Queue, id+":1")
		return err == nil && info.Retried > 0
	})
	store.away.Store(false)
	j := w.ended(id)
	require.Equal(t, ledger.StateCompleted, j.End.State)
	require.Equal(t, 1, j.End.Starts)
}

// The same while the worker is told to stop: settling does not use a context that a shutdown
// cancels, so the result is written as soon as the ledger is back.
func TestAResultOutlastsAnOutageOfTheLedgerDuringAShutdown(t *testing.T) {
	t.Parallel()
	store := &unsteady{Store: postgresStore(t)}
	w := newWorld(t, store, testenv.Redis(t))
	var calls atomic.Int64
	worker, stop := w.work(func(context.Context, tasks.Job) (tasks.Result, error) {
		calls.Add(1)
		store.away.Store(true)
		return tasks.Result{Text: "a fox"}, nil
	}, func(o *tasks.WorkerOptions) { o.ShutdownTimeout = 30 * time.Second })
	id := w.submit(job("")).ID
	w.eventually("the completion fails", func() bool { return store.failed.Load() > 0 })
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	before := store.failed.Load()
	w.eventually("it goes on failing while the worker stops", func() bool { return store.failed.Load() > before+5 })
	store.away.Store(false)
	w.signal("the worker has stopped", stopped)
	j := w.job(id)
	require.Equal(t, ledger.StateCompleted, j.State())
	require.Equal(t, "a fox", *j.End.Result.Text)
	require.EqualValues(t, 1, calls.Load())
	require.EqualValues(t, 1, worker.Stats().Completed)
	w.balance(granted - 10)
}
