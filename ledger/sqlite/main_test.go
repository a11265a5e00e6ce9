package sqlite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// childRole names what the test binary does when a test runs it as another process.
const childRole = "MAKEGOOD_SQLITE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		children[role]()
		return
	}
	os.Exit(m.Run())
}

// open opens a migrated ledger in a new file, or in the file given.
func open(t testing.TB, file ...string) *Store {
	t.Helper()
	if file == nil {
		file = []string{filepath.Join(t.TempDir(), "ledger.db")}
	}
	s, err := Open(context.Background(), file[0], Options{Migrate: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
