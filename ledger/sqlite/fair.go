package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"
)

// SQLite has no queue for its write lock: a waiter sleeps and tries again, with SQLite's own
// handler up to 100 ms later, while a busy writer takes the lock again some microseconds after
// its commit. The waiter then starves. So that processes are fair to each other,
//
//   - a writer leaves the lock alone for courtesy after a commit. Only a writer with its next
//     transaction at hand waits for that, and its next batch grows meanwhile;
//   - a waiter tries more often than the lock is left alone, so it finds the gap.
//
// A writer cannot see who waits, but data_version tells it that another connection has
// committed. Others are about for company after that, and it rests after every commit; else
// only each restEach, so that a newcomer gets its first turn.
//
// Measured with TestMeasureCourtesy on two shared cores and ext4, as commits a second of all
// and the slowest commit: two processes that never rest 1021 and 119 ms, resting 456 and 17 ms;
// four, 730 and 168 ms against 573 and 36 ms. One process alone does 1221 without rest, 999
// like this, and 476 if it rested after every commit, which is why it looks for others first.
// Rests of 0.25 and 0.5 ms measure as 1 ms does, since Go sleeps for 1.1 ms at least there.
const (
	courtesy = time.Millisecond
	restEach = 25 * time.Millisecond
	company  = 200 * time.Millisecond
	pollEach = 400 * time.Microsecond
	// slowLock is a wait worth a line in the log: somebody holds a transaction open.
	slowLock = time.Second
)

// conn is what the driver's connections implement and database/sql looks for.
type conn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// fairConnector opens connections that wait and pause as said above.
type fairConnector struct {
	driver.Connector
	timeout time.Duration // how long to wait for the write lock
	rest    time.Duration // courtesy, or what a measurement tries
	log     *slog.Logger
}

// Connect opens a connection. The first ones ever to a file switch it to WAL, for which
// SQLite does not always wait, so that is repeated too.
func (f *fairConnector) Connect(ctx context.Context) (driver.Conn, error) {
	var c driver.Conn
	err := f.patiently(ctx, func() (err error) { c, err = f.Connector.Connect(ctx); return err })
	if err != nil {
		return nil, err
	}
	fair := &fairConn{conn: c.(conn), fairConnector: f} //nolint:forcetypeassert,errcheck // the driver is modernc.org/sqlite, see Open
	// From here on fairConn does the waiting.
	_, err = fair.conn.ExecContext(ctx, "PRAGMA busy_timeout = 0", nil)
	if err == nil {
		fair.dataVersion, err = fair.conn.PrepareContext(ctx, "PRAGMA data_version")
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return fair, nil
}

// patiently runs try until it gets its lock, or the timeout or ctx ends the wait.
func (f *fairConnector) patiently(ctx context.Context, try func() error) error {
	err := try()
	if !isBusy(err) {
		return err
	}
	began := time.Now()
	for isBusy(err) && time.Since(began) < f.timeout {
		// The jitter keeps several waiters from trying in step.
		if sleep(ctx, pollEach/2+rand.N(pollEach/2)) != nil {
			return ctx.Err()
		}
		err = try()
	}
	if waited := time.Since(began); waited > slowLock {
		f.log.Warn("waited long for the ledger's write lock", "waited", waited, "got_it", err == nil)
	}
	return err
}

// fairConn is one connection. database/sql lets one goroutine at a time use it.
type fairConn struct {
	conn
	*fairConnector
	inTx bool
	next time.Time // not before: the courtesy to other processes

	dataVersion driver.Stmt
	version     int64     // as last seen; another connection's commit changes it
	othersAt    time.Time // when it had changed
	restedAt    time.Time
}

// Close gives the statement back first: SQLite keeps a connection open for it.
func (c *fairConn) Close() error { return errors.Join(c.dataVersion.Close(), c.conn.Close()) }

// BeginTx waits for its turn.
func (c *fairConn) BeginTx(ctx context.Context, o driver.TxOptions) (tx driver.Tx, err error) {
	if err := c.pause(ctx); err != nil {
		return nil, err
	}
	err = c.patiently(ctx, func() error { tx, err = c.conn.BeginTx(ctx, o); return err })
	if err != nil {
		return nil, err
	}
	c.inTx = true
	c.lookForOthers(ctx)
	return &fairTx{Tx: tx, conn: c}, nil
}

// lookForOthers remembers when another connection had committed since the last look.
func (c *fairConn) lookForOthers(ctx context.Context) {
	rows, err := c.dataVersion.(driver.StmtQueryContext).QueryContext(ctx, nil) //nolint:forcetypeassert,errcheck // same
	if err != nil {
		return // nothing hangs on it but a pause
	}
	defer rows.Close()
	value := make([]driver.Value, 1)
	if rows.Next(value) != nil {
		return
	}
	if v, _ := value[0].(int64); v != c.version {
		c.version, c.othersAt = v, time.Now()
	}
}

// over begins the courtesy after the lock was given back, if it is due.
func (c *fairConn) over() {
	now := time.Now()
	if now.Sub(c.othersAt) < company || now.Sub(c.restedAt) > restEach {
		c.next = now.Add(c.rest)
		c.restedAt = c.next
	}
}

// ExecContext waits for its turn unless it is within a transaction, which has it.
func (c *fairConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Result, err error) {
	if c.inTx {
		return c.conn.ExecContext(ctx, query, args)
	}
	if err := c.pause(ctx); err != nil {
		return nil, err
	}
	err = c.patiently(ctx, func() error { r, err = c.conn.ExecContext(ctx, query, args); return err })
	c.over()
	return r, err
}

// QueryContext waits likewise: a query may write (RETURNING), or meet a log being recovered.
func (c *fairConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (r driver.Rows, err error) {
	err = c.patiently(ctx, func() error { r, err = c.conn.QueryContext(ctx, query, args); return err })
	return r, err
}

// pause waits until the courtesy of the commit before is over.
func (c *fairConn) pause(ctx context.Context) error { return sleep(ctx, time.Until(c.next)) }

// fairTx tells its connection when the lock is given back.
type fairTx struct {
	driver.Tx
	conn *fairConn
}

// Commit gives the lock back.
func (t *fairTx) Commit() error { defer t.over(); return t.Tx.Commit() }

// Rollback gives the lock back.
func (t *fairTx) Rollback() error { defer t.over(); return t.Tx.Rollback() }

func (t *fairTx) over() {
	t.conn.inTx = false
	t.conn.over()
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
