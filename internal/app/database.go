package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib" // migrations connect as the owner, apart from the pool
	_ "modernc.org/sqlite"             // likewise

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/migrations"
	"github.com/makegood/makegood/reconciler"
)

func openStore(ctx context.Context, cfg config.Config, log *slog.Logger) (store ledger.Store, err error) {
	if file, ok := cfg.SQLiteFile(); ok {
		if err := checkExists(file); err != nil {
			return nil, err
		}
		store, err = sqlite.Open(ctx, file, sqlite.Options{Logger: log})
	} else {
		store, err = postgres.Open(ctx, cfg.DatabaseURL, postgres.Options{Logger: log})
	}
	if err != nil {
		return nil, outage(err)
	}
	return store, nil
}

// checkExists refuses a SQLite file that is missing, before a mistyped name creates one.
func checkExists(file string) error {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return &ledger.Error{Code: ledger.CodeConflict,
			Detail: fmt.Sprintf("the ledger's file %s does not exist: `makegood migrate up` or `makegood up` creates it", file)}
	}
	return nil // what else is wrong, SQLite says
}

// outage makes a database that cannot be reached, or is too busy, a ledger.ErrUnavailable, as
// it is once the ledger is open. Other errors stay as they are.
func outage(err error) error {
	if refused, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return &ledger.Error{Code: ledger.CodeUnavailable, Detail: fmt.Sprintf("the database at %s cannot be reached (%v): start it, or correct DATABASE_URL",
			net.JoinHostPort(refused.Config.Host, strconv.Itoa(int(refused.Config.Port))), root(refused))}
	}
	const busy, locked = 5, 6 // SQLite's result codes
	if e, ok := errors.AsType[interface {
		error
		Code() int
	}](err); ok && (e.Code()&0xff == busy || e.Code()&0xff == locked) {
		return ledger.Unavailable(err)
	}
	return err
}

// root is the first cause of an error: what the system or the server said.
func root(err error) error {
	for {
		cause := errors.Unwrap(err)
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			cause = joined.Unwrap()[0]
		}
		if cause == nil {
			return err
		}
		err = cause
	}
}

// database is a connection beside the ledger's, for what is not a command of it: migrations,
// and the check of everything.
type database struct {
	*sql.DB
	dialect migrations.Dialect
}

// ownerDatabase connects as the role that owns the tables. A SQLite file is created where it
// is missing.
func ownerDatabase(cfg config.Config) (database, error) {
	if cfg.MigrateDatabaseURL == "" {
		return openDatabase(cfg.DatabaseURL)
	}
	return openDatabase(cfg.MigrateDatabaseURL)
}

// readerDatabase connects as the programs do. A SQLite file that is missing stays missing.
func readerDatabase(cfg config.Config) (database, error) {
	if file, ok := cfg.SQLiteFile(); ok {
		if err := checkExists(file); err != nil {
			return database{}, err
		}
	}
	return openDatabase(cfg.DatabaseURL)
}

func openDatabase(address string) (database, error) {
	file, ok := strings.CutPrefix(address, "sqlite:")
	if !ok {
		db, err := sql.Open("pgx", address)
		return database{db, migrations.Postgres}, err
	}
	file, err := filepath.Abs(file) // a URL knows no relative path
	if err != nil {
		return database{}, err
	}
	if _, err := os.Stat(filepath.Dir(file)); errors.Is(err, fs.ErrNotExist) {
		return database{}, &ledger.Error{Code: ledger.CodeConflict,
			Detail: fmt.Sprintf("the directory %s of the ledger's file does not exist: create it first", filepath.Dir(file))}
	}
	name := url.URL{Scheme: "file", Path: file, RawQuery: "_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_txlock=immediate"}
	db, err := sql.Open("sqlite", name.String())
	return database{db, migrations.SQLite}, err
}

// Migrate brings the schema up to this program's version and returns how many steps that were.
func Migrate(ctx context.Context, cfg config.Config) (applied int, err error) {
	db, err := ownerDatabase(cfg)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	applied, err = migrations.Up(ctx, db.DB, db.dialect)
	return applied, outage(err)
}

// GrantAppRole gives a PostgreSQL role what the programs need and no more.
func GrantAppRole(ctx context.Context, cfg config.Config, role string) error {
	db, err := ownerDatabase(cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	return outage(migrations.GrantAppRole(ctx, db.DB, role))
}

// MigrationStatus lists the steps of the schema and which of them were applied.
func MigrationStatus(ctx context.Context, cfg config.Config) ([]migrations.Migration, error) {
	db, err := readerDatabase(cfg)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	steps, err := migrations.Status(ctx, db.DB, db.dialect)
	return steps, outage(err)
}

// Verify checks the invariants over the ledger, or over one account of the tenant. progress
// is told how many rows were read.
func Verify(ctx context.Context, cfg config.Config, account string, progress func(rows int64)) (reconciler.VerifyReport, error) {
	db, err := readerDatabase(cfg)
	if err != nil {
		return reconciler.VerifyReport{}, err
	}
	defer db.Close()
	if err := migrations.Check(ctx, db.DB, db.dialect); err != nil {
		return reconciler.VerifyReport{}, outage(err)
	}
	report, err := reconciler.Verify(ctx, reconciler.VerifyOptions{DB: db.DB, Dialect: reconciler.Dialect(db.dialect),
		Account: account, Tenant: cfg.Tenant, Progress: progress})
	return report, outage(err)
}
