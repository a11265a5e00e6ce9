package reconciler

import (
	"database/sql"
	"fmt"
	"strings"
)

// batchRows is how many rows of a stream are in memory at a time.
const batchRows = 1000

// stream reads the rows of an ordered query one by one, several streams side by side in one
// transaction: on PostgreSQL by cursors, since a connection there has one result at a time;
// SQLite reads any number.
type stream[T any] struct {
	v     *verifier
	key   func(T) string
	scan  func(*sql.Rows) (T, error)
	fetch string    // PostgreSQL: reads the cursor on
	rows  *sql.Rows // SQLite: open to the end
	batch []T
	last  bool // nothing follows the batch
}

func newStream[T any](v *verifier, query string, key func(T) string, scan func(*sql.Rows) (T, error)) (*stream[T], error) {
	s := &stream[T]{v: v, key: key, scan: scan}
	if v.options.Dialect == Postgres {
		v.streams++
		name := fmt.Sprintf("makegood_verify_%d", v.streams)
		if _, err := v.tx.ExecContext(v.ctx, "DECLARE "+name+" NO SCROLL CURSOR FOR "+query); err != nil {
			return nil, fmt.Errorf("read by cursor: %w", err)
		}
		s.fetch = fmt.Sprintf("FETCH FORWARD %d FROM %s", batchRows, name)
		return s, nil
	}
	rows, err := v.tx.QueryContext(v.ctx, query) // closed by fill or by the rollback
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	s.rows = rows
	return s, nil
}

// peek returns the next row; false at the end.
func (s *stream[T]) peek() (row T, ok bool, err error) {
	if len(s.batch) == 0 && !s.last {
		if err := s.fill(); err != nil {
			return row, false, err
		}
	}
	if len(s.batch) == 0 {
		return row, false, nil
	}
	return s.batch[0], true, nil
}

func (s *stream[T]) advance() { s.batch = s.batch[1:] }

// nextKey returns the key of the next row.
func (s *stream[T]) nextKey() (string, bool, error) {
	row, ok, err := s.peek()
	if !ok || err != nil {
		return "", false, err
	}
	return s.key(row), true, nil
}

// take hands over all rows with a key.
func (s *stream[T]) take(key string, use func(T)) error {
	for {
		row, ok, err := s.peek()
		if err != nil || !ok || s.key(row) != key {
			return err
		}
		use(row)
		s.advance()
	}
}

func (s *stream[T]) fill() error {
	rows := s.rows
	if s.fetch != "" {
		var err error
		if rows, err = s.v.tx.QueryContext(s.v.ctx, s.fetch); err != nil {
			return fmt.Errorf("read on: %w", err)
		}
	}
	s.batch = make([]T, 0, batchRows)
	for len(s.batch) < batchRows && rows.Next() {
		row, err := s.scan(rows)
		if err != nil {
			return fmt.Errorf("read a row: %w", err)
		}
		s.batch = append(s.batch, row)
	}
	s.last = len(s.batch) < batchRows
	if s.last || s.fetch != "" {
		_ = rows.Close()
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read rows: %w", err)
	}
	s.v.rows += int64(len(s.batch))
	if s.v.options.Progress != nil {
		s.v.options.Progress(s.v.rows)
	}
	return nil
}

// of is a WHERE clause that narrows a query to the account under check: what must hold of
// all rows, and the column that names the account.
func (v *verifier) of(column string, always ...string) string {
	if v.accountID != "" {
		always = append(always, column+" = "+quote(v.accountID))
	}
	if len(always) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(always, " AND ")
}

// quote makes a literal of an id of ours; a cursor's query takes no parameters.
func quote(id string) string { return "'" + strings.ReplaceAll(id, "'", "''") + "'" }
