package reconciler

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var bob = ledger.AccountName{Tenant: "default", Name: "bob"}

// lives is what livedIn left behind, by what became of it.
type lives struct {
	grant                                              string // bob's only and newest entry
	done, cheap, failed, refunded, free, running, open string
}

// livedIn fills a ledger with every kind of entry and end there is.
func (w *world) livedIn() lives {
	w.t.Helper()
	var l lives
	l.grant = w.grant(bob, 50).Grant.ID
	w.grant(alice, 100)
	l.done = w.open(alice, 8)
	w.complete(l.done, 8)
	l.cheap = w.open(alice, 8)
	w.complete(l.cheap, 6)
	l.free = w.open(alice, 0)
	w.complete(l.free, 0)
	l.failed = w.open(alice, 8)
	_, err := w.ledger.Fail(w.ctx, ledger.FailJob{JobID: l.failed, Token: w.start(l.failed)})
	require.NoError(w.t, err)
	l.refunded = w.orphan()
	require.Equal(w.t, 1, w.sweep().Refunded)
	_, err = w.ledger.Adjust(w.ctx, ledger.AdjustCredits{AccountName: alice, Amount: -5, Reason: "test", Actor: "op"})
	require.NoError(w.t, err)
	_, err = w.ledger.CreditJob(w.ctx, ledger.AdjustCredits{AccountName: alice, Amount: 2, AboutJob: l.done, Reason: "bad", Actor: "op"})
	require.NoError(w.t, err)
	l.running = w.open(alice, 8)
	w.start(l.running)
	l.open = w.open(alice, 8)
	return l
}

func TestVerifyLivedInLedger(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		l := w.livedIn()
		var rows int64
		r, err := Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect, Progress: func(n int64) { rows = n }})
		require.NoError(t, err)
		require.Empty(t, r.Broken)
		require.True(t, r.OK)
		require.Equal(t, Conservation{Granted: 150, Adjusted: -3, Available: 117, Held: 16, Spent: 14}, r.Conservation)
		require.EqualValues(t, 2, r.Counts.Accounts)
		require.EqualValues(t, 7, r.Counts.Jobs)
		require.EqualValues(t, w.count("SELECT count(*) FROM credit_transactions"), r.Counts.Entries)
		require.Greater(t, rows, r.Counts.Entries)

		// One account: what is broken elsewhere is not its business.
		w.damage("DELETE FROM credit_transactions WHERE job_id = '" + l.open + "'")
		r, err = Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect, Tenant: "default", Account: "bob"})
		require.NoError(t, err)
		require.Equal(t, Counts{Accounts: 1, Entries: 1}, r.Counts)
		require.Equal(t, Conservation{Granted: 50, Available: 50}, r.Conservation)
		r, err = Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect, Tenant: "default", Account: "alice"})
		require.NoError(t, err)
		require.False(t, r.OK)
		_, err = Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect, Tenant: "other", Account: "alice"})
		require.ErrorIs(t, err, ledger.ErrNotFound)
	})
}

func TestVerifyEmptyLedgerAndShape(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		r := w.verify()
		r.Seconds = 0.5
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		require.JSONEq(t, `{"ok":true,"counts":{"accounts":0,"entries":0,"jobs":0},"seconds":0.5,"invariants":[
			{"id":"I1","ok":true,"broken":0},{"id":"I2","ok":true,"broken":0},{"id":"I3","ok":true,"broken":0},
			{"id":"I4","ok":true,"broken":0},{"id":"I5","ok":true,"broken":0},{"id":"I6","ok":true,"broken":0}],"broken":[],
			"conservation":{"granted":0,"adjusted":0,"available":0,"held":0,"spent":0,"expired":0,"revoked":0,"difference":0}}`, string(raw))
	})
}

// TestVerifyReadsManyBatches: streams go on where a batch ended, and the list of broken rows
// has an end while the count has none.
func TestVerifyReadsManyBatches(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 1)
		const many = 2*batchRows + 3
		w.damage(fmt.Sprintf("INSERT INTO jobs (job_id, account_id, tenant, fingerprint, type, cost, units, input, metadata, max_attempts, created_at) "+
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "+
			"SELECT 'j' || i, a.id, 'default', %s, 'image', 0, 1, '{}', '{}', 1, a.created_at FROM n, accounts a", many, w.blob()))
		r := w.verify()
		require.EqualValues(t, many, r.Counts.Jobs)
		require.Len(t, r.Broken, maxBroken)
		require.EqualValues(t, 2*many, r.Invariants[5].Broken, "neither open nor ended, and without a deduct")
	})
}

func (w *world) blob() string {
	if w.dialect == Postgres {
		return "''::bytea"
	}
	return "x''"
}

// triggers on SQLite.
var triggers = []string{"credit_transactions_no_update", "credit_transactions_no_delete", "credit_transactions_no_replace", "credit_transactions_chained"}

// damage runs statements with the triggers off, and puts the triggers back.
func (w *world) damage(statements ...string) {
	w.t.Helper()
	if w.dialect == Postgres {
		w.exec("ALTER TABLE credit_transactions DISABLE TRIGGER ALL")
		w.exec(statements...)
		w.exec("ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_no_change",
			"ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_no_truncate",
			"ALTER TABLE credit_transactions ENABLE ALWAYS TRIGGER credit_transactions_chained")
		return
	}
	var saved []string
	for _, name := range triggers {
		var text string
		require.NoError(w.t, w.db.QueryRowContext(w.ctx, "SELECT sql FROM sqlite_master WHERE name = ?", name).Scan(&text))
		saved = append(saved, text)
		w.exec("DROP TRIGGER " + name)
	}
	w.exec(statements...)
	w.exec(saved...)
}

// marker inserts an entry without a movement into a job's account.
func (w *world) marker(job string, kind ledger.Kind) string {
	return fmt.Sprintf("INSERT INTO credit_transactions (id, account_id, kind, delta, job_id, reason, actor, created_at) "+
		"SELECT '%s', account_id, '%s', 0, job_id, 'x', 'x', created_at FROM jobs WHERE job_id = '%s'", ledger.NewID(), kind, job)
}

// appended inserts a movement at the end of alice's chain.
func (w *world) appended(job string, kind ledger.Kind, delta int64) string {
	return fmt.Sprintf("INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, job_id, reason, actor, created_at) "+
		"SELECT '%s', account_id, seq + 1, '%s', %d, balance_after + %d, '%s', 'x', 'x', created_at FROM credit_transactions "+
		"WHERE account_id = (SELECT account_id FROM jobs WHERE job_id = '%s') AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1",
		ledger.NewID(), kind, delta, delta, job, job)
}

func (w *world) drop(job string, kind ledger.Kind) string {
	return fmt.Sprintf("DELETE FROM credit_transactions WHERE job_id = '%s' AND kind = '%s'", job, kind)
}

// TestVerifyFindsPlantedFaults plants one fault at a time into a ledger that has lived.
// want are the invariants that break, exactly; id is the row that must be named.
func TestVerifyFindsPlantedFaults(t *testing.T) {
	t.Parallel()
	const outcomeIndex, chainIndex = "DROP INDEX credit_transactions_outcome", "DROP INDEX credit_transactions_chain"
	for name, c := range map[string]struct {
		plant func(w *world, l lives) []string
		want  []string
		id    func(l lives) string // "" when the id is an entry's
	}{
		"changed delta": {func(_ *world, l lives) []string {
			return []string{"UPDATE credit_transactions SET delta = -9 WHERE job_id = '" + l.done + "' AND kind = 'deduct'"}
		}, []string{"I4", "I6"}, nil},
		"changed amounts along a whole chain": {func(_ *world, l lives) []string {
			return []string{"UPDATE credit_transactions SET delta = 60, balance_after = 60 WHERE job_id = '" + l.grant + "'"}
		}, []string{"I4"}, nil},
		"changed balance": {func(_ *world, l lives) []string {
			return []string{"UPDATE credit_transactions SET balance_after = balance_after + 1 WHERE job_id = '" + l.cheap + "' AND kind = 'settle'"}
		}, []string{"I4"}, nil},
		"deleted middle entry": {func(w *world, l lives) []string { return []string{w.drop(l.failed, ledger.KindRefund)} },
			[]string{"I4", "I6"}, func(l lives) string { return l.failed }},
		"deleted newest entry, a deduct": {func(w *world, l lives) []string { return []string{w.drop(l.open, ledger.KindDeduct)} },
			[]string{"I4", "I6"}, func(l lives) string { return l.open }},
		"deleted newest entry, a grant": {func(w *world, l lives) []string { return []string{w.drop(l.grant, ledger.KindGrant)} },
			[]string{"I4"}, func(l lives) string { return l.grant }},
		"deleted settle": {func(w *world, l lives) []string { return []string{w.drop(l.cheap, ledger.KindSettle)} },
			[]string{"I4", "I6"}, func(l lives) string { return l.cheap }},
		"second outcome": {func(w *world, l lives) []string {
			return []string{outcomeIndex, w.marker(l.done, ledger.KindTaskFailed)}
		},
			[]string{"I1", "I3"}, nil},
		"completed and refunded": {func(w *world, l lives) []string {
			return []string{outcomeIndex, w.appended(l.done, ledger.KindReconcilerRefund, 8)}
		}, []string{"I1", "I3", "I6"}, nil},
		"ended job without outcome": {func(w *world, l lives) []string { return []string{w.drop(l.failed, ledger.KindTaskFailed)} },
			[]string{"I6"}, func(l lives) string { return l.failed }},
		"delivered without task_completed": {func(w *world, l lives) []string { return []string{w.drop(l.done, ledger.KindTaskCompleted)} },
			[]string{"I5", "I6"}, func(l lives) string { return l.done }},
		"completion without deduct": {func(w *world, l lives) []string { return []string{w.drop(l.free, ledger.KindDeduct)} },
			[]string{"I5", "I6"}, func(l lives) string { return l.free }},
		"refund above deduct": {func(_ *world, l lives) []string {
			return []string{"UPDATE credit_transactions SET delta = delta + 1 WHERE job_id = '" + l.failed + "' AND kind = 'refund'"}
		}, []string{"I4", "I6"}, nil},
		"refund of a delivered job": {func(w *world, l lives) []string { return []string{w.appended(l.done, ledger.KindRefund, 8)} },
			[]string{"I6"}, func(l lives) string { return l.done }},
		"credited above charged": {func(_ *world, l lives) []string {
			return []string{"UPDATE credit_transactions SET about_job = '" + l.refunded + "' WHERE about_job = '" + l.done + "'"}
		}, []string{"I6"}, func(l lives) string { return l.refunded }},
		"open job with an outcome": {func(w *world, l lives) []string { return []string{w.marker(l.open, ledger.KindTaskFailed)} },
			[]string{"I6"}, func(l lives) string { return l.open }},
		"outcome without ended row": {func(_ *world, l lives) []string {
			return []string{"DELETE FROM ended_jobs WHERE job_id = '" + l.done + "'"}
		},
			[]string{"I6"}, func(l lives) string { return l.done }},
		"job without open row": {func(_ *world, l lives) []string {
			return []string{"DELETE FROM open_jobs WHERE job_id = '" + l.open + "'"}
		},
			[]string{"I6"}, func(l lives) string { return l.open }},
		"charged changed": {func(_ *world, l lives) []string {
			return []string{"UPDATE ended_jobs SET charged = 7 WHERE job_id = '" + l.done + "'"}
		}, []string{"I4", "I6"}, func(l lives) string { return l.done }},
		"state changed": {func(_ *world, l lives) []string {
			return []string{"UPDATE ended_jobs SET state = 'failed' WHERE job_id = '" + l.free + "'"}
		}, []string{"I6"}, func(l lives) string { return l.free }},
		"held changed": {func(_ *world, l lives) []string {
			return []string{"UPDATE open_jobs SET held = 7 WHERE job_id = '" + l.running + "'"}
		},
			[]string{"I6"}, func(l lives) string { return l.running }},
		"entries without a job": {func(_ *world, l lives) []string { return []string{"DELETE FROM jobs WHERE job_id = '" + l.done + "'"} },
			[]string{"I6"}, nil},
		"entry without its grant": {func(_ *world, l lives) []string { return []string{"DELETE FROM grants WHERE id = '" + l.grant + "'"} },
			[]string{"I4"}, nil},
		"entry without its adjustment": {func(*world, lives) []string { return []string{"DELETE FROM adjustments WHERE amount = -5"} },
			[]string{"I4"}, nil},
		"entries without an account": {func(_ *world, l lives) []string {
			return []string{"DELETE FROM grants WHERE id = '" + l.grant + "'", "DELETE FROM accounts WHERE name = 'bob'"}
		}, []string{"I4"}, nil},
		"double place in a chain": {func(w *world, l lives) []string {
			return []string{chainIndex, w.appended(l.done, ledger.KindRefund, 1),
				"UPDATE credit_transactions SET seq = seq - 1 WHERE job_id = '" + l.done + "' AND kind = 'refund'"}
		}, []string{"I1", "I4", "I6"}, nil},
		"dropped outcome index": {func(*world, lives) []string { return []string{outcomeIndex} },
			[]string{"I1"}, func(lives) string { return "credit_transactions_outcome" }},
		"dropped chain index": {func(*world, lives) []string { return []string{chainIndex} },
			[]string{"I1"}, func(lives) string { return "credit_transactions_chain" }},
		"outcome index without force": {func(*world, lives) []string {
			return []string{outcomeIndex, "CREATE INDEX credit_transactions_outcome ON credit_transactions (job_id) WHERE kind IN ('task_completed', 'task_failed', 'reconciler_refund')"}
		}, []string{"I1"}, func(lives) string { return "credit_transactions_outcome" }},
		"outcome index over too little": {func(*world, lives) []string {
			return []string{outcomeIndex, "CREATE UNIQUE INDEX credit_transactions_outcome ON credit_transactions (job_id) WHERE kind IN ('task_completed')"}
		}, []string{"I1"}, func(lives) string { return "credit_transactions_outcome" }},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, w *world) {
				l := w.livedIn()
				w.damage(c.plant(w, l)...)
				r := w.verify()
				require.False(t, r.OK)
				require.Equal(t, c.want, brokenInvariants(r), "%+v", r.Broken)
				if c.id != nil {
					require.True(t, slices.ContainsFunc(r.Broken, func(b Broken) bool { return b.ID == c.id(l) }), "%+v", r.Broken)
				}
			})
		})
	}
}

func brokenInvariants(r VerifyReport) (ids []string) {
	for _, inv := range r.Invariants {
		if !inv.OK {
			ids = append(ids, inv.ID)
		}
	}
	return ids
}

func TestVerifyFindsTriggersMissingOrOff(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		faults := map[string][]string{}
		if w.dialect == Postgres {
			for _, name := range []string{"credit_transactions_no_change", "credit_transactions_no_truncate", "credit_transactions_chained"} {
				faults[name] = []string{"ALTER TABLE credit_transactions DISABLE TRIGGER " + name,
					"ALTER TABLE credit_transactions ENABLE REPLICA TRIGGER " + name,
					"DROP TRIGGER " + name + " ON credit_transactions"}
			}
			faults["credit_transactions_sign"] = []string{"ALTER TABLE credit_transactions DROP CONSTRAINT credit_transactions_sign"}
			faults["credit_transactions_job_kind"] = []string{"ALTER TABLE credit_transactions DROP CONSTRAINT credit_transactions_job_kind"}
		} else {
			for _, name := range triggers {
				faults[name] = []string{"DROP TRIGGER " + name}
			}
			faults["credit_transactions_no_update"] = append(faults["credit_transactions_no_update"],
				"CREATE TRIGGER credit_transactions_no_update BEFORE UPDATE ON credit_transactions BEGIN SELECT 1; END")
		}
		planted := 0
		for _, name := range sortedKeys(faults) {
			planted++
			for _, fault := range faults[name] {
				w.exec(fault)
				r := w.verify()
				require.Equal(t, []string{"I1"}, brokenInvariants(r), fault)
				require.EqualValues(t, planted, r.Invariants[0].Broken, fault)
				require.True(t, slices.ContainsFunc(r.Broken, func(b Broken) bool { return b.ID == name }), fault)
			}
		}
	})
}

func sortedKeys(m map[string][]string) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// TestVerifyFindsDuplicateKind (I2): the constraint gone, a job is paid for twice.
func TestVerifyFindsDuplicateKind(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		l := w.livedIn()
		if w.dialect == Postgres {
			w.damage("ALTER TABLE credit_transactions DROP CONSTRAINT credit_transactions_job_kind", w.marker(l.done, ledger.KindTaskStarted))
		} else {
			w.exec("DROP TRIGGER credit_transactions_no_replace", "CREATE TABLE copy AS SELECT * FROM credit_transactions",
				"DROP TABLE credit_transactions", "ALTER TABLE copy RENAME TO credit_transactions", w.marker(l.done, ledger.KindTaskStarted))
		}
		r := w.verify()
		require.Equal(t, []string{"I1", "I2"}, brokenInvariants(r), "%+v", r.Broken)
		i := slices.IndexFunc(r.Broken, func(b Broken) bool { return b.Invariant == "I2" })
		require.Equal(t, l.done, *r.Broken[i].JobID)
		require.Equal(t, "alice", *r.Broken[i].Account)
	})
}

func TestVerifySaysWhenTheDatabaseIsGone(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.exec("DROP TABLE ended_jobs")
		_, err := Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect})
		require.Error(t, err)
		require.NotErrorIs(t, err, ledger.ErrNotFound)
	})
}

// TestVerifyDoesNotBlockWriters: its snapshot is older than what is written meanwhile.
func TestVerifyDoesNotBlockWriters(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.livedIn()
		wrote := false
		r, err := Verify(w.ctx, VerifyOptions{DB: w.db, Dialect: w.dialect, Progress: func(int64) {
			if !wrote {
				wrote = true
				w.clock.advance(time.Second)
				w.grant(alice, 1000)
			}
		}})
		require.NoError(t, err)
		require.True(t, r.OK, "%+v", r.Broken)
		require.True(t, wrote)
		require.EqualValues(t, 150, r.Conservation.Granted)
	})
}
