package migrations_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// entry inserts one: id, account, seq, kind, delta, balance_after, floor, job_id.
func entry(values string) string {
	return `INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, floor, job_id, reason, actor, created_at)
		SELECT id, account, seq::bigint, kind, delta, after::bigint, floor::bigint, job, 'r', 'a', now()
		FROM (VALUES ` + values + `) v (id, account, seq, kind, delta, after, floor, job)`
}

// refusals are tried on an account A with a grant of 100 (seq 1) and a job j1 of 30 (seq 2)
// that was completed.
var refusals = map[string]struct{ sql, code, says string }{
	"UPDATE":                  {"UPDATE credit_transactions SET reason = 'x' WHERE id = 'e1'", "23001", "UPDATE refused"},
	"UPDATE that finds none":  {"UPDATE credit_transactions SET reason = 'x' WHERE id = 'none'", "23001", "UPDATE refused"},
	"DELETE":                  {"DELETE FROM credit_transactions WHERE id = 'e1'", "23001", "DELETE refused"},
	"DELETE that finds none":  {"DELETE FROM credit_transactions WHERE false", "23001", "DELETE refused"},
	"TRUNCATE":                {"TRUNCATE credit_transactions", "23001", "TRUNCATE refused"},
	"TRUNCATE with others":    {"TRUNCATE accounts, grants, adjustments, credit_transactions", "23001", "TRUNCATE refused"},
	"as a replica":            {"SET LOCAL session_replication_role = replica; DELETE FROM credit_transactions", "23001", "DELETE refused"},
	"ON CONFLICT DO UPDATE":   {entry("('e1', 'A', 3, 'grant', 900, 970, NULL, 'g9')") + " ON CONFLICT (id) DO UPDATE SET delta = 900", "23001", "UPDATE refused"},
	"... that finds none":     {entry("('e9', 'A', 3, 'grant', 1, 71, NULL, 'g9')") + " ON CONFLICT (id) DO UPDATE SET delta = 900", "23001", "UPDATE refused"},
	"the same id":             {entry("('e1', 'A', 3, 'grant', 1, 71, NULL, 'g9')"), "23505", "credit_transactions_pkey"},
	"a step twice":            {entry("('e9', 'A', 3, 'deduct', -1, 69, 0, 'j1')"), "23505", "credit_transactions_job_kind"},
	"... of another account":  {entry("('e9', 'B', NULL, 'deduct', 0, NULL, NULL, 'j1')"), "23505", "credit_transactions_job_kind"},
	"failed after completed":  {entry("('e9', 'A', NULL, 'task_failed', 0, NULL, NULL, 'j1')"), "23505", "credit_transactions_outcome"},
	"refunded after it":       {entry("('e9', 'A', 3, 'reconciler_refund', 30, 100, NULL, 'j1')"), "23505", "credit_transactions_outcome"},
	"a place twice":           {entry("('e9', 'A', 2, 'grant', 1, 101, NULL, 'g9')"), "23505", "credit_transactions_chain"},
	"a gap":                   {entry("('e9', 'A', 4, 'grant', 1, 71, NULL, 'g9')"), "23514", "does not continue its chain"},
	"a gap in a batch":        {entry("('e8', 'A', 3, 'grant', 1, 71, NULL, 'g8'), ('e9', 'A', 5, 'grant', 1, 72, NULL, 'g9')"), "23514", "entry 5"},
	"a wrong balance":         {entry("('e9', 'A', 3, 'grant', 1, 72, NULL, 'g9')"), "23514", "does not continue its chain"},
	"... as a replica":        {"SET LOCAL session_replication_role = replica; " + entry("('e9', 'A', 3, 'grant', 1, 72, NULL, 'g9')"), "23514", "chain"},
	"... late in a batch":     {entry("('e8', 'A', 3, 'grant', 1, 71, NULL, 'g8'), ('e9', 'A', 4, 'grant', 1, 71, NULL, 'g9')"), "23514", "entry 4"},
	"a wrong beginning":       {entry("('e9', 'B', 1, 'grant', 5, 6, NULL, 'g9')"), "23514", "does not continue its chain"},
	"a late beginning":        {entry("('e9', 'B', 2, 'grant', 5, 5, NULL, 'g9')"), "23514", "does not continue its chain"},
	"place zero":              {entry("('e9', 'B', 0, 'grant', 5, 5, NULL, 'g9')"), "23514", "seq"},
	"below the floor":         {entry("('e9', 'A', 3, 'deduct', -71, -1, 0, 'j9')"), "23514", "credit_transactions_floor"},
	"below an overdraft":      {entry("('e9', 'A', 3, 'deduct', -81, -11, -10, 'j9')"), "23514", "credit_transactions_floor"},
	"a deduct without floor":  {entry("('e9', 'A', 3, 'deduct', -1, 69, NULL, 'j9')"), "23514", "credit_transactions_floor"},
	"a grant that takes":      {entry("('e9', 'A', 3, 'grant', -1, 69, NULL, 'g9')"), "23514", "credit_transactions_sign"},
	"a deduct that gives":     {entry("('e9', 'A', 3, 'deduct', 1, 71, 0, 'j9')"), "23514", "credit_transactions_sign"},
	"a refund that takes":     {entry("('e9', 'A', 3, 'refund', -1, 69, NULL, 'j1')"), "23514", "credit_transactions_sign"},
	"a marker that moves":     {entry("('e9', 'A', 3, 'task_started', 1, 71, NULL, 'j9')"), "23514", "credit_transactions_sign"},
	"an adjustment of none":   {entry("('e9', 'A', NULL, 'adjust', 0, NULL, NULL, 'a9')"), "23514", "credit_transactions_sign"},
	"an unknown kind":         {entry("('e9', 'A', 3, 'gift', 1, 71, NULL, 'g9')"), "23514", "credit_transactions_sign"},
	"a marker with a place":   {entry("('e9', 'A', 3, 'task_started', 0, 70, NULL, 'j9')"), "23514", "credit_transactions_movement"},
	"a movement without one":  {entry("('e9', 'A', NULL, 'grant', 1, NULL, NULL, 'g9')"), "23514", "credit_transactions_movement"},
	"a balance out of bounds": {entry("('e9', 'A', 3, 'grant', 9007199254740991, 9007199254741061, NULL, 'g9')"), "23514", "balance_after"},
	"an amount out of bounds": {entry("('e9', 'A', 3, 'adjust', -9007199254740992, -9007199254740922, NULL, 'a9')"), "23514", "delta"},
	"an overdraft below zero": {"UPDATE accounts SET overdraft = -1", "23514", "overdraft"},
	"an account twice":        {"INSERT INTO accounts (id, tenant, name, created_at) VALUES ('Z', 't', 'a', now())", "23505", "tenant"},
}

// The owner of the tables is refused as everybody is: it is the schema that keeps I1 to I4.
func TestTheOwnerIsRefused(t *testing.T) {
	t.Parallel()
	owner, _, _ := granted(t)
	_, err := owner.Exec(`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('A', 't', 'a', now()), ('B', 't', 'b', now())`)
	require.NoError(t, err)
	_, err = owner.Exec(entry(`('e1', 'A', 1, 'grant', 100, 100, NULL, 'g1'), ('e2', 'A', 2, 'deduct', -30, 70, 0, 'j1'),
		('e3', 'A', NULL, 'task_completed', 0, NULL, NULL, 'j1')`))
	require.NoError(t, err)
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			pg, ok := errors.AsType[*pgconn.PgError](tryAndRollBack(t, owner, test.sql))
			require.True(t, ok, "not refused")
			require.Equal(t, test.code, pg.Code, pg.Message)
			require.Contains(t, pg.Message, test.says)
		})
	}
	// What differs from a refusal in one thing only is taken.
	for name, statement := range map[string]string{
		"the next place":     entry("('e9', 'A', 3, 'grant', 1, 71, NULL, 'g9')"),
		"a batch":            entry("('e8', 'A', 4, 'grant', 1, 72, NULL, 'g8'), ('e9', 'A', 3, 'grant', 1, 71, NULL, 'g9')"),
		"a new account":      entry("('e9', 'B', 1, 'grant', 5, 5, NULL, 'g9')"),
		"down to the floor":  entry("('e9', 'A', 3, 'deduct', -70, 0, 0, 'j9')"),
		"into the overdraft": entry("('e9', 'A', 3, 'deduct', -80, -10, -10, 'j9')"),
		"a free job":         entry("('e9', 'A', NULL, 'deduct', 0, NULL, NULL, 'j9')"),
		"a settlement":       entry("('e9', 'A', 3, 'settle', 10, 80, NULL, 'j1')"),
	} {
		require.NoError(t, tryAndRollBack(t, owner, statement), name)
	}
}

func tryAndRollBack(t *testing.T, db *sql.DB, statement string) error {
	t.Helper()
	tx, err := db.Begin()
	require.NoError(t, err)
	_, err = tx.Exec(statement)
	require.NoError(t, tx.Rollback())
	return err
}
