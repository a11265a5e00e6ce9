package reads_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger/internal/reads"
)

// Enough rows that a planner which looks at them prefers an index where there is one.
var filling = []string{
	`INSERT INTO accounts (id, tenant, name, created_at) SELECT 'a' || i, 't' || i % 10, 'n' || i, NOW FROM n`,
	`INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, job_id, reason, actor, created_at)
		SELECT 'e' || i, 'a' || i, 1, 'grant', 10, 10, 'g' || i, 'plan', 'client', NOW FROM n`,
	`INSERT INTO grants (id, account_id, tenant, fingerprint, amount, source, reason, actor, created_at)
		SELECT 'g' || i, 'a' || i, 't' || i % 10, BYTES, 10, 'plan', '', '', NOW FROM n`,
	`INSERT INTO jobs (job_id, account_id, tenant, fingerprint, type, cost, units, input, metadata, max_attempts, created_at)
		SELECT 'j' || i, 'a' || i, 't' || i % 10, BYTES, 'image', 1, 1, '{}', '{}', 1, NOW FROM n`,
	`INSERT INTO open_jobs (job_id, account_id, held, state, epoch, queued_at, check_at) SELECT 'j' || i, 'a' || i, 1, 'queued', 1, NOW, NOW FROM n`,
	`INSERT INTO ended_jobs (job_id, state, end_reason, held, charged, attempts, starts, epoch, ended_at)
		SELECT 'j' || i, 'completed', 'delivered', 1, 1, 1, 1, 1, NOW FROM n`,
	`INSERT INTO workers (id, renewed_at, alive_until) SELECT 'w' || i, NOW, NOW FROM n`,
}

// plans: what is asked all the time costs index probes, however many rows there are.
func plans(t *testing.T, w *world) {
	for _, insert := range filling {
		insert = strings.NewReplacer("NOW", w.moment(), "BYTES", w.bytes()).Replace(insert)
		_, err := w.sql.ExecContext(bg, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "+insert)
		require.NoError(t, err)
	}
	_, err := w.sql.ExecContext(bg, "ANALYZE")
	require.NoError(t, err)

	account, job, entry := "SELECT "+reads.AccountColumns+reads.AccountFrom, "SELECT "+reads.JobColumns+reads.JobFrom,
		"SELECT "+reads.EntryColumns+reads.EntryFrom
	for query, index := range map[string]string{
		account + " WHERE a.tenant = 't1' AND a.name = 'n1'":                                                                      "credit_transactions_chain",
		job + " WHERE j.job_id = 'j1' AND j.tenant = 't1'":                                                                        "jobs",
		job + " WHERE o.state = 'queued' AND o.check_at <= NOW ORDER BY o.check_at LIMIT 10":                                      "open_jobs_due",
		job + " WHERE o.job_id > 'j1' ORDER BY o.job_id LIMIT 10":                                                                 "open_jobs",
		job + " WHERE j.tenant = 't1' AND j.account_id = 'a1' ORDER BY j.job_id DESC LIMIT 10":                                    "jobs_account",
		job + " WHERE j.tenant = 't1' AND o.state = 'running' ORDER BY o.job_id DESC LIMIT 10":                                    "open_jobs",
		entry + " WHERE t.account_id = 'a1' AND (t.created_at, t.id) < (NOW, 'z') ORDER BY t.created_at DESC, t.id DESC LIMIT 10": "credit_transactions_history",
		entry + " WHERE t.job_id = 'j1' OR t.about_job = 'j1' ORDER BY t.created_at, t.id":                                        "credit_transactions_about",
	} {
		plan := w.plan(t, strings.ReplaceAll(query, "NOW", w.moment()))
		require.Contains(t, plan, index, query)
		for _, table := range []string{"credit_transactions t", "jobs j", "accounts a", "grants g"} {
			require.NotContains(t, plan, "Seq Scan on "+table, query)
		}
		require.NotContains(t, plan, "Filter: (seq", query) // would read all of an account that is longer than most
		require.NotRegexp(t, `(?m)^SCAN \w+$`, plan, query)
	}
}

func (w *world) moment() string {
	if w.dialect == reads.SQLite {
		return "1796126400000000"
	}
	return "timestamptz '2026-12-01'"
}

func (w *world) bytes() string {
	if w.dialect == reads.SQLite {
		return "x'00'"
	}
	return "'x'::bytea"
}

func (w *world) plan(t *testing.T, query string) string {
	t.Helper()
	explain := "EXPLAIN "
	if w.dialect == reads.SQLite {
		explain = "EXPLAIN QUERY PLAN "
	}
	rows, err := w.sql.QueryContext(bg, explain+query)
	require.NoError(t, err)
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		var n int
		dest := []any{&n, &n, &n, &line}
		if w.dialect == reads.Postgres {
			dest = dest[3:]
		}
		require.NoError(t, rows.Scan(dest...))
		lines = append(lines, line)
	}
	require.NoError(t, rows.Err())
	t.Logf("%s\n%s", query, strings.Join(lines, "\n"))
	return strings.Join(lines, "\n")
}
