package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// entrySQL inserts one entry: id, seq, kind, delta, balance_after, floor, job_id.
func entrySQL(verb, values string) string {
	return verb + ` INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, floor, job_id, reason, actor,
		created_at) SELECT column1, 'A', column2, column3, column4, column5, column6, column7, 'r', 'a', 1 FROM (VALUES (` + values + `))`
}

// TestSchemaRefuses: the database keeps I1 to I4 by itself. Each statement runs on an account
// with a grant of 100 (seq 1), and a job of 30 that was completed (seq 2).
func TestSchemaRefuses(t *testing.T) {
	for name, test := range map[string]struct{ sql, says string }{
		"UPDATE":               {`UPDATE credit_transactions SET reason = 'x' WHERE id = 'e1'`, "UPDATE refused"},
		"UPDATE of everything": {`UPDATE credit_transactions SET delta = 1`, "UPDATE refused"},
		"UPDATE OR REPLACE":    {`UPDATE OR REPLACE credit_transactions SET id = 'e1' WHERE id = 'e2'`, "UPDATE refused"},
		"DELETE":               {`DELETE FROM credit_transactions WHERE id = 'e1'`, "DELETE refused"},
		"DELETE of everything": {`DELETE FROM credit_transactions`, "DELETE refused"},

		"INSERT OR REPLACE, same id":        {entrySQL("INSERT OR REPLACE", `'e1', 3, 'grant', 900, 970, NULL, 'g9'`), replaceRefused},
		"INSERT OR REPLACE, same job, kind": {entrySQL("INSERT OR REPLACE", `'e9', 3, 'grant', 900, 970, NULL, 'g1'`), replaceRefused},
		"INSERT OR REPLACE, same seq":       {entrySQL("INSERT OR REPLACE", `'e9', 1, 'grant', 900, 900, NULL, 'g9'`), replaceRefused},
		"INSERT OR REPLACE, same outcome":   {entrySQL("INSERT OR REPLACE", `'e9', NULL, 'task_failed', 0, NULL, NULL, 'j1'`), replaceRefused},
		"REPLACE INTO":                      {entrySQL("REPLACE", `'e1', 1, 'grant', 900, 900, NULL, 'g1'`), replaceRefused},
		"ON CONFLICT DO UPDATE": {entrySQL("INSERT", `'e1', 3, 'grant', 900, 970, NULL, 'g9'`) +
			` WHERE true ON CONFLICT (id) DO UPDATE SET delta = 900`, replaceRefused},

		"a step twice":      {entrySQL("INSERT", `'e9', 3, 'deduct', -1, 69, 0, 'j1'`), "UNIQUE"},
		"a second outcome":  {entrySQL("INSERT", `'e9', 3, 'reconciler_refund', 30, 100, NULL, 'j1'`), "UNIQUE"},
		"a place twice":     {entrySQL("INSERT", `'e9', 2, 'grant', 1, 101, NULL, 'g9'`), "UNIQUE"},
		"a gap":             {entrySQL("INSERT", `'e9', 4, 'grant', 1, 71, NULL, 'g9'`), "does not continue its chain"},
		"a break":           {entrySQL("INSERT", `'e9', 3, 'grant', 1, 72, NULL, 'g9'`), "does not continue its chain"},
		"a wrong beginning": {`INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, job_id, reason, actor, created_at) VALUES ('e9', 'B', 1, 'grant', 5, 6, 'g9', 'r', 'a', 1)`, "does not continue its chain"},

		"below the floor":          {entrySQL("INSERT", `'e9', 3, 'deduct', -71, -1, 0, 'j9'`), "credit_transactions_floor"},
		"a deduct without a floor": {entrySQL("INSERT", `'e9', 3, 'deduct', -1, 69, NULL, 'j9'`), "credit_transactions_floor"},
		"a grant that takes":       {entrySQL("INSERT", `'e9', 3, 'grant', -1, 69, NULL, 'g9'`), "credit_transactions_sign"},
		"a deduct that gives":      {entrySQL("INSERT", `'e9', 3, 'deduct', 1, 71, 0, 'j9'`), "credit_transactions_sign"},
		"a refund of nothing":      {entrySQL("INSERT", `'e9', NULL, 'refund', 0, NULL, NULL, 'j9'`), "credit_transactions_sign"},
		"an unknown kind":          {entrySQL("INSERT", `'e9', 3, 'gift', 1, 71, NULL, 'g9'`), "credit_transactions_sign"},
		"a marker with a place":    {entrySQL("INSERT", `'e9', 3, 'task_started', 0, 70, NULL, 'j9'`), "credit_transactions_movement"},
		"a movement without one":   {entrySQL("INSERT", `'e9', NULL, 'grant', 1, NULL, NULL, 'g9'`), "credit_transactions_movement"},
		"beyond the bounds":        {entrySQL("INSERT", `'e9', 3, 'grant', 9007199254740991, 9007199254741061, NULL, 'g9'`), "CHECK"},
		"a delta beyond them":      {entrySQL("INSERT", `'e9', 3, 'grant', 9007199254740992, 9007199254741062, NULL, 'g9'`), "CHECK"},
		"an amount with decimals":  {entrySQL("INSERT", `'e9', 3, 'grant', 1.5, 71.5, NULL, 'g9'`), "cannot store REAL"},

		"a closed word":        {`INSERT INTO accounts (id, tenant, name, status, created_at) VALUES ('B', 't', 'b', 'gone', 1)`, "CHECK"},
		"an account twice":     {`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('B', 't', 'a', 1)`, "UNIQUE"},
		"grant of nobody":      {`INSERT INTO grants (id, account_id, tenant, fingerprint, amount, source, reason, actor, created_at) VALUES ('g', 'Z', 't', x'00', 1, 's', 'r', 'a', 1)`, "FOREIGN KEY"},
		"running without whom": {`INSERT INTO open_jobs (job_id, account_id, held, state, epoch, queued_at, check_at) VALUES ('j', 'A', 1, 'running', 1, 1, 1)`, "CHECK"},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t).write
			for _, sql := range []string{
				`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('A', 't', 'a', 1)`,
				entrySQL("INSERT", `'e1', 1, 'grant', 100, 100, NULL, 'g1'`),
				entrySQL("INSERT", `'e2', 2, 'deduct', -30, 70, 0, 'j1'`),
				entrySQL("INSERT", `'e3', NULL, 'task_completed', 0, NULL, NULL, 'j1'`),
			} {
				_, err := db.Exec(sql)
				require.NoError(t, err)
			}
			_, err := db.Exec(test.sql)
			require.ErrorContains(t, err, test.says)

			var entries, sum int64
			require.NoError(t, db.QueryRow(`SELECT count(*), sum(delta) FROM credit_transactions`).Scan(&entries, &sum))
			require.Equal(t, []int64{3, 70}, []int64{entries, sum})
		})
	}
}

// TestFateOfConstraints: who was slower tries again; what is wrong stays wrong.
func TestFateOfConstraints(t *testing.T) {
	db := open(t).write
	first := entrySQL("INSERT", `'e1', 1, 'grant', 100, 100, NULL, 'g1'`)
	_, err := db.Exec(first)
	require.NoError(t, err)
	_, err = db.Exec(`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('A', 't', 'a', 1)`)
	require.NoError(t, err)
	for sql, fate := range map[string]ledger.Fate{
		first: ledger.FateContended,
		`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('B', 't', 'a', 1)`: ledger.FateContended,
		`INSERT INTO accounts (id, tenant, name, created_at) VALUES ('A', 't', 'b', 1)`: ledger.FateContended,
		entrySQL("INSERT", `'e9', 3, 'grant', 1, 101, NULL, 'g9'`):                      ledger.FateRejected,
		entrySQL("INSERT", `'e9', 2, 'grant', -1, 99, NULL, 'g9'`):                      ledger.FateRejected,
		`DELETE FROM credit_transactions`:                                               ledger.FateRejected,
		`SELECT nothing FROM nowhere`:                                                   ledger.FateRejected,
	} {
		_, err := db.Exec(sql)
		var failed *ledger.StoreError
		require.ErrorAs(t, failedBefore(err), &failed, sql)
		require.Equal(t, fate, failed.Fate, sql)
	}
}
