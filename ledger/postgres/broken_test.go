package postgres_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
)

// fateOf is what a command without group commit learned of its transaction.
func fateOf(t *testing.T, err error) ledger.Fate {
	t.Helper()
	lost, ok := errors.AsType[*ledger.StoreError](err)
	require.True(t, ok, "%v", err)
	return lost.Fate
}

// A connection that breaks at the commit says nothing; the same command, run again, tells.
func TestConnectionBreaksAtTheCommit(t *testing.T) {
	t.Parallel()
	store, _, appURL := open(t)
	_, err := ledger.Direct(store).Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "test"})
	require.NoError(t, err)
	p, url := through(t, appURL)
	far, err := postgres.Open(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer far.Close()

	spent := int64(0)
	for i, after := range []bool{false, true, false, true} {
		name := map[bool]string{false: "before the server has it", true: "before its answer comes"}[after]
		// Only the pipeline that ends with COMMIT carries the metadata.
		word := fmt.Sprintf("cut-%d-here", i)
		open := ledger.OpenJob{AccountName: ada, ID: ledger.NewID(), Type: "image", Cost: 7, Metadata: []byte(`{"word":"` + word + `"}`)}
		p.cutAt.Store(&cut{word: word, after: after})
		_, err := ledger.Direct(far).Open(t.Context(), open)
		require.Equal(t, ledger.FateUnknown, fateOf(t, err), name)

		opened, err := ledger.Direct(far).Open(t.Context(), open)
		require.NoError(t, err, "%s: a fresh connection is taken", name)
		require.Equal(t, open.ID, opened.Job.ID)
		spent += 7
		balance, err := store.Balance(t.Context(), ada)
		require.NoError(t, err)
		require.Equal(t, ledger.Balance{Available: 100 - spent, Held: spent}, balance, "%s: charged once", name)
	}
}

// Group commit waits an unknown commit out by itself.
func TestGroupCommitOutlivesABrokenCommit(t *testing.T) {
	t.Parallel()
	_, _, appURL := open(t)
	p, url := through(t, appURL)
	far, err := postgres.Open(t.Context(), url, postgres.Options{})
	require.NoError(t, err)
	defer far.Close()
	l := ledger.New(far, ledger.Options{})
	defer l.Close()
	_, err = l.Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 10, Reason: "test"})
	require.NoError(t, err)
	p.cutAt.Store(&cut{word: "cut-here", after: true})
	_, err = l.Open(t.Context(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 7, Metadata: []byte(`{"word":"cut-here"}`)})
	require.NoError(t, err)
	balance, err := l.Balance(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 3, Held: 7}, balance)
}

func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t)
	db, err := sql.Open("pgx", server.URL())
	require.NoError(t, err)
	defer db.Close()
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	require.NoError(t, err)
	store, err := postgres.Open(t.Context(), server.URL(), postgres.Options{})
	require.NoError(t, err)
	defer store.Close()
	direct := ledger.Direct(store)
	_, err = direct.Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 10, Reason: "test"})
	require.NoError(t, err)

	// It dies between the locks and the commit, which was then never carried out.
	err = store.Transact(t.Context(), &ledger.Names{Accounts: []ledger.AccountName{ada}}, func(b *ledger.Book) error {
		b.Changes().Accounts = append(b.Changes().Accounts, &ledger.Account{ID: "x", Tenant: "default", Name: "x", Status: ledger.AccountActive, CreatedAt: b.Now()})
		server.Kill()
		return nil
	})
	require.Contains(t, []ledger.Fate{ledger.FateUnknown, ledger.FateUnreached}, fateOf(t, err))
	_, err = direct.Open(t.Context(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 1})
	require.Equal(t, ledger.FateUnreached, fateOf(t, err), "nobody is there to connect to")
	require.ErrorIs(t, err, ledger.ErrUnavailable)

	server.Start()
	l := ledger.New(store, ledger.Options{GiveUp: 20 * time.Second})
	defer l.Close()
	_, err = l.Open(t.Context(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 4})
	require.NoError(t, err, "it heals by itself")
	balance, err := l.Balance(t.Context(), ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 6, Held: 4}, balance)
	_, err = l.Account(t.Context(), ledger.AccountName{Tenant: "default", Name: "x"})
	require.ErrorIs(t, err, ledger.ErrNotFound)
}
