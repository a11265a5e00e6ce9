package tasks_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/migrations"
	"github.com/makegood/makegood/tasks"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(workerProcess); address != "" {
		fmt.Fprintln(os.Stderr, "worker process:", beWorker(address)) // returns only for a fault
		os.Exit(1)
	}
	testenv.Main(m)
}

var alice = ledger.AccountName{Tenant: "acme", Name: "alice"}

const granted = 100

// world is a ledger with one account, and a queue.
type world struct {
	t        *testing.T
	ctx      context.Context
	ledger   *ledger.Ledger
	redisURL string
	redis    redis.UniversalClient
	client   *tasks.Client
	log      *slog.Logger
	files    *tasks.Artifacts
}

// onBoth runs a test on PostgreSQL with Redis and on SQLite with the embedded one.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newWorld(t, postgresStore(t), testenv.Redis(t)))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		server, err := embeddedredis.Start()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		test(newWorld(t, sqliteStore(t), server.URL()))
	})
}

// migrated makes a schema and returns its URL.
func migrated(t *testing.T) string {
	t.Helper()
	url := testenv.Postgres(t)
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	defer db.Close()
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	require.NoError(t, err)
	return url
}

func postgresStore(t *testing.T) ledger.Store {
	t.Helper()
	store, err := postgres.Open(t.Context(), migrated(t), postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func sqliteStore(t *testing.T) ledger.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Migrate: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func newWorld(t *testing.T, store ledger.Store, redisURL string) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	w := &world{t: t, ctx: t.Context(), ledger: ledger.New(store, ledger.Options{Logger: log}), redisURL: redisURL, log: log}
	t.Cleanup(w.ledger.Close)
	var err error
	w.redis, err = tasks.RedisClient(redisURL)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.redis.Close() })
	w.files, err = tasks.OpenArtifacts(t.Context(), "mem://")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.files.Close() })
	w.client = tasks.NewClient(w.ledger, w.redis, tasks.ClientOptions{Logger: log})
	_, err = w.ledger.Grant(w.ctx, ledger.GrantCredits{AccountName: alice, Amount: granted, Source: "purchase", Reason: "for the test", Actor: "test"})
	require.NoError(t, err)
	return w
}

// work runs a worker until stop is called, or the test ends.
func (w *world) work(h tasks.HandlerFunc, change ...func(*tasks.WorkerOptions)) (worker *tasks.Worker, stop func()) {
	w.t.Helper()
	mux := tasks.NewMux()
	mux.HandleFunc("image", h)
	o := tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, Artifacts: w.files, Concurrency: 8, LeaseTTL: 2 * time.Second,
		ShutdownTimeout: 5 * time.Second, Logger: w.log}
	for _, c := range change {
		c(&o)
	}
	worker = tasks.NewWorker(o)
	return worker, w.background(worker.Run)
}

func (w *world) relay() (stop func()) {
	return w.background(tasks.NewRelay(tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Interval: 50 * time.Millisecond,
		OrphanThreshold: 10 * time.Second, Logger: w.log}).Run)
}

func (w *world) watch(ttl time.Duration) (stop func()) {
	return w.background(tasks.NewWatcher(tasks.WatcherOptions{Ledger: w.ledger, Interval: 50 * time.Millisecond, LeaseTTL: ttl,
		Grace: 100 * time.Millisecond, Logger: w.log}).Run)
}

// background runs something until stop is called, or the test ends.
func (w *world) background(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.ctx))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		cancel()
		if stopped.CompareAndSwap(false, true) {
			if err := <-ended; err != nil {
				w.t.Errorf("run: %v", err)
			}
		}
	}
	w.t.Cleanup(stop)
	return stop
}

func job(key string) ledger.OpenJob {
	return ledger.OpenJob{AccountName: alice, Key: key, Type: "image", Cost: 10, Units: 2, Input: json.RawMessage(`{"prompt":"a fox","n":2}`)}
}

func (w *world) submit(o ledger.OpenJob) ledger.Job {
	w.t.Helper()
	opened, err := w.client.Submit(w.ctx, o)
	require.NoError(w.t, err)
	return opened.Job
}

func (w *world) job(id string) ledger.Job {
	w.t.Helper()
	j, err := w.ledger.Job(w.ctx, alice.Tenant, id)
	require.NoError(w.t, err)
	return j
}

// eventually polls until something holds.
func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	w.within(40*time.Second, what, holds)
}

func (w *world) within(most time.Duration, what string, holds func() bool) {
	w.t.Helper()
	require.Eventually(w.t, holds, most, 20*time.Millisecond, what)
}

// ended waits for a job's end.
func (w *world) ended(id string) ledger.Job {
	w.t.Helper()
	var j ledger.Job
	w.eventually("job "+id+" ends", func() bool { j = w.job(id); return j.End != nil })
	return j
}

func (w *world) grant(amount int64) {
	w.t.Helper()
	_, err := w.ledger.Grant(w.ctx, ledger.GrantCredits{AccountName: alice, Amount: amount, Reason: "for the test", Actor: "test"})
	require.NoError(w.t, err)
}

func (w *world) balance(want int64) {
	w.t.Helper()
	b, err := w.ledger.Balance(w.ctx, alice)
	require.NoError(w.t, err)
	require.Equal(w.t, want, b.Available)
}

// kinds lists a job's entries.
func (w *world) kinds(id string) string {
	w.t.Helper()
	entries, err := w.ledger.JobEntries(w.ctx, id)
	require.NoError(w.t, err)
	text := ""
	for _, e := range entries {
		text += fmt.Sprintf("%s%+d ", e.Kind, e.Delta)
	}
	return text
}

// signal waits for a channel.
func (w *world) signal(what string, c <-chan struct{}) {
	w.t.Helper()
	select {
	case <-c:
	case <-time.After(40 * time.Second):
		w.t.Fatal("no sign of: " + what)
	}
}

func (w *world) state(id string) ledger.State {
	w.t.Helper()
	j := w.job(id)
	return j.State()
}
