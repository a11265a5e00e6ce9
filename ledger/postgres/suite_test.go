package postgres_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/ledgertest"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
)

// openEmpty makes a schema of its own and opens it as the application's role.
func openEmpty(t *testing.T, clock func() time.Time) ledger.Store {
	t.Helper()
	ctx := t.Context()
	ownerURL := testenv.Postgres(t)
	db, err := sql.Open("pgx", ownerURL)
	require.NoError(t, err)
	defer db.Close()
	_, err = migrations.Up(ctx, db, migrations.Postgres)
	require.NoError(t, err)
	role, appURL := testenv.AppRole(t, ownerURL)
	require.NoError(t, migrations.GrantAppRole(ctx, db, role))
	store, err := postgres.Open(ctx, appURL, postgres.Options{Clock: clock})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

func TestSuite(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, openEmpty)
}

func TestModel(t *testing.T) {
	t.Parallel()
	ledgertest.Model(t, openEmpty)
}
