package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
)

// open makes a migrated schema and opens it as the application's role.
func open(t *testing.T) (store *postgres.Store, ownerURL, appURL string) {
	t.Helper()
	ctx := t.Context()
	ownerURL = testenv.Postgres(t)
	db, err := sql.Open("pgx", ownerURL)
	require.NoError(t, err)
	defer db.Close()
	_, err = migrations.Up(ctx, db, migrations.Postgres)
	require.NoError(t, err)
	role, appURL := testenv.AppRole(t, ownerURL)
	require.NoError(t, migrations.GrantAppRole(ctx, db, role))
	store, err = postgres.Open(ctx, appURL, postgres.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store, ownerURL, appURL
}

var ada = ledger.AccountName{Tenant: "default", Name: "ada"}

func TestLifeOfAJob(t *testing.T) {
	t.Parallel()
	store, _, _ := open(t)
	l := ledger.New(store, ledger.Options{})
	defer l.Close()
	ctx := t.Context()

	_, err := l.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "test", Key: "g1"})
	require.NoError(t, err)
	opened, err := l.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 30, Key: "order-1", Input: []byte(`{"prompt":"a"}`)})
	require.NoError(t, err)
	again, err := l.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 30, Key: "order-1", Input: []byte(`{ "prompt" : "a" }`)})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, opened.Job.ID, again.Job.ID)
	_, err = l.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 31, Key: "order-1", Input: []byte(`{"prompt":"a"}`)})
	require.ErrorIs(t, err, ledger.ErrKeyReused)

	start := ledger.StartJob{JobID: opened.Job.ID, Epoch: 1, Token: "t1", Worker: "w1"}
	started, err := l.Start(ctx, start)
	require.NoError(t, err)
	require.Equal(t, ledger.VerdictRun, started.Verdict)
	completed, err := l.Complete(ctx, ledger.CompleteJob{JobID: opened.Job.ID, Token: "t1", Actual: 20, Delivered: 1})
	require.NoError(t, err)
	require.Equal(t, int64(20), completed.Job.End.Charged)
	started, err = l.Start(ctx, ledger.StartJob{JobID: opened.Job.ID, Token: "t2", Worker: "w1"})
	require.NoError(t, err)
	require.Equal(t, "ended", started.Why)

	balance, err := l.Balance(ctx, ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 80}, balance)
	entries, err := l.JobEntries(ctx, opened.Job.ID)
	require.NoError(t, err)
	kinds := make([]ledger.Kind, 0, 4)
	for _, e := range entries {
		kinds = append(kinds, e.Kind)
	}
	require.Equal(t, []ledger.Kind{ledger.KindDeduct, ledger.KindTaskStarted, ledger.KindTaskCompleted, ledger.KindSettle}, kinds)
}

// Two jobs with different ids race for the same credits: UNIQUE (job_id, kind) cannot tell
// them apart, only the account's lock can.
func TestOnlyTheLockStopsTwoJobsFromSpendingTheSameCredits(t *testing.T) {
	t.Parallel()
	store, _, _ := open(t)
	// Two ledgers, as in two processes: nothing but the database is between them.
	one, two := ledger.New(store, ledger.Options{}), ledger.New(store, ledger.Options{})
	defer one.Close()
	defer two.Close()
	_, err := one.Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 1, Reason: "test"})
	require.NoError(t, err)
	var mu sync.Mutex
	accepted := 0
	var wg sync.WaitGroup
	for i := range 20 {
		l := one
		if i%2 == 1 {
			l = two
		}
		wg.Go(func() {
			_, err := l.Open(context.Background(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 1})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				accepted++
			} else if !errors.Is(err, ledger.ErrInsufficientCredits) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, accepted)
	balance, err := one.Balance(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 0, Held: 1}, balance)
}

func TestChargeInsideTheCallersTransaction(t *testing.T) {
	t.Parallel()
	store, _, appURL := open(t)
	l := ledger.New(store, ledger.Options{})
	defer l.Close()
	ctx := t.Context()
	_, err := l.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 10, Reason: "test"})
	require.NoError(t, err)
	conn, err := pgx.Connect(ctx, appURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for _, commit := range []bool{false, true} {
		tx, err := conn.Begin(ctx)
		require.NoError(t, err)
		_, err = ledger.Direct(store.WithTx(tx)).Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 4})
		require.NoError(t, err)
		_, err = ledger.Direct(store.WithTx(tx)).Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 40})
		require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
		want := int64(10)
		if commit {
			require.NoError(t, tx.Commit(ctx))
			want = 6
		} else {
			require.NoError(t, tx.Rollback(ctx))
		}
		balance, err := l.Balance(ctx, ada)
		require.NoError(t, err)
		require.Equal(t, want, balance.Available)
	}
}

// I1 to I4 hold against the application's role and against the owner alike.
func TestTheSchemaRefuses(t *testing.T) {
	t.Parallel()
	store, ownerURL, appURL := open(t)
	l := ledger.New(store, ledger.Options{})
	defer l.Close()
	ctx := t.Context()
	_, err := l.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 10, Reason: "test"})
	require.NoError(t, err)
	opened, err := l.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 4})
	require.NoError(t, err)
	_, err = l.Cancel(ctx, ledger.CancelJob{Tenant: ada.Tenant, JobID: opened.Job.ID})
	require.NoError(t, err)
	account, err := l.Account(ctx, ada)
	require.NoError(t, err)

	insert := func(seq, kind, delta, after, floor, job string) string {
		return "INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, floor, job_id, reason, actor, created_at) VALUES ('x', '" +
			account.ID + "', " + seq + ", '" + kind + "', " + delta + ", " + after + ", " + floor + ", '" + job + "', 'r', 'a', now())"
	}
	cases := map[string]string{
		"update":               "UPDATE credit_transactions SET delta = 1",
		"update of nothing":    "UPDATE credit_transactions SET delta = 1 WHERE false",
		"delete":               "DELETE FROM credit_transactions",
		"truncate":             "TRUNCATE credit_transactions",
		"upsert":               insert("NULL", "task_started", "0", "NULL", "NULL", "j") + " ON CONFLICT (id) DO UPDATE SET delta = 0",
		"same step twice":      insert("NULL", "task_failed", "0", "NULL", "NULL", opened.Job.ID),
		"second outcome":       insert("NULL", "task_completed", "0", "NULL", "NULL", opened.Job.ID),
		"gap in the chain":     insert("9", "grant", "1", "11", "NULL", "j"),
		"same place twice":     insert("1", "grant", "1", "1", "NULL", "j"),
		"wrong balance":        insert("4", "grant", "1", "12", "NULL", "j"),
		"below the floor":      insert("4", "deduct", "-11", "-1", "0", "j"),
		"deduct without floor": insert("4", "deduct", "-1", "9", "NULL", "j"),
		"sign":                 insert("4", "grant", "-1", "9", "NULL", "j"),
		"marker with a place":  insert("4", "task_started", "0", "10", "NULL", "j"),
		"unknown kind":         insert("4", "gift", "1", "11", "NULL", "j"),
		"beyond the bounds":    insert("4", "grant", "9007199254740990", "9007199254741000", "NULL", "j"),
	}
	owner, err := pgx.Connect(ctx, ownerURL)
	require.NoError(t, err)
	defer owner.Close(context.Background())
	app, err := pgx.Connect(ctx, appURL)
	require.NoError(t, err)
	defer app.Close(context.Background())
	for name, statement := range cases {
		_, err := owner.Exec(ctx, statement)
		require.Error(t, err, "owner: %s", name)
		_, err = app.Exec(ctx, statement)
		require.Error(t, err, "app: %s", name)
	}
	_, err = app.Exec(ctx, insert("4", "grant", "1", "11", "NULL", "fits"))
	require.NoError(t, err, "the statements above must have failed for their own reasons")
	_, err = app.Exec(ctx, "ALTER TABLE credit_transactions DISABLE TRIGGER ALL")
	require.ErrorContains(t, err, "must be owner")
}
