// Package reads answers the ledger's questions and keeps its leases, over database/sql: one
// SQL text for PostgreSQL and SQLite, so that the two cannot come to differ.
package reads

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Dialect is the database spoken to.
type Dialect int

// The databases.
const (
	Postgres Dialect = iota
	SQLite
)

// DB implements ledger.Reader and ledger.Bookkeeping.
type DB struct {
	read, write *sql.DB
	dialect     Dialect
	clock       func() time.Time // nil: PostgreSQL's own
}

// New answers over one handle, and writes over another where a database has a single writer.
// clock is what decisions are timed by; nil means the database's on PostgreSQL and this
// process's on SQLite.
func New(read, write *sql.DB, d Dialect, clock func() time.Time) *DB {
	if clock == nil && d == SQLite {
		clock = time.Now
	}
	return &DB{read, write, d, clock}
}

var (
	_ ledger.Reader      = (*DB)(nil)
	_ ledger.Bookkeeping = (*DB)(nil)
)

// SQL turns $1 into what the database understands.
func (d Dialect) SQL(query string) string {
	if d == SQLite {
		return strings.ReplaceAll(query, "$", "?")
	}
	return query
}

// Time is t as the database keeps it: timestamptz, or microseconds; NULL when zero.
func (d Dialect) Time(t time.Time) any {
	switch {
	case t.IsZero():
		return nil
	case d == SQLite:
		return t.UnixMicro()
	}
	return t
}

// Text is s, or NULL when empty.
func Text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Moment scans a time that either database keeps; NULL is the zero time.
type Moment struct{ T *time.Time }

// Scan implements sql.Scanner.
func (m Moment) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m.T = time.Time{}
	case int64:
		*m.T = time.UnixMicro(v).UTC()
	case time.Time:
		*m.T = v.UTC()
	default:
		return fmt.Errorf("%T is not a time", v)
	}
	return nil
}

// Maybe scans text that may be NULL into a string.
type Maybe struct{ S *string }

// Scan implements sql.Scanner.
func (m Maybe) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*m.S = ""
	case string:
		*m.S = v
	case []byte:
		*m.S = string(v)
	default:
		return fmt.Errorf("%T is not text", v)
	}
	return nil
}

// Now is the clock that decisions are taken by.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	if db.clock != nil {
		return db.clock().UTC().Truncate(time.Microsecond), nil
	}
	return one(ctx, db, "read the clock", "SELECT clock_timestamp()", nil, func(r Row) (now time.Time, err error) {
		err = r.Scan(Moment{&now})
		return now, err
	}, sql.ErrNoRows)
}

// InstallationID names this database.
func (db *DB) InstallationID(ctx context.Context) (string, error) {
	return one(ctx, db, "read the installation", "SELECT CAST(id AS text) FROM installation", nil, scalar[string],
		errors.New("the installation table is empty: restore it from a backup"))
}

// rows runs a query and hands each row to scan.
func (db *DB) rows(ctx context.Context, what, query string, args []any, scan func(Row) error) error {
	rows, err := db.read.QueryContext(ctx, db.dialect.SQL(query), args...)
	if unwritable(err) {
		return nil
	}
	if err != nil {
		return failed(ctx, what, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unreadable(ctx, what, err)
		}
	}
	if unwritable(rows.Err()) {
		return nil
	}
	return failed(ctx, what, rows.Err())
}

// list reads all rows of a query; none is an empty list, so that JSON says [] and not null.
func list[T any](ctx context.Context, db *DB, what, query string, args []any, scan func(Row) (T, error)) ([]T, error) {
	all := []T{}
	err := db.rows(ctx, what, query, args, func(r Row) error {
		one, err := scan(r)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// one reads the only row of a query; absent is the error when there is none.
func one[T any](ctx context.Context, db *DB, what, query string, args []any, scan func(Row) (T, error), absent error) (row T, err error) {
	all, err := list(ctx, db, what, query, args, scan)
	switch {
	case err != nil:
		return row, err
	case len(all) == 0:
		return row, absent
	}
	return all[0], nil
}

// value makes a scanner of values out of one of pointers.
func value[T any](scan func(Row) (*T, error)) func(Row) (T, error) {
	return func(r Row) (v T, err error) {
		p, err := scan(r)
		if err == nil {
			v = *p
		}
		return v, err
	}
}

// scalar scans one column.
func scalar[T any](r Row) (v T, err error) {
	err = r.Scan(&v)
	return v, err
}

// where collects conditions and their arguments.
type where struct {
	dialect Dialect
	parts   []string
	args    []any
}

// add adds a condition; each ? in it takes the next argument.
func (w *where) add(condition string, args ...any) {
	for _, a := range args {
		if t, ok := a.(time.Time); ok {
			a = w.dialect.Time(t)
		}
		w.args = append(w.args, a)
		condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(w.args)), 1)
	}
	w.parts = append(w.parts, condition)
}

// page ends the query: its conditions, an order, and the next argument as the limit.
func (w *where) page(order string, rows int) string {
	w.args = append(w.args, min(max(rows, 1), 200))
	return fmt.Sprintf("%s ORDER BY %s LIMIT $%d", w, order, len(w.args))
}

func (w *where) String() string { return " WHERE " + strings.Join(w.parts, " AND ") }
