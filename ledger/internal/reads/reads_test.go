package reads_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

var scenarios = []struct {
	name string
	run  func(*testing.T, *world)
}{
	{"EntriesByPages", entriesByPages}, {"EntriesFiltered", entriesFiltered}, {"EntriesShowWords", entriesShowWords},
	{"AccountsByPages", accountsByPages}, {"Tenants", tenants}, {"BalanceAt", balanceAt}, {"Unknown", unknown}, {"Empty", empty},
	{"Grants", grants}, {"JobInEachState", jobInEachState}, {"JobsFiltered", jobsFiltered}, {"JobWithoutAccountRow", jobWithoutAccountRow},
	{"Attempts", attempts}, {"Due", due}, {"Leases", leases}, {"StaleProgress", staleProgress}, {"Relays", relays}, {"Sweeps", sweeps}, {"ForgetSweeps", forgetSweeps},
	{"Clock", clock}, {"Failures", failures}, {"Plans", plans}, {"Gauges", gauges}, {"GaugesPlan", gaugesPlan},
}

func TestReads(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *world{"postgres": newPostgres, "sqlite": newSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range scenarios {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.run(t, open(t))
				})
			}
		})
	}
}

func entriesByPages(t *testing.T, w *world) {
	a := w.account(t, ada)
	rows := make([]row, 0, 1000)
	for i := int64(1); i <= 1000; i++ {
		rows = append(rows, movement(a, i, 1, i, "grant", fmt.Sprint("g", i), now))
	}
	w.insert(t, "credit_transactions", rows...)
	page := ledger.Page{Limit: 50}
	for want := int64(1000); want > 0; {
		list, err := w.Entries(bg, ledger.EntryFilter{Account: ada}, page)
		require.NoError(t, err)
		require.Len(t, list, 50)
		for _, e := range list { // ids follow seq here: each comes once, in order
			require.Equal(t, want, e.Seq)
			want--
		}
		page.AfterAt, page.AfterID = list[49].CreatedAt, list[49].ID
	}
	list, err := w.Entries(bg, ledger.EntryFilter{Account: ada}, page)
	require.NoError(t, err)
	require.Empty(t, list)
}

func entriesFiltered(t *testing.T, w *world) {
	a := w.account(t, ada)
	at := func(h int) time.Time { return now.Add(time.Duration(h) * time.Hour) }
	w.insert(t, "credit_transactions",
		movement(a, 1, 10, 10, "grant", "g", at(1)),
		movement(a, 2, -5, 5, "deduct", "j", at(2)),
		movement(a, 3, 2, 7, "adjust", "d", at(3)).with(row{"about_job": "j", "evidence": `{"seen": 1}`}),
		row{"id": "m", "account_id": a, "kind": "task_failed", "delta": 0, "job_id": "other", "reason": "code", "actor": "worker", "created_at": at(4)})
	seqs := func(f ledger.EntryFilter) (list []int64) {
		f.Account = ada
		entries, err := w.Entries(bg, f, ledger.Page{Limit: 200})
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, e.Seq)
		}
		return list
	}
	require.Equal(t, []int64{0, 3, 2, 1}, seqs(ledger.EntryFilter{}))
	require.Equal(t, []int64{3, 2}, seqs(ledger.EntryFilter{From: at(2), To: at(4)}))
	require.Equal(t, []int64{3, 2}, seqs(ledger.EntryFilter{JobID: "j"}))
	of, err := w.JobEntries(bg, "j")
	require.NoError(t, err)
	require.Len(t, of, 2)
	require.JSONEq(t, `{"seen": 1}`, string(of[1].Evidence))
	of[1].Evidence = nil
	require.Equal(t, ledger.Entry{ID: a + "-00003", AccountID: a, Account: "ada", Seq: 3, Kind: ledger.KindAdjust, Delta: 2, BalanceAfter: 7,
		JobID: "d", AboutJob: "j", Reason: "code", Actor: "client", CreatedAt: at(3)}, of[1])
	sum, err := w.Credited(bg, "j")
	require.NoError(t, err)
	require.Equal(t, int64(2), sum)
}

func entriesShowWords(t *testing.T, w *world) {
	a, bob := w.account(t, ada), ledger.AccountName{Tenant: "south", Name: "bob"}
	b := w.account(t, bob)
	w.insert(t, "grants", grantRow(a, "g", 10, now))
	adjustment := grantRow(a, "d", 1, now)
	delete(adjustment, "source")
	w.insert(t, "adjustments", adjustment)
	w.insert(t, "credit_transactions", movement(a, 1, 10, 10, "grant", "g", now), movement(a, 2, 1, 11, "adjust", "d", now),
		// Jobs that are named like the grant of another tenant, and like the adjustment of their own.
		movement(b, 1, 9, 9, "grant", "h", now), movement(b, 2, -1, 8, "deduct", "g", now), movement(a, 3, -1, 10, "deduct", "d", now))
	words := func(name ledger.AccountName) (list [][2]string) {
		entries, err := w.Entries(bg, ledger.EntryFilter{Account: name}, ledger.Page{Limit: 9})
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, [2]string{e.Reason, e.Actor})
		}
		return list
	}
	code := [2]string{"code", "client"}
	require.Equal(t, [][2]string{code, {"words of d", "person of d"}, {"words of g", "person of g"}}, words(ada))
	require.Equal(t, [][2]string{code, code}, words(bob))
}

func accountsByPages(t *testing.T, w *world) {
	for i := range 5 {
		w.account(t, ledger.AccountName{Tenant: "north", Name: fmt.Sprint(i)})
	}
	w.account(t, ledger.AccountName{Tenant: "south", Name: "x"})
	var names []string
	for page := (ledger.Page{Limit: 2}); ; {
		list, err := w.Accounts(bg, "north", page)
		require.NoError(t, err)
		if len(list) == 0 {
			break
		}
		for _, a := range list {
			names = append(names, a.Name)
			page.AfterAt, page.AfterID = a.CreatedAt, a.ID
		}
	}
	require.Equal(t, []string{"4", "3", "2", "1", "0"}, names)
}

// tenants: what one tenant has is not found by another, under the same names.
func tenants(t *testing.T, w *world) {
	a, other := w.account(t, ada), ledger.AccountName{Tenant: "south", Name: "ada"}
	w.account(t, other)
	w.insert(t, "grants", grantRow(a, "g", 10, now))
	w.insert(t, "credit_transactions", movement(a, 1, 10, 10, "grant", "g", now), movement(a, 2, -5, 5, "deduct", "j", now))
	w.insert(t, "jobs", jobRow(a, "j"))
	w.insert(t, "open_jobs", openRow(a, "j"))

	mine, err := w.Balance(bg, ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 5, Held: 5}, mine)
	theirs, err := w.Balance(bg, other)
	require.NoError(t, err)
	require.Zero(t, theirs)
	entries, err := w.Entries(bg, ledger.EntryFilter{Account: other, JobID: "j"}, ledger.Page{Limit: 9})
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = w.Job(bg, "south", "j")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Grant(bg, "south", "g")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	for _, f := range []ledger.JobFilter{{Tenant: "south"}, {Tenant: "south", Account: "ada"}} {
		jobs, err := w.Jobs(bg, f, ledger.Page{Limit: 9})
		require.NoError(t, err)
		require.Empty(t, jobs)
	}
}

func balanceAt(t *testing.T, w *world) {
	a := w.account(t, ada)
	w.insert(t, "credit_transactions",
		movement(a, 1, 10, 10, "grant", "g", now),
		movement(a, 2, 5, 15, "grant", "h", now).with(row{"id": "0"}), // same moment, an id before: the chain's order counts
		movement(a, 3, -5, 10, "deduct", "j", now.Add(time.Hour)),
		row{"id": "m", "account_id": a, "kind": "task_failed", "delta": 0, "job_id": "j", "reason": "code", "actor": "worker", "created_at": now.Add(2 * time.Hour)})
	for at, want := range map[time.Duration]int64{-time.Microsecond: 0, 0: 15, time.Hour - time.Microsecond: 15, time.Hour: 10, 3 * time.Hour: 10} {
		got, err := w.BalanceAt(bg, ada, now.Add(at))
		require.NoError(t, err)
		require.Equal(t, want, got, at)
	}
	got, err := w.Account(bg, ada)
	require.NoError(t, err)
	require.Equal(t, ledger.Account{ID: a, Tenant: "north", Name: "ada", Status: ledger.AccountActive, CreatedAt: now.Add(-24 * time.Hour),
		Seq: 3, Balance: 10, LastAt: now.Add(2 * time.Hour)}, got) // a marker is an entry too
}

func unknown(t *testing.T, w *world) {
	_, account := w.Account(bg, ada)
	_, balance := w.Balance(bg, ada)
	_, past := w.BalanceAt(bg, ada, now)
	_, given := w.Grants(bg, ada)
	_, entries := w.Entries(bg, ledger.EntryFilter{Account: ada}, ledger.Page{Limit: 1})
	_, grant := w.Grant(bg, "north", "g")
	_, job := w.Job(bg, "north", "j")
	for _, err := range []error{account, balance, past, given, entries, grant, job} {
		require.ErrorIs(t, err, ledger.ErrNotFound)
	}
}

// empty: nothing is 0 and [], never null.
func empty(t *testing.T, w *world) {
	w.account(t, ada)
	b, err := w.Balance(bg, ada)
	require.NoError(t, err)
	require.Zero(t, b)
	page := ledger.Page{Limit: 9}
	for name, ask := range map[string]func() (any, error){
		"accounts":     func() (any, error) { return w.Accounts(bg, "nobody", page) },
		"grants":       func() (any, error) { return w.Grants(bg, ada) },
		"entries":      func() (any, error) { return w.Entries(bg, ledger.EntryFilter{Account: ada}, page) },
		"jobs":         func() (any, error) { return w.Jobs(bg, ledger.JobFilter{Tenant: "north"}, page) },
		"entries of j": func() (any, error) { return w.JobEntries(bg, "j") },
		"attempts":     func() (any, error) { return w.Attempts(bg, "j") },
		"due":          func() (any, error) { return w.Due(bg, 9) },
		"open":         func() (any, error) { return w.OpenJobs(bg, "", 9) },
		"workers":      func() (any, error) { return w.Workers(bg) },
		"relays":       func() (any, error) { return w.Relays(bg) },
	} {
		list, err := ask()
		require.NoError(t, err, name)
		text, err := json.Marshal(list)
		require.NoError(t, err)
		require.Equal(t, "[]", string(text), name)
	}
}

func grants(t *testing.T, w *world) {
	a := w.account(t, ada)
	w.insert(t, "grants", grantRow(a, "g2", 20, now.Add(time.Hour)), grantRow(a, "g1", 10, now).with(row{"key": "k"}))
	w.insert(t, "credit_transactions", movement(a, 1, 10, 10, "grant", "g1", now), movement(a, 2, 20, 30, "grant", "g2", now.Add(time.Hour)),
		movement(a, 3, -13, 17, "deduct", "j", now.Add(time.Hour)))
	list, err := w.Grants(bg, ada)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, ledger.Grant{ID: "g1", Key: "k", Tenant: "north", AccountID: a, Account: "ada", Amount: 10, Source: "plan", Priority: 100,
		Reason: "words of g1", Actor: "person of g1", CreatedAt: now, Fingerprint: []byte("f")}, list[0])
	require.Equal(t, []int64{0, 17}, []int64{list[0].Remaining, list[1].Remaining})
	g, err := w.Grant(bg, "north", "g2")
	require.NoError(t, err)
	require.Equal(t, int64(20), g.Amount)
}

func clock(t *testing.T, w *world) {
	at, err := w.Now(bg)
	require.NoError(t, err)
	require.Equal(t, now, at)
	at, err = reads.New(w.sql, w.sql, w.dialect, nil).Now(bg)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, time.Minute)
	require.Equal(t, at.UTC().Truncate(time.Microsecond), at)
	id, err := w.InstallationID(bg)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(id), 32)
}

// failures: ended by the caller, refused by the database, not understood, not reached.
func failures(t *testing.T, w *world) {
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err := w.Account(ctx, ada)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ledger.ErrUnavailable)

	a := w.account(t, ada)
	w.insert(t, "jobs", jobRow(a, "j"))
	w.insert(t, "ended_jobs", endedRow("j", "completed").with(row{"result": "no JSON"}))
	_, err = w.Job(bg, "north", "j")
	require.ErrorContains(t, err, "read job: ")
	require.NotErrorIs(t, err, ledger.ErrUnavailable)

	_, err = w.sql.ExecContext(bg, "DROP TABLE relays")
	require.NoError(t, err)
	_, err = w.Relays(bg)
	require.ErrorContains(t, err, "list relays: ")
	require.NotErrorIs(t, err, ledger.ErrUnavailable)

	require.NoError(t, w.sql.Close())
	_, err = w.Workers(bg)
	require.ErrorIs(t, err, ledger.ErrUnavailable)
	require.ErrorIs(t, w.RemoveWorker(bg, "w"), ledger.ErrUnavailable)
}
