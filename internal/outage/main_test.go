// Package outage tests the seam of ledger, queue and vendor as a whole: backlogs, processes that
// freeze or die, and cancels, on real servers with times that are scaled down.
package outage

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/migrations"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/generations"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

func TestMain(m *testing.M) {
	if orders := os.Getenv(asChild); orders != "" {
		os.Exit(child(orders))
	}
	// Most of these tests wait most of the time. A -parallel of the caller's counts more.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testenv.Main(m)
}

var alice = ledger.AccountName{Tenant: "acme", Name: "alice"}

const (
	price   = 5 // credits a job, and what the vendor bills for its one unit
	granted = 10_000

	vendorType  = "generation" // jobs of a vendor
	handlerType = "image"      // jobs of a plain function
)

// world is a ledger in which alice has credits, and a queue.
type world struct {
	t        *testing.T
	ctx      context.Context
	log      *slog.Logger
	dialect  reconciler.Dialect
	url      string  // DATABASE_URL of other processes
	db       *sql.DB // the owner's connection
	store    ledger.Store
	ledger   *ledger.Ledger
	redisURL string
	redis    redis.UniversalClient
	client   *tasks.Client
}

// onBoth runs a test on PostgreSQL with Redis and on SQLite with the embedded one.
func onBoth(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(onPostgres(t, testenv.Redis(t), postgres.Options{}))
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		server, err := embeddedredis.Start()
		require.NoError(t, err)
		t.Cleanup(server.Close)
		test(onSQLite(t, server.URL()))
	})
}

func onPostgres(t *testing.T, redisURL string, o postgres.Options) *world {
	t.Helper()
	w := &world{t: t, dialect: reconciler.Postgres, url: testenv.Postgres(t)}
	w.own("pgx", w.url)
	_, err := migrations.Up(t.Context(), w.db, migrations.Postgres)
	require.NoError(t, err)
	cfg, err := postgres.Config(w.url, o)
	require.NoError(t, err)
	cfg.ConnConfig.RuntimeParams["application_name"] = w.sessions() // so that they are told from other tests'
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	store, err := postgres.OpenPool(t.Context(), pool, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	w.store = store
	w.begin(redisURL, ledger.Options{})
	return w
}

func onSQLite(t *testing.T, redisURL string) *world {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ledger.db")
	w := &world{t: t, dialect: reconciler.SQLite}
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{Migrate: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	w.own("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	w.store = store
	w.begin(redisURL, ledger.Options{Lanes: 1})
	return w
}

func (w *world) own(driver, address string) {
	w.t.Helper()
	var err error
	w.db, err = sql.Open(driver, address)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, w.db.Close()) })
}

// sessions is the application_name of this world's connections.
func (w *world) sessions() string {
	u, err := url.Parse(w.url)
	require.NoError(w.t, err)
	return u.Query().Get("search_path")
}

func (w *world) begin(redisURL string, o ledger.Options) {
	w.t.Helper()
	w.ctx, w.log = w.t.Context(), slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		w.log = slog.New(slog.NewTextHandler(w.t.Output(), nil))
	}
	o.Logger = w.log
	w.ledger = ledger.New(w.store, o)
	w.t.Cleanup(w.ledger.Close)
	w.connect(redisURL)
	w.grant(alice, granted)
}

// connect makes the world's queue the one at an address.
func (w *world) connect(redisURL string) {
	w.t.Helper()
	w.redisURL, w.redis = redisURL, redisClient(w.t, redisURL)
	w.client = tasks.NewClient(w.ledger, w.redis, tasks.ClientOptions{Logger: w.log})
}

func redisClient(t *testing.T, address string) redis.UniversalClient {
	t.Helper()
	client, err := tasks.RedisClient(address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *world) grant(to ledger.AccountName, amount int64) {
	w.t.Helper()
	_, err := w.ledger.Grant(w.ctx, ledger.GrantCredits{AccountName: to, Amount: amount, Source: "purchase", Reason: "for the test", Actor: "test"})
	require.NoError(w.t, err)
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

// work runs a worker for one job type's maker, a tasks.HandlerFunc or a provider.Vendor.
func (w *world) work(mux *tasks.Mux, change ...func(*tasks.WorkerOptions)) (worker *tasks.Worker, stop func()) {
	w.t.Helper()
	files, err := tasks.OpenArtifacts(w.ctx, "mem://")
	require.NoError(w.t, err)
	o := tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, Artifacts: files, LeaseTTL: lease,
		ShutdownTimeout: 5 * time.Second, Logger: w.log}
	for _, c := range change {
		c(&o)
	}
	worker = tasks.NewWorker(o)
	return worker, w.background(func(ctx context.Context) error {
		defer files.Close()
		return worker.Run(ctx)
	})
}

const lease = time.Second

func handled(h tasks.HandlerFunc) *tasks.Mux {
	mux := tasks.NewMux()
	mux.HandleFunc(handlerType, h)
	return mux
}

func soldBy(v provider.Vendor) *tasks.Mux {
	mux := tasks.NewMux()
	mux.HandleVendor(vendorType, v)
	return mux
}

// service is the provider of a vendor.
func service(t *testing.T, v *fakevendor.Vendor) provider.Vendor {
	t.Helper()
	s, err := generations.New(generations.Options{URL: v.URL(), Key: v.Key(), Price: price})
	require.NoError(t, err)
	return s
}

func startVendor(t *testing.T, o fakevendor.Options) *fakevendor.Vendor {
	t.Helper()
	o.Price = price
	if o.PollAfter == 0 {
		o.PollAfter = 50 * time.Millisecond
	}
	return fakevendor.Start(t, o)
}

func (w *world) relay(change ...func(*tasks.RelayOptions)) (stop func()) {
	o := tasks.RelayOptions{Ledger: w.ledger, Redis: w.redis, Interval: 200 * time.Millisecond, OrphanThreshold: 10 * time.Second, Logger: w.log}
	for _, c := range change {
		c(&o)
	}
	stop = w.background(tasks.NewRelay(o).Run)
	w.eventually("the relay has had a round", func() bool {
		relays, err := w.ledger.Relays(w.ctx)
		require.NoError(w.t, err)
		return len(relays) > 0
	})
	return stop
}

func (w *world) watch() (stop func()) {
	return w.background(tasks.NewWatcher(tasks.WatcherOptions{Ledger: w.ledger, Interval: 50 * time.Millisecond, LeaseTTL: lease,
		Grace: 100 * time.Millisecond, Logger: w.log}).Run)
}

// sweeps counts what the sweeps did.
type sweeps struct {
	mu      sync.Mutex
	refunds int
	waits   map[ledger.EndReason]int
}

func (s *sweeps) add(r reconciler.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refunds += r.Refunded
	for _, d := range r.Decisions {
		s.waits[d.Reason]++
	}
}

func (s *sweeps) refunded() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refunds
}

func (s *sweeps) waited(why ledger.EndReason) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waits[why]
}

// sweep sweeps all the time.
func (w *world) sweep(o reconciler.Options) (s *sweeps, stop func()) {
	o.Ledger, o.Logger = w.ledger, w.log
	r, s := reconciler.New(o), &sweeps{waits: map[ledger.EndReason]int{}}
	return s, w.background(func(ctx context.Context) error {
		tick := time.NewTicker(threshold)
		defer tick.Stop()
		for ctx.Err() == nil {
			report, err := r.Sweep(ctx, reconciler.SweepOptions{})
			if err != nil && ctx.Err() == nil {
				return err
			}
			s.add(report)
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
		return nil
	})
}

func job(jobType, key string) ledger.OpenJob {
	return ledger.OpenJob{AccountName: alice, ID: ledger.NewID(), Key: key, Type: jobType, Cost: price, Input: json.RawMessage(`{"prompt":"a fox"}`)}
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

func (w *world) cancel(id string) (ledger.Job, error) {
	c, err := w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: id})
	return c.Job, err
}

// within polls until something holds, and says how long that took.
func (w *world) within(most time.Duration, what string, holds func() bool) time.Duration {
	w.t.Helper()
	begin := time.Now()
	for !holds() {
		if time.Since(begin) > most {
			w.t.Fatalf("not within %s: %s", most, what)
		}
		time.Sleep(15 * time.Millisecond)
	}
	return time.Since(begin)
}

const patience = 240 * time.Second

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	w.within(patience, what, holds)
}

func (w *world) ended(id string) ledger.Job {
	w.t.Helper()
	var j ledger.Job
	w.eventually("job "+id+" ends", func() bool { j = w.job(id); return j.End != nil })
	return j
}

func (w *world) running(id string) {
	w.t.Helper()
	w.eventually("job "+id+" runs", func() bool { j := w.job(id); return j.State() == ledger.StateRunning })
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

const (
	kindsDelivered = "deduct-5 task_started+0 task_completed+0 "
	kindsStopped   = "deduct-5 task_started+0 task_failed+0 refund+5 "
	kindsUnstarted = "deduct-5 task_failed+0 refund+5 "
)

// accounted checks every invariant, and that so much was spent and nothing is held any more.
func (w *world) accounted(spent int64) {
	w.t.Helper()
	r, err := reconciler.Verify(w.ctx, reconciler.VerifyOptions{DB: w.db, Dialect: w.dialect})
	require.NoError(w.t, err)
	require.True(w.t, r.OK, "%+v", r.Broken)
	require.Zero(w.t, r.Conservation.Difference)
	require.Zero(w.t, r.Conservation.Held)
	require.Equal(w.t, spent, r.Conservation.Spent)
}

// billed checks that the vendor has one generation of a job that cost something, and was
// never asked for two at a time.
func billed(t *testing.T, v *fakevendor.Vendor, jobs ...string) {
	t.Helper()
	bill := v.Bill()
	require.Empty(t, bill.Duplicates())
	require.Empty(t, bill.Overlaps())
	for _, id := range jobs {
		rows := bill.Job(id)
		require.Len(t, rows, 1, id)
		require.EqualValues(t, price, rows[0].Cost, id)
	}
}

// sees waits until a vendor has counted something for a job.
func (w *world) sees(v *fakevendor.Vendor, kind fakevendor.Kind, id string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	require.NoError(w.t, v.Wait(ctx, kind, id, 1))
}
