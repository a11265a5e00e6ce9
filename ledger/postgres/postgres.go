// Package postgres keeps the ledger in PostgreSQL.
//
// A transaction is two round trips: one pipeline that begins, locks and loads, and one that
// writes and commits. READ COMMITTED, so each statement of a pipeline has a snapshot of its
// own: the reads, sent behind the locks, see what was committed while the locks were waited
// for. Lock and read in one statement would not (and would overspend).
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
	"github.com/makegood/makegood/migrations"
)

// Options of Open. The zero value is ready for use.
type Options struct {
	MaxConns int32            // 0 means 8
	Clock    func() time.Time // for tests; nil means the database's clock
	Logger   *slog.Logger     // nil means slog.Default()
}

// Store is a ledger.Store on PostgreSQL.
type Store struct {
	*reads.DB
	pool  *pgxpool.Pool
	clock func() time.Time
	close func()
}

var _ ledger.Store = (*Store)(nil)

// settings of every connection. A process that freezes inside a transaction must not stop the
// others, and a connection to a machine that is gone must not hang.
var settings = map[string]string{
	"application_name":                    "makegood",
	"timezone":                            "UTC",
	"idle_in_transaction_session_timeout": "2s",
	"lock_timeout":                        "5s",
	"statement_timeout":                   "30s",
	"tcp_user_timeout":                    "10s",
	"tcp_keepalives_idle":                 "5",
	"tcp_keepalives_interval":             "2",
	"tcp_keepalives_count":                "3",
	// Plans made while a table was empty scan it for ever after; every query here has an
	// index to use.
	"enable_seqscan": "off",
}

// Open connects and checks that the schema is this program's.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	if cfg.MaxConns = o.MaxConns; o.MaxConns == 0 {
		cfg.MaxConns = 8
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	db := stdlib.OpenDBFromPool(pool)
	shut := func() { _ = db.Close(); pool.Close() }
	if err := migrations.Check(ctx, db, migrations.Postgres); err != nil {
		shut()
		return nil, err
	}
	return &Store{DB: reads.New(db, db, reads.Postgres, o.Clock), pool: pool, clock: o.Clock, close: shut}, nil
}

// Close closes all connections.
func (s *Store) Close() error {
	s.close()
	return nil
}

// Transact runs one transaction; ledger.Store says what that means.
func (s *Store) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return &ledger.StoreError{Fate: ledger.FateUnreached, Err: err}
	}
	defer conn.Release()
	// A transaction that does not reach its end must not stay open on a pooled connection.
	done := false
	defer func() {
		if !done {
			_ = conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	book, err := load(ctx, conn.Conn(), names, s.clock, true)
	if err != nil {
		done = rollback(ctx, conn.Conn())
		return &ledger.StoreError{Fate: fate(err, false), Err: err}
	}
	if err := decide(book); err != nil || book.Changes().Empty() {
		done = rollback(ctx, conn.Conn())
		return err
	}
	if err := write(ctx, conn.Conn(), book, true); err != nil {
		done = rollback(ctx, conn.Conn())
		return &ledger.StoreError{Fate: fate(err, true), Err: err}
	}
	done = true
	return nil
}

func rollback(ctx context.Context, conn *pgx.Conn) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, err := conn.Exec(ctx, "ROLLBACK")
	return err == nil
}

// txStore is a store inside somebody else's transaction.
type txStore struct {
	*reads.DB
	tx    pgx.Tx
	clock func() time.Time
}

// InTx puts the ledger inside the caller's own transaction, for ledger.Direct: the charge
// commits or rolls back with the caller's rows. Each command runs in a savepoint of its own
// and there is no group commit; the account's lock is held until the caller ends the
// transaction, so end it soon. Reads answer outside of it and do not see what it has not
// committed.
func (s *Store) InTx(tx pgx.Tx) ledger.Store { return &txStore{s.DB, tx, s.clock} }

// Transact runs one command in a savepoint.
func (s *txStore) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	err := pgx.BeginFunc(ctx, s.tx, func(pgx.Tx) error {
		book, err := load(ctx, s.tx.Conn(), names, s.clock, false)
		if err != nil {
			return err
		}
		if err := decide(book); err != nil || book.Changes().Empty() {
			return err
		}
		return write(ctx, s.tx.Conn(), book, false)
	})
	if err != nil {
		return &ledger.StoreError{Fate: fate(err, false), Err: err}
	}
	return nil
}

// Close does nothing: the transaction is the caller's.
func (*txStore) Close() error { return nil }
