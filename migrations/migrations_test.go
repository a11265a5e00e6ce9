package migrations_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// databases makes an empty database of each kind; call it again for another handle.
var databases = map[migrations.Dialect]func(*testing.T) (another func() *sql.DB){
	migrations.Postgres: func(t *testing.T) func() *sql.DB {
		t.Helper()
		url := testenv.Postgres(t)
		return func() *sql.DB { return handle(t, "pgx", url) }
	},
	migrations.SQLite: func(t *testing.T) func() *sql.DB {
		t.Helper()
		file := "file:" + filepath.Join(t.TempDir(), "ledger.db") + "?_pragma=busy_timeout(5000)&_txlock=immediate"
		return func() *sql.DB { return handle(t, "sqlite", file) }
	},
}

func handle(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// onEach runs a test on every kind of database.
func onEach(t *testing.T, test func(t *testing.T, d migrations.Dialect, another func() *sql.DB)) {
	t.Parallel()
	for d, empty := range databases {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			test(t, d, empty(t))
		})
	}
}

// steps is how many migrations there are.
const steps = 2

func TestUpTwice(t *testing.T) {
	onEach(t, func(t *testing.T, d migrations.Dialect, another func() *sql.DB) {
		db := another()
		applied, err := migrations.Up(t.Context(), db, d)
		require.NoError(t, err)
		require.Equal(t, steps, applied)
		var before, after string
		require.NoError(t, db.QueryRow("SELECT CAST(id AS text) FROM installation").Scan(&before))

		applied, err = migrations.Up(t.Context(), db, d)
		require.NoError(t, err)
		require.Zero(t, applied)
		require.NoError(t, db.QueryRow("SELECT CAST(id AS text) FROM installation").Scan(&after))
		require.Equal(t, before, after)
	})
}

// Programs that start together migrate together: one does it, the others find it done.
func TestUpEightAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, d migrations.Dialect, another func() *sql.DB) {
		var (
			wg    sync.WaitGroup
			mu    sync.Mutex
			total int
		)
		for range 8 {
			db := another()
			wg.Go(func() {
				applied, err := migrations.Up(context.Background(), db, d)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				total += applied
			})
		}
		wg.Wait()
		require.Equal(t, steps, total)
		require.NoError(t, migrations.Check(t.Context(), another(), d))
	})
}

func TestStatus(t *testing.T) {
	onEach(t, func(t *testing.T, d migrations.Dialect, another func() *sql.DB) {
		db := another()
		list, err := migrations.Status(t.Context(), db, d)
		require.NoError(t, err)
		require.Equal(t, []migrations.Migration{{Version: 1, Name: "00001_ledger.sql"}, {Version: 2, Name: "00002_vendor_calls.sql"}}, list)

		_, err = migrations.Up(t.Context(), db, d)
		require.NoError(t, err)
		list, err = migrations.Status(t.Context(), db, d)
		require.NoError(t, err)
		require.Len(t, list, steps)
		for _, step := range list {
			require.True(t, step.Applied)
			require.WithinDuration(t, time.Now(), step.At, 5*time.Minute)
		}
	})
}

func TestCheckSaysWhatToDo(t *testing.T) {
	onEach(t, func(t *testing.T, d migrations.Dialect, another func() *sql.DB) {
		db := another()
		check := func() error { return migrations.Check(t.Context(), db, d) }
		require.EqualError(t, check(), "the database has no Makegood tables yet: run `makegood migrate up`")
		_, err := migrations.Up(t.Context(), db, d)
		require.NoError(t, err)
		require.NoError(t, check())

		version := func(statement string) {
			_, err := db.Exec(statement)
			require.NoError(t, err)
		}
		version(fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, true)", steps+1))
		require.EqualError(t, check(), fmt.Sprintf("the database is newer than this program (schema %d, this program knows %d): use a newer program", steps+1, steps))
		_, err = migrations.Up(t.Context(), db, d)
		require.Equal(t, check(), err, "nor is it called up to date")
		version("DELETE FROM goose_db_version WHERE version_id > 0")
		require.EqualError(t, check(), fmt.Sprintf("the database is older than this program (schema 0, this program needs %d): run `makegood migrate up`", steps))
	})
}

// Plans made before there are statistics scan tables from end to end.
func TestUpAnalyses(t *testing.T) {
	t.Parallel()
	db := databases[migrations.Postgres](t)()
	_, err := migrations.Up(t.Context(), db, migrations.Postgres)
	require.NoError(t, err)
	var unknown int
	require.NoError(t, db.QueryRow(`SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace
		AND relname IN ('accounts', 'credit_transactions', 'jobs', 'open_jobs', 'ended_jobs') AND reltuples < 0`).Scan(&unknown))
	require.Zero(t, unknown, "reltuples is -1 until the first ANALYZE")
}

func TestNoSchema(t *testing.T) {
	t.Parallel()
	db := databases[migrations.Postgres](t)()
	db.SetMaxOpenConns(1)
	_, err := db.Exec("SET search_path = no_such_schema")
	require.NoError(t, err)
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	require.EqualError(t, err, "the search_path names no schema that exists: create it first")
}
