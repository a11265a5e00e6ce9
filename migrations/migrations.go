// Package migrations holds the schema of the ledger for PostgreSQL and SQLite and brings a
// database up to it.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// Dialect is the database that a schema is for.
type Dialect string

// The databases.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied bool
	At      time.Time // when it was applied; zero while it is not
}

// A SchemaError says that the schema is not this program's, and what to do.
type SchemaError struct {
	Have, Want int64 // versions; Have is -1 where no table exists yet
}

func (e *SchemaError) Error() string {
	switch {
	case e.Have < 0:
		return "the database has no Makegood tables yet: run `makegood migrate up`"
	case e.Have < e.Want:
		return fmt.Sprintf("the database is older than this program (schema %d, this program needs %d): run `makegood migrate up`", e.Have, e.Want)
	}
	return fmt.Sprintf("the database is newer than this program (schema %d, this program knows %d): use a newer program", e.Have, e.Want)
}

// Up applies what is missing and returns how many steps that were. Two at once are fine: on
// PostgreSQL they wait for each other behind an advisory lock, on SQLite behind the file's. A
// schema newer than this program is refused with a [*SchemaError].
// ANALYZE follows, since plans made while a table was empty scan it for ever after.
func Up(ctx context.Context, db *sql.DB, d Dialect) (applied int, err error) {
	if err := checkNotNewer(ctx, db, d); err != nil {
		return 0, err
	}
	if d == SQLite {
		return upSQLite(ctx, db)
	}
	p, err := provider(ctx, db, d)
	if err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate: %w", err)
	}
	if len(done) > 0 {
		_, err = db.ExecContext(ctx, "ANALYZE accounts, credit_transactions, grants, adjustments, jobs, open_jobs, ended_jobs, attempts, vendor_calls, workers")
	}
	return len(done), err
}

// upSQLite tries again while another process migrates the same file: goose reads the version
// before it writes, and SQLite makes the slower one start over.
func upSQLite(ctx context.Context, db *sql.DB) (applied int, err error) {
	for try := 0; ; try++ {
		var p *goose.Provider
		if p, err = provider(ctx, db, SQLite); err != nil {
			return 0, err
		}
		done, err := p.Up(ctx)
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			done = partial.Applied
		}
		applied += len(done)
		if err == nil {
			if applied > 0 {
				_, err = db.ExecContext(ctx, "ANALYZE")
			}
			return applied, err
		}
		if try == 20 || ctx.Err() != nil {
			return 0, fmt.Errorf("migrate: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Status lists all steps.
func Status(ctx context.Context, db *sql.DB, d Dialect) ([]Migration, error) {
	p, err := provider(ctx, db, d)
	if err != nil {
		return nil, err
	}
	steps, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	list := make([]Migration, 0, len(steps))
	for _, s := range steps {
		list = append(list, Migration{s.Source.Version, s.Source.Path, s.State == goose.StateApplied, s.AppliedAt})
	}
	return list, nil
}

// Check returns nil when the schema is exactly this program's, and a [*SchemaError] when not.
func Check(ctx context.Context, db *sql.DB, d Dialect) error {
	want, err := newest(d)
	if err != nil {
		return err
	}
	have, err := current(ctx, db, d)
	if err != nil {
		return fmt.Errorf("read the schema version: %w", err)
	}
	if have != want {
		return &SchemaError{have, want}
	}
	return nil
}

// checkNotNewer refuses a database that a newer program migrated: goose knows none of its
// steps, and would call it up to date.
func checkNotNewer(ctx context.Context, db *sql.DB, d Dialect) error {
	if e, ok := errors.AsType[*SchemaError](Check(ctx, db, d)); ok && e.Have > e.Want {
		return e
	}
	return nil // what else is wrong, goose mends or meets again
}

// current is the version of the database; -1 where no table exists yet.
func current(ctx context.Context, db *sql.DB, d Dialect) (version int64, err error) {
	exists := `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'goose_db_version'`
	if d == SQLite {
		exists = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'`
	}
	var tables int
	if err := db.QueryRowContext(ctx, exists).Scan(&tables); err != nil || tables == 0 {
		return -1, err
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	return version, err
}

// newest is the version of the last step.
func newest(d Dialect) (int64, error) {
	names, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil {
		return 0, err
	}
	var top int64
	for _, name := range names {
		v, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		top = max(top, v)
	}
	return top, nil
}

func provider(ctx context.Context, db *sql.DB, d Dialect) (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	dialect := goose.DialectSQLite3
	if d == Postgres {
		dialect = goose.DialectPostgres
		locker, err := locker(ctx, db)
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(dialect, db, dir, options...)
}

// locker keeps two migrations of one schema apart. Advisory locks belong to the database, so
// the key is the schema's name: two schemas do not wait for each other.
func locker(ctx context.Context, db *sql.DB) (lock.SessionLocker, error) {
	schema, err := currentSchema(ctx, db)
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("makegood:" + schema))
	// Tried every second for five minutes: goose's own five seconds would make each of two
	// programs that start together wait for nothing.
	return lock.NewPostgresSessionLocker(lock.WithLockID(int64(h.Sum64())), lock.WithLockTimeout(1, 300))
}

func currentSchema(ctx context.Context, db *sql.DB) (string, error) {
	var schema sql.NullString
	if err := db.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return "", fmt.Errorf("connect to the database: %w", err)
	}
	if !schema.Valid {
		return "", errors.New("the search_path names no schema that exists: create it first")
	}
	return schema.String, nil
}
