package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/ledgertest"
	"github.com/makegood/makegood/ledger/sqlite"
)

// openEmpty opens a ledger in a file of its own.
func openEmpty(t *testing.T, clock func() time.Time) ledger.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), sqlite.Options{Clock: clock, Migrate: true})
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
