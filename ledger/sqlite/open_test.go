package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	driver "modernc.org/sqlite"

	"github.com/makegood/makegood/ledger"
)

func TestOpenSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		return file
	}
	text := write("text.db", "this is a letter and no database, and long enough to have a header of a hundred bytes, which SQLite reads")
	empty := write("empty.db", "")
	for name, test := range map[string]struct {
		file    string
		migrate bool
		says    string
	}{
		"no name":          {"", true, "needs the name of a file"},
		"memory":           {":memory:", true, "needs the name of a file"},
		"no directory":     {filepath.Join(dir, "a", "b.db"), true, "does not exist; create it first"},
		"a file as one":    {filepath.Join(text, "b.db"), true, "is not a directory"},
		"a directory":      {dir, true, "is not a regular file"},
		"no file":          {filepath.Join(dir, "none.db"), false, "`makegood migrate up` creates it"},
		"not a database":   {text, false, "is not a SQLite database"},
		"nor to migrate":   {text, true, "is not a SQLite database"},
		"not migrated":     {empty, false, "run `makegood migrate up`"},
		"a place in /proc": {"/proc/ledger.db", true, "cannot be opened"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(context.Background(), test.file, Options{Migrate: test.migrate})
			require.ErrorContains(t, err, test.says)
			require.Nil(t, s)
		})
	}
	require.NoFileExists(t, filepath.Join(dir, "none.db"))
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	const overlay, tmpfs, ext4, xfs, btrfs = 0x794C7630, 0x01021994, 0xEF53, 0x58465342, 0x9123683E
	for kind, name := range networkFileSystems {
		_, err := Open(context.Background(), filepath.Join(t.TempDir(), "l.db"), Options{Migrate: true,
			fsType: func(string) (uint32, error) { return kind, nil }})
		require.ErrorContains(t, err, "on a network file system ("+name+")")
	}
	for _, kind := range []uint32{overlay, tmpfs, ext4, xfs, btrfs} {
		require.NoError(t, refuseNetwork("/x", func(string) (uint32, error) { return kind, nil }))
	}
	broken := errors.New("no such call")
	require.ErrorIs(t, refuseNetwork("/x", func(string) (uint32, error) { return 0, broken }), broken)
	_, err := fileSystemType(t.TempDir())
	require.NoError(t, err)
}

// TestOddNames: what means something in a URI is part of the name all the same.
func TestOddNames(t *testing.T) {
	for _, name := range []string{"a b.db", "100%.db", "what?.db", "#1.db", "a&mode=memory.db", "ü.db"} {
		file := filepath.Join(t.TempDir(), name)
		open(t, file)
		require.FileExists(t, file)
	}
}

func TestSettings(t *testing.T) {
	s := open(t)
	for db, pragmas := range map[*sql.DB]map[string]string{
		s.write: {"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"},
		s.read:  {"journal_mode": "wal", "query_only": "1", "busy_timeout": "10000"},
	} {
		for pragma, want := range pragmas {
			var have string
			require.NoError(t, db.QueryRow("PRAGMA "+pragma).Scan(&have))
			require.Equal(t, want, have, pragma)
		}
	}
	_, err := s.read.Exec(`DELETE FROM accounts`)
	require.ErrorContains(t, explain(err), "not writable by this process")
}

// TestReadOnlyFile: SQLite opens a file that it may not write, and says so only at the first
// write; Open tries one to find out.
func TestReadOnlyFile(t *testing.T) {
	s := open(t)
	c, err := driver.NewConnector("file:" + s.file + "?mode=ro&_txlock=immediate")
	require.NoError(t, err)
	db := sql.OpenDB(c)
	defer db.Close()
	err = checkWritable(context.Background(), db)
	require.ErrorContains(t, explain(err), "not writable by this process")
	require.Equal(t, ledger.FateUnreached, fate(t, failedBefore(err)))
}

// TestBusyTimeout: who cannot get the lock is told so in time.
func TestBusyTimeout(t *testing.T) {
	s := open(t)
	impatient, err := Open(context.Background(), s.file, Options{BusyTimeout: 30 * time.Millisecond})
	require.NoError(t, err)
	defer impatient.Close()
	tx, err := s.write.Begin()
	require.NoError(t, err)
	err = impatient.Transact(context.Background(), &ledger.Names{}, func(*ledger.Book) error { panic("without the lock") })
	require.Equal(t, ledger.FateUnreached, fate(t, err))
	require.ErrorContains(t, err, "busy timeout")
	require.NoError(t, tx.Rollback())
	require.NoError(t, impatient.Transact(context.Background(), &ledger.Names{}, func(*ledger.Book) error { return nil }))
}

// TestFirstOpenTogether: several processes may create the same ledger at once.
func TestFirstOpenTogether(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	errs := make(chan error)
	for range 4 {
		go func() {
			s, err := Open(context.Background(), file, Options{Migrate: true})
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
}

func fate(t *testing.T, err error) ledger.Fate {
	t.Helper()
	var failed *ledger.StoreError
	require.ErrorAs(t, err, &failed)
	return failed.Fate
}

// TestFateAtCommit: only what SQLite judges before it writes is known to be rolled back.
func TestFateAtCommit(t *testing.T) {
	s := open(t)
	tx, err := s.write.Begin()
	require.NoError(t, err)
	busy, err := driver.NewConnector("file:" + s.file + "?_txlock=immediate")
	require.NoError(t, err)
	other := sql.OpenDB(busy)
	defer other.Close()
	_, err = other.Begin()
	require.Equal(t, ledger.FateUnreached, fate(t, failedAtCommit(err)))
	require.NoError(t, tx.Rollback())
	require.Equal(t, ledger.FateUnknown, fate(t, failedAtCommit(errors.New("input/output error"))))
	require.Equal(t, ledger.FateUnreached, fate(t, failedBefore(context.Canceled)))
}
