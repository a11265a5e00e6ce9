package reads_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

func gauges(t *testing.T, w *world) {
	got, err := w.Gauges(bg)
	require.NoError(t, err)
	require.Equal(t, ledger.Gauges{At: now}, got, "nothing is there yet")

	a, at := w.account(t, ada), func(seconds int) time.Time { return now.Add(time.Duration(seconds) * time.Second) }
	call := func(job string, n int, status, token string) row {
		return row{"job_id": job, "n": n, "provider": "p", "status": status, "token": token, "claimed_at": now, "sent_at": now}
	}
	for i, id := range []string{"j1", "j2", "j3", "j4", "j5", "j6"} {
		w.insert(t, "jobs", jobRow(a, id).with(row{"created_at": at(i - 100)}))
	}
	w.insert(t, "ended_jobs", endedRow("j1", "completed")) // older than every open job
	w.insert(t, "open_jobs",
		openRow(a, "j2").with(row{"check_at": at(-7)}),
		openRow(a, "j3").with(row{"check_at": at(60)}))
	w.insert(t, "open_jobs",
		runningRow(a, "j4", "w1", "t4"),
		runningRow(a, "j5", "w1", "t5").with(row{"check_at": at(-50)}), // no relay looks at it
		runningRow(a, "j6", "w2", "t6").with(row{"n": 2}))
	w.insert(t, "vendor_calls",
		call("j1", 1, "accepted", "t1"),   // of a job that has ended
		call("j2", 1, "claimed", "t2"),    // nobody knows
		call("j3", 1, "accepted", "t3"),   // the vendor works
		call("j4", 1, "claimed", "t4"),    // being sent now
		call("j5", 1, "claimed", "other"), // an earlier attempt sent it: nobody knows
		call("j6", 1, "claimed", "t1"))    // not the job's call any more
	w.insert(t, "workers",
		row{"id": "w1", "renewed_at": now, "alive_until": at(1)},
		row{"id": "w2", "renewed_at": now, "alive_until": now},
		row{"id": "w3", "renewed_at": now, "alive_until": at(-1)})
	for _, id := range []string{"s1", "s2"} {
		require.NoError(t, w.SaveSweep(bg, ledger.SweepReport{ID: id, StartedAt: at(-3), EndedAt: at(-2), Seen: 9, Refunded: 2, Remaining: 6, Errors: 1, Decisions: []byte("[]")}))
	}
	got, err = w.Gauges(bg)
	require.NoError(t, err)
	require.Equal(t, ledger.Gauges{At: now, Queued: 2, Running: 3, Held: 25, AtVendor: 4, VendorUnknown: 2,
		OldestOpen: at(-99), OldestDue: at(-7), WorkersAlive: 1, WorkersDead: 2,
		LastSweep: ledger.SweepReport{ID: "s2", StartedAt: at(-3), EndedAt: at(-2), Seen: 9, Refunded: 2, Remaining: 6, Errors: 1}}, got)
}

// gaugesPlan: with a hundred times as many calls, jobs and sweeps in the history as open jobs,
// none of them is scanned, and no join reads them all.
func gaugesPlan(t *testing.T, w *world) {
	for _, insert := range []string{
		`INSERT INTO jobs (job_id, account_id, tenant, fingerprint, type, cost, units, input, metadata, max_attempts, created_at)
			SELECT 'j' || i, 'a', 't', BYTES, 'image', 1, 1, '{}', '{}', 1, NOW FROM n`,
		`INSERT INTO vendor_calls (job_id, n, provider, status, token, claimed_at, sent_at) SELECT 'j' || i, 1, 'p', 'succeeded', 't', NOW, NOW FROM n`,
		`INSERT INTO open_jobs (job_id, account_id, held, state, epoch, queued_at, check_at) SELECT 'j' || i, 'a', 1, 'queued', 1, NOW, NOW FROM n WHERE i % 100 = 0`,
		`INSERT INTO sweeps (id, started_at, ended_at, seen, refunded, remaining, errors, decisions) SELECT 's' || i, NOW, NOW, 0, 0, 0, 0, '[]' FROM n`,
	} {
		insert = strings.NewReplacer("NOW", w.moment(), "BYTES", w.bytes()).Replace(insert)
		_, err := w.sql.ExecContext(bg, "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "+insert)
		require.NoError(t, err)
	}
	_, err := w.sql.ExecContext(bg, "ANALYZE")
	require.NoError(t, err)
	got, err := w.Gauges(bg)
	require.NoError(t, err)
	require.Equal(t, 200, got.Queued)
	for name, query := range reads.GaugesQueries {
		plan := w.plan(t, strings.ReplaceAll(query, "$1", w.moment()))
		require.NotRegexp(t, `Seq Scan on (vendor_calls|jobs|sweeps)|Merge|Hash (Left |Right |Full )?Join`, plan, name)
		require.NotRegexp(t, `(?m)^SCAN (v|j|vendor_calls|jobs)\b`, plan, name)
		if name == "sweep" {
			require.NotRegexp(t, `USE TEMP B-TREE`, plan, "the newest is found, not sorted for")
		}
	}
	jobs := w.plan(t, reads.GaugesQueries["jobs"])
	require.Contains(t, jobs, map[reads.Dialect]string{
		reads.Postgres: "Index Cond: ((job_id = o.job_id) AND (n = o.n))", reads.SQLite: "SEARCH v USING INDEX"}[w.dialect])
}
