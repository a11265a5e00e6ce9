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
	"net"
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
	log   *slog.Logger
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
	// A table that is read whole all the same looks so dear by it that the query would be
	// compiled first, which takes a hundred times as long as running it.
	"jit": "off",
}

const (
	connectTimeout = 5 * time.Second
	// patience bounds a transaction from this side: the server's own timeouts do not help
	// when it is the server that froze or went. More than its statement_timeout.
	patience = 35 * time.Second
	// rollbackPatience is short: a connection that cannot roll back is thrown away.
	rollbackPatience = 2 * time.Second
)

// Config is how Open connects, for callers that add to it (a tracer, TLS) and use OpenPool.
func Config(url string, o Options) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	maps.Copy(cfg.ConnConfig.RuntimeParams, settings)
	cfg.ConnConfig.ConnectTimeout = connectTimeout
	cfg.ConnConfig.DialFunc = (&net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3},
	}).DialContext
	if cfg.MaxConns = o.MaxConns; o.MaxConns == 0 {
		cfg.MaxConns = 8
	}
	return cfg, nil
}

// Open connects and checks that the schema is this program's.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	cfg, err := Config(url, o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to PostgreSQL: %w", err)
	}
	s, err := OpenPool(ctx, pool, o)
	if err != nil {
		pool.Close()
		return nil, err
	}
	closeReads := s.close
	s.close = func() { closeReads(); pool.Close() }
	return s, nil
}

// OpenPool is Open on a pool of the caller's, made with Config: without its timeouts a frozen
// process stops the others. Close leaves the pool open.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	db := stdlib.OpenDBFromPool(pool)
	if err := migrations.Check(ctx, db, migrations.Postgres); err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Store{DB: reads.New(db, db, reads.Postgres, o.Clock), pool: pool, clock: o.Clock, log: o.Logger,
		close: func() { _ = db.Close() }}, nil
}

// Close closes all connections.
func (s *Store) Close() error {
	s.close()
	return nil
}

// PoolStat tells how busy the connections are.
func (s *Store) PoolStat() *pgxpool.Stat { return s.pool.Stat() }

// Transact runs one transaction; ledger.Store says what that means.
func (s *Store) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pooled, err := s.pool.Acquire(ctx)
	if err != nil {
		return &ledger.StoreError{Fate: ledger.FateUnreached, Err: err}
	}
	// Release throws away a connection that is broken or still inside a transaction.
	defer pooled.Release()
	conn, committed := pooled.Conn(), false
	defer func() {
		if !committed { // also when decide panics
			rollback(ctx, conn)
		}
	}()
	book, err := load(ctx, conn, names, s.clock, true)
	if err != nil {
		return failed(err, false)
	}
	if err := decide(book); err != nil || book.Changes().Empty() {
		return err
	}
	if err := write(ctx, conn, book, true); err != nil {
		lost := failed(err, true)
		if lost.Fate == ledger.FateUnknown {
			s.log.Warn("the connection broke at a commit: unknown whether it happened", "error", err)
		}
		return lost
	}
	committed = true
	return nil
}

// rollback outlives the caller's context, so that no lock waits for a timeout.
func rollback(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackPatience)
	defer cancel()
	_, _ = conn.Exec(ctx, "ROLLBACK")
}
