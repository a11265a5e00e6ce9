package reconciler

import (
	"context"
	"database/sql"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock is a clock that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a ledger on one of the stores, with an owner's connection beside it.
type world struct {
	t       *testing.T
	ctx     context.Context
	dialect Dialect
	clock   *clock
	store   ledger.Store
	ledger  *ledger.Ledger
	db      *sql.DB
}

// onBoth runs a test on SQLite and on PostgreSQL.
func onBoth(t *testing.T, test func(t *testing.T, w *world)) {
	t.Parallel()
	for _, d := range []Dialect{SQLite, Postgres} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, d))
		})
	}
}

func newWorld(t *testing.T, d Dialect) *world {
	w := &world{t: t, ctx: t.Context(), dialect: d, clock: &clock{now: noon}}
	var err error
	if d == Postgres {
		url := testenv.Postgres(t)
		w.db, err = sql.Open("pgx", url)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, w.db.Close()) })
		_, err = migrations.Up(w.ctx, w.db, migrations.Postgres)
		require.NoError(t, err)
		w.store, err = postgres.Open(w.ctx, url, postgres.Options{Clock: w.clock.read, MaxConns: 4})
	} else {
		file := filepath.Join(t.TempDir(), "makegood.db")
		w.store, err = sqlite.Open(w.ctx, file, sqlite.Options{Clock: w.clock.read, Migrate: true})
		require.NoError(t, err)
		w.db, err = sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_txlock=immediate")
		t.Cleanup(func() { require.NoError(t, w.db.Close()) })
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.store.Close()) })
	w.ledger = ledger.New(w.store, ledger.Options{Lanes: 2})
	t.Cleanup(w.ledger.Close)
	return w
}

var alice = ledger.AccountName{Tenant: "default", Name: "alice"}

func (w *world) reconciler() *Reconciler {
	return New(Options{Ledger: w.ledger, Logger: slog.New(slog.DiscardHandler)})
}

func (w *world) grant(n ledger.AccountName, amount int64) ledger.Granted {
	w.t.Helper()
	g, err := w.ledger.Grant(w.ctx, ledger.GrantCredits{AccountName: n, Amount: amount, Reason: "test"})
	require.NoError(w.t, err)
	return g
}

func (w *world) open(n ledger.AccountName, cost int64, with ...func(*ledger.OpenJob)) string {
	w.t.Helper()
	c := ledger.OpenJob{AccountName: n, Type: "image", Cost: cost}
	for _, f := range with {
		f(&c)
	}
	o, err := w.ledger.Open(w.ctx, c)
	require.NoError(w.t, err)
	return o.Job.ID
}

func attempts(n int) func(*ledger.OpenJob)          { return func(c *ledger.OpenJob) { c.MaxAttempts = n } }
func maxWait(d time.Duration) func(*ledger.OpenJob) { return func(c *ledger.OpenJob) { c.MaxWait = d } }

// start runs a job; the token is the job's id with "-t" behind it.
func (w *world) start(job string) string {
	w.t.Helper()
	s, err := w.ledger.Start(w.ctx, ledger.StartJob{JobID: job, Token: job + "-t", Worker: "w1"})
	require.NoError(w.t, err)
	require.Equal(w.t, ledger.VerdictRun, s.Verdict)
	return job + "-t"
}

func (w *world) complete(job string, actual int64) {
	w.t.Helper()
	_, err := w.ledger.Complete(w.ctx, ledger.CompleteJob{JobID: job, Token: w.start(job), Actual: actual, Delivered: 1})
	require.NoError(w.t, err)
}

func (w *world) relay(outSince time.Time) {
	w.t.Helper()
	require.NoError(w.t, w.ledger.ReportRelay(w.ctx, ledger.RelayStatus{ID: "r1", OutageSince: outSince}))
}

func (w *world) refuse(job string) {
	w.t.Helper()
	s, err := w.ledger.Sight(w.ctx, ledger.SightJob{JobID: job, Epoch: 1, Sign: ledger.SignRefused, Next: time.Minute})
	require.NoError(w.t, err)
	require.True(w.t, s.Changed)
}

func (w *world) job(id string) ledger.Job {
	w.t.Helper()
	j, err := w.ledger.Job(w.ctx, "default", id)
	require.NoError(w.t, err)
	return j
}

func (w *world) available(n ledger.AccountName) int64 {
	w.t.Helper()
	b, err := w.ledger.Balance(w.ctx, n)
	require.NoError(w.t, err)
	return b.Available
}

func (w *world) exec(statements ...string) {
	w.t.Helper()
	for _, s := range statements {
		_, err := w.db.ExecContext(w.ctx, s)
		require.NoError(w.t, err, s)
	}
}

func (w *world) count(query string) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.db.QueryRowContext(w.ctx, query).Scan(&n))
	return n
}

func (w *world) verify() VerifyReport {
	w.t.Helper()
	r, err := Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect})
	require.NoError(w.t, err)
	return r
}
