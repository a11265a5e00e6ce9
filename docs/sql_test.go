package docs_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
)

var ada = ledger.AccountName{Tenant: "default", Name: "ada"}

// Every query runs as the role of the programs, on a ledger where something happened, and finds
// rows, unless the page says that "there are none".
func TestQueriesRun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	ownerURL := testenv.Postgres(t)
	owner := openDB(t, ownerURL)
	_, err := migrations.Up(ctx, owner, migrations.Postgres)
	require.NoError(t, err)
	role, appURL := testenv.AppRole(t, ownerURL)
	require.NoError(t, migrations.GrantAppRole(ctx, owner, role))
	store, err := postgres.Open(ctx, appURL, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	books := ledger.New(store, ledger.Options{})
	t.Cleanup(books.Close)
	job := live(t, books)

	db := openDB(t, appURL)
	for _, b := range code(t, "sql", anywhere) {
		rows, err := db.QueryContext(ctx, strings.ReplaceAll(b.text(), "JOB", job))
		require.NoError(t, err, "%s:\n%s", b.page, b.text())
		found := 0
		for rows.Next() {
			found++
		}
		require.NoError(t, rows.Err(), "%s:\n%s", b.page, b.text())
		require.NoError(t, rows.Close())
		require.Equal(t, strings.Contains(b.before, "there are none"), found == 0, "%s: %d rows of\n%s", b.page, found, b.text())
	}
}

func openDB(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// live makes a ledger with a bit of everything and returns a job that was delivered in part, for
// more than was left, and credited.
func live(t *testing.T, l *ledger.Ledger) (job string) {
	t.Helper()
	ctx := context.Background()
	_, err := l.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 30, Reason: "welcome"})
	require.NoError(t, err)
	open := func() string {
		opened, err := l.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 10, Units: 2})
		require.NoError(t, err)
		return opened.Job.ID
	}
	delivered, orphan, running := open(), open(), open()
	for _, id := range []string{delivered, running} {
		_, err = l.Start(ctx, ledger.StartJob{JobID: id, Token: "token-" + id, Worker: "worker"})
		require.NoError(t, err)
	}
	_, err = l.Complete(ctx, ledger.CompleteJob{JobID: delivered, Token: "token-" + delivered, Actual: 12, Delivered: 1})
	require.NoError(t, err)
	_, err = l.CreditJob(ctx, ledger.AdjustCredits{AccountName: ada, Amount: 2, AboutJob: delivered, Reason: "six fingers", Actor: "grace"})
	require.NoError(t, err)
	_, err = l.Sweep(ctx, ledger.SweepJob{JobID: orphan, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
		return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndOrphaned, Evidence: []byte(`{"sign":"enqueue"}`)}
	}})
	require.NoError(t, err)
	require.NoError(t, l.ReportRelay(ctx, ledger.RelayStatus{ID: "relay"}))
	now, err := l.Now(ctx)
	require.NoError(t, err)
	require.NoError(t, l.SaveSweep(ctx, ledger.SweepReport{ID: ledger.NewID(), StartedAt: now, EndedAt: now, Seen: 3, Refunded: 1,
		Remaining: 2, Decisions: []byte("[]")}))
	return delivered
}
