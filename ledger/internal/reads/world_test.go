package reads_test

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
	"github.com/makegood/makegood/migrations"
)

func TestMain(m *testing.M) { testenv.Main(m) }

var (
	bg  = context.Background()
	now = time.Date(2026, 12, 1, 12, 0, 0, 123456000, time.UTC)
	ada = ledger.AccountName{Tenant: "north", Name: "ada"}
)

// world is one database, seen through reads and through plain SQL.
type world struct {
	*reads.DB
	sql     *sql.DB
	dialect reads.Dialect
	clock   time.Time
}

func newPostgres(t *testing.T) *world {
	db, err := sql.Open("pgx", testenv.Postgres(t))
	require.NoError(t, err)
	return newWorld(t, db, reads.Postgres, migrations.Postgres)
}

func newSQLite(t *testing.T) *world {
	file := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=busy_timeout(5000)")
	require.NoError(t, err)
	return newWorld(t, db, reads.SQLite, migrations.SQLite)
}

func newWorld(t *testing.T, db *sql.DB, d reads.Dialect, schema migrations.Dialect) *world {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err := migrations.Up(bg, db, schema)
	require.NoError(t, err)
	w := &world{sql: db, dialect: d, clock: now}
	w.DB = reads.New(db, db, d, func() time.Time { return w.clock })
	return w
}

// row is one row to insert, column by column.
type row map[string]any

func (w *world) insert(t *testing.T, table string, rows ...row) {
	t.Helper()
	tx, err := w.sql.BeginTx(bg, nil)
	require.NoError(t, err)
	defer tx.Rollback() //nolint:errcheck // after a commit there is nothing to roll back
	for _, r := range rows {
		var names, places []string
		var args []any
		for name, v := range r {
			if at, ok := v.(time.Time); ok {
				v = w.dialect.Time(at)
			}
			args = append(args, v)
			names, places = append(names, name), append(places, fmt.Sprintf("$%d", len(args)))
		}
		_, err := tx.ExecContext(bg, w.dialect.SQL(fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)",
			table, strings.Join(names, ", "), strings.Join(places, ", "))), args...)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit())
}

// with copies a row, changed.
func (r row) with(other row) row {
	c := row{}
	maps.Copy(c, r)
	maps.Copy(c, other)
	return c
}

func (w *world) account(t *testing.T, name ledger.AccountName) (id string) {
	t.Helper()
	id = name.Tenant + "-" + name.Name
	w.insert(t, "accounts", row{"id": id, "tenant": name.Tenant, "name": name.Name, "created_at": now.Add(-24 * time.Hour)})
	return id
}

func grantRow(account, id string, amount int64, at time.Time) row {
	tenant, _, _ := strings.Cut(account, "-")
	return row{"id": id, "account_id": account, "tenant": tenant, "fingerprint": []byte("f"), "amount": amount, "source": "plan",
		"reason": "words of " + id, "actor": "person of " + id, "created_at": at}
}

// movement is a place in an account's chain.
func movement(account string, seq, delta, balance int64, kind, job string, at time.Time) row {
	r := row{"id": fmt.Sprintf("%s-%05d", account, seq), "account_id": account, "seq": seq, "kind": kind, "delta": delta,
		"balance_after": balance, "job_id": job, "reason": "code", "actor": "client", "created_at": at}
	if kind == "deduct" {
		r["floor"] = 0
	}
	return r
}

func jobRow(account, id string) row {
	tenant, _, _ := strings.Cut(account, "-")
	return row{"job_id": id, "account_id": account, "tenant": tenant, "fingerprint": []byte("f"), "type": "image", "cost": 5, "units": 2,
		"input": `{"a": 1}`, "metadata": `{}`, "max_attempts": 3, "created_at": now}
}

func openRow(account, id string) row {
	return row{"job_id": id, "account_id": account, "held": 5, "state": "queued", "epoch": 1, "queued_at": now, "check_at": now}
}

func runningRow(account, id, worker, token string) row {
	return openRow(account, id).with(row{"state": "running", "worker": worker, "token": token, "attempts": 1, "starts": 1,
		"first_started_at": now, "started_at": now, "deadline": now.Add(time.Minute)})
}

func endedRow(id, state string) row {
	return row{"job_id": id, "state": state, "end_reason": "delivered", "held": 5, "charged": 4, "attempts": 1, "starts": 2, "epoch": 1,
		"ended_at": now}
}

func ids(jobs []ledger.Job) []string {
	list := []string{}
	for _, j := range jobs {
		list = append(list, j.ID)
	}
	return list
}

// flag is b as the schema keeps it: SQLite has no booleans.
func (w *world) flag(b bool) any {
	if w.dialect == reads.Postgres {
		return b
	}
	if b {
		return 1
	}
	return 0
}
