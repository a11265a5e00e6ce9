package postgres_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
)

// A small table that is read whole must not have its query compiled first.
func TestNoQueryIsCompiled(t *testing.T) {
	t.Parallel()
	store, _, appURL := open(t)
	cfg, err := postgres.Config(appURL, postgres.Options{})
	require.NoError(t, err)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	defer pool.Close()
	rows, err := pool.Query(t.Context(), "EXPLAIN ANALYZE SELECT state, sum(held) FROM open_jobs GROUP BY state")
	require.NoError(t, err)
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NotContains(t, strings.Join(plan, "\n"), "JIT")

	l := ledger.New(store, ledger.Options{})
	defer l.Close()
	_, err = l.Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "test"})
	require.NoError(t, err)
	_, err = l.Open(t.Context(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 30})
	require.NoError(t, err)
	g, err := l.Gauges(t.Context()) // as the application's role
	require.NoError(t, err)
	require.Equal(t, 1, g.Queued)
	require.EqualValues(t, 30, g.Held)
}
