package tasks_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

// workerProcess is set in this test binary when a test runs it as a worker of its own. It holds
// the ledger's address.
const workerProcess = "MAKEGOOD_TASKS_TEST_WORKER"

const victimTTL = time.Second

// beWorker runs jobs in this process, says which one it has, and never finishes any.
func beWorker(address string) error {
	ctx := context.Background()
	go func() { // the test's end of the pipe closes when it dies, however it dies
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	store, err := openStore(ctx, address)
	if err != nil {
		return err
	}
	client, err := tasks.RedisClient(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	mux := tasks.NewMux()
	mux.HandleFunc("image", func(_ context.Context, j tasks.Job) (tasks.Result, error) {
		fmt.Println(j.ID)
		select {}
	})
	log := slog.New(slog.DiscardHandler)
	return tasks.NewWorker(tasks.WorkerOptions{Ledger: ledger.New(store, ledger.Options{Logger: log}), Redis: client, Mux: mux,
		LeaseTTL: victimTTL, Logger: log}).Run(ctx)
}

// openStore opens a migrated ledger by its address: a URL, or the name of a file.
func openStore(ctx context.Context, address string) (ledger.Store, error) {
	if filepath.IsAbs(address) {
		return sqlite.Open(ctx, address, sqlite.Options{Migrate: true})
	}
	return postgres.Open(ctx, address, postgres.Options{})
}

// onBothFromOutside is onBoth for tests that run other processes, which are told the ledger's
// address.
func onBothFromOutside(t *testing.T, test func(w *world, address string)) {
	t.Helper()
	t.Parallel()
	run := func(t *testing.T, address, redisURL string) {
		t.Helper()
		store, err := openStore(t.Context(), address)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		test(newWorld(t, store, redisURL), address)
	}
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		run(t, migrated(t), testenv.Redis(t))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		server, err := embeddedredis.Start()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		run(t, filepath.Join(t.TempDir(), "ledger.db"), server.URL())
	})
}

// kill lets a worker process take the job, and kills it with SIGKILL once it is at work.
func (w *world) kill(address, id string) {
	w.t.Helper()
	exe, err := os.Executable()
	require.NoError(w.t, err)
	victim := exec.CommandContext(w.ctx, exe)
	victim.Env = append(os.Environ(), workerProcess+"="+address, "REDIS_URL="+w.redisURL)
	victim.Stderr = os.Stderr
	_, err = victim.StdinPipe()
	require.NoError(w.t, err)
	out, err := victim.StdoutPipe()
	require.NoError(w.t, err)
	require.NoError(w.t, victim.Start())
	lines := bufio.NewScanner(out)
	require.True(w.t, lines.Scan(), "the worker process ended")
	require.Equal(w.t, id, lines.Text())
	require.NoError(w.t, victim.Process.Kill())
	require.Error(w.t, victim.Wait())
}

// schedule runs what a scheduler runs, with thresholds of seconds.
func (w *world) schedule() {
	w.relay()
	w.watch(victimTTL)
	r := reconciler.New(reconciler.Options{Ledger: w.ledger, OrphanThreshold: 2 * time.Second, Logger: w.log})
	w.background(func(ctx context.Context) error {
		_ = r.Run(ctx, 200*time.Millisecond) // until ctx ends, which is its error
		return nil
	})
}

// forgetLease removes the queue's own note that somebody has the task: asynq never recovers
// such a task, and goes on calling it active.
func (w *world) forgetLease(id string) {
	w.t.Helper()
	removed, err := w.redis.ZRem(w.ctx, "asynq:{"+tasks.Queue+"}:lease", id+":1").Result()
	require.NoError(w.t, err)
	require.EqualValues(w.t, 1, removed)
}

func TestAKilledWorkersJobRunsAgainWithNobodyCallingAnything(t *testing.T) {
	for _, noLease := range []bool{false, true} {
		t.Run(fmt.Sprint("lease deleted: ", noLease), func(t *testing.T) {
			onBothFromOutside(t, func(w *world, address string) {
				o := job("")
				o.MaxAttempts = 3
				id := w.submit(o).ID
				w.kill(address, id)
				if noLease {
					w.forgetLease(id)
				}
				w.schedule()
				var calls atomic.Int64
				w.work(func(context.Context, tasks.Job) (tasks.Result, error) { calls.Add(1); return tasks.Result{}, nil })
				j := w.ended(id)
				require.Equal(w.t, ledger.StateCompleted, j.End.State)
				require.Equal(w.t, 2, j.End.Attempts)
				require.EqualValues(w.t, 1, calls.Load())
				require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(id))
				w.balance(granted - 10)
			})
		})
	}
}

func TestAWorkerKilledInTheLastAttemptRefundsItsJobWithNobodyCallingAnything(t *testing.T) {
	for _, noLease := range []bool{false, true} {
		t.Run(fmt.Sprint("lease deleted: ", noLease), func(t *testing.T) {
			onBothFromOutside(t, func(w *world, address string) {
				o := job("")
				o.MaxAttempts, o.Cost = 1, granted
				id := w.submit(o).ID
				w.kill(address, id)
				if noLease {
					w.forgetLease(id)
				}
				w.schedule()
				w.work(func(_ context.Context, j tasks.Job) (tasks.Result, error) {
					if j.ID == id {
						w.t.Error("a job without an attempt left ran again")
					}
					return tasks.Result{}, nil
				})
				j := w.ended(id)
				require.Equal(w.t, []any{ledger.StateRefunded, ledger.EndOrphaned}, []any{j.End.State, j.End.Reason})
				require.Contains(w.t, string(j.End.Evidence), "last_sign_of_life")
				require.Equal(w.t, fmt.Sprintf("deduct-%d task_started+0 reconciler_refund+%[1]d ", granted), w.kinds(id))
				w.balance(granted)
				// The credits are good for the next job.
				o.Key = "again"
				require.Equal(w.t, ledger.StateCompleted, w.ended(w.submit(o).ID).End.State)
				w.balance(0)
			})
		})
	}
}
