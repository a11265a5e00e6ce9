// Package sqlite keeps the ledger in one SQLite file, for installations where one machine is
// enough. Several processes may share the file.
//
// SQLite has one writer at a time: BEGIN IMMEDIATE is the lock that accounts and jobs have one
// each of on PostgreSQL. Everything else is the same, and ledger/ledgertest runs on both.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	driver "modernc.org/sqlite"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
	"github.com/makegood/makegood/migrations"
)

// Options of Open. The zero value is ready for use.
type Options struct {
	// Clock is the time of decisions; nil means the process's clock. One machine has one
	// clock, so the processes that share a file agree on it.
	Clock func() time.Time
	// BusyTimeout is how long to wait for another process's transaction; 0 means 10 s.
	BusyTimeout time.Duration
	Logger      *slog.Logger // nil means slog.Default()
	// Migrate creates the file when it is missing and brings its schema up to date.
	Migrate bool

	// Tests put their own in place of these.
	fsType   func(path string) (uint32, error)
	courtesy time.Duration // negative for none
}

func (o *Options) defaults() {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	clock := o.Clock
	o.Clock = func() time.Time { return clock().UTC().Truncate(time.Microsecond) }
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.fsType == nil {
		o.fsType = fileSystemType
	}
	if o.courtesy == 0 {
		o.courtesy = courtesy
	}
}

// Store keeps the ledger in a SQLite file. It is safe for concurrent use.
type Store struct {
	*reads.DB
	file        string
	read, write *sql.DB
	clock       func() time.Time
	statements  statements
}

var _ ledger.Store = (*Store)(nil)

// readers is how many reads may run at once. Reads of a WAL file wait for nobody, so this
// bounds only memory (each connection has a page cache of its own).
const readers = 4

// Open opens the ledger in file. Each error says what to do about it.
func Open(ctx context.Context, file string, o Options) (*Store, error) {
	o.defaults()
	if file == "" || file == ":memory:" {
		return nil, errors.New("the ledger needs the name of a file; one in memory would lose it")
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("the ledger's file: %w", err)
	}
	if err := checkPlace(file, o.Migrate, o.fsType); err != nil {
		return nil, err
	}
	s := &Store{file: file, clock: o.Clock}
	if err := s.open(ctx, file, o); err != nil {
		return nil, errors.Join(fmt.Errorf("the ledger in %s: %w", file, explain(err)), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, file string, o Options) (err error) {
	how := toWrite
	if o.Migrate {
		how = toCreate
	}
	if s.write, err = handle(file, how, 1, o); err != nil {
		return err
	}
	if s.read, err = handle(file, toRead, readers, o); err != nil {
		return err
	}
	if err := checkWritable(ctx, s.write); err != nil {
		return err
	}
	if o.Migrate {
		if _, err := migrations.Up(ctx, s.write, migrations.SQLite); err != nil {
			return err
		}
	}
	if err := migrations.Check(ctx, s.read, migrations.SQLite); err != nil {
		return err
	}
	s.DB = reads.New(s.read, s.write, reads.SQLite, s.clock)
	s.statements, err = prepare(ctx, s.write)
	return err
}

// handle makes a pool of conns connections, opened when they are needed and then kept.
func handle(file string, how access, conns int, o Options) (*sql.DB, error) {
	connector, err := driver.NewConnector(dsn(file, how, o.BusyTimeout))
	if err != nil {
		return nil, err
	}
	if how != toRead {
		connector = &fairConnector{Connector: connector, timeout: o.BusyTimeout, rest: o.courtesy, log: o.Logger}
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// checkWritable writes once and takes it back: SQLite opens a file that it may only read
// without a word, and even BEGIN IMMEDIATE passes. And it looks whether the file system
// permitted WAL, which SQLite also keeps to itself.
func checkWritable(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // nothing is to be kept
	if _, err := tx.ExecContext(ctx, "PRAGMA user_version = 0"); err != nil {
		return err
	}
	var mode string
	if err := tx.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("its file system does not permit a write-ahead log (the journal is %q); use a local disk", mode)
	}
	return nil
}

// Close closes the file.
func (s *Store) Close() error {
	var errs []error
	for _, db := range []*sql.DB{s.read, s.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}

// Transact runs one transaction; ledger.Store says how.
func (s *Store) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	// One writer at a time: from here to COMMIT the whole file is ours. The rows are loaded in
	// the order in which PostgreSQL locks them all the same, so that one description fits both.
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return failedBefore(err)
	}
	// After a COMMIT this does nothing; before it, it also ends what a panic of decide left.
	defer tx.Rollback() //nolint:errcheck // nothing is left to do about it

	t := transaction{Tx: tx, ctx: ctx, statements: s.statements}
	book := ledger.NewBook(s.clock()) // the lock is held, so no later decision is earlier
	if err := t.load(book, names); err != nil {
		return failedBefore(err)
	}
	if err := decide(book); err != nil {
		return err
	}
	if err := t.store(book); err != nil {
		return failedBefore(err)
	}
	if err := tx.Commit(); err != nil {
		return failedAtCommit(err)
	}
	return nil
}

// transaction is one transaction on the writer's connection.
type transaction struct {
	*sql.Tx
	ctx        context.Context
	statements statements
	err        error // the first; nothing more is tried after it
}

// statements are prepared once and kept by the writer's connection.
type statements map[string]*sql.Stmt

func prepare(ctx context.Context, db *sql.DB) (statements, error) {
	all := statements{}
	for _, list := range [][]string{loads, writes} {
		for _, query := range list {
			stmt, err := db.PrepareContext(ctx, query)
			if err != nil {
				return nil, fmt.Errorf("preparing %.60q: %w", query, err)
			}
			all[query] = stmt
		}
	}
	return all, nil
}
