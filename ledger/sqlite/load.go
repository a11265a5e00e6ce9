package sqlite

import (
	"database/sql"
	"encoding/json"
	"slices"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

// What a transaction loads. Each list is one JSON parameter, so that one prepared statement
// serves batches of every size; TestLoadsProbe holds them to the indexes.
const (
	inIDs   = " IN (SELECT value FROM json_each(?1))"
	inPairs = " IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))"

	accountsByName = "SELECT " + reads.AccountColumns + reads.AccountFrom + " WHERE (a.tenant, a.name)" + inPairs
	accountsByID   = "SELECT " + reads.AccountColumns + reads.AccountFrom + " WHERE a.id" + inIDs

	jobsByID   = "SELECT " + reads.JobColumns + reads.JobFrom + " WHERE j.job_id" + inIDs
	jobsByKey  = "SELECT " + reads.JobColumns + reads.JobFrom + " WHERE (j.tenant, j.key)" + inPairs
	attemptsOf = "SELECT " + reads.AttemptColumns + reads.AttemptFrom + " WHERE (x.job_id, x.token)" + inPairs

	callsOf = "SELECT " + reads.CallColumns + reads.CallFrom + " WHERE v.job_id" + inIDs + " ORDER BY v.job_id, v.n"

	grantsByID  = "SELECT " + reads.GrantColumns + reads.GrantFrom + " WHERE g.id" + inIDs
	grantsByKey = "SELECT " + reads.GrantColumns + reads.GrantFrom + " WHERE (g.tenant, g.key)" + inPairs

	adjustmentsByID  = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " WHERE d.id" + inIDs
	adjustmentsByKey = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " WHERE (d.tenant, d.key)" + inPairs

	heldBy     = "SELECT a.id, sum(o.held) FROM accounts a JOIN open_jobs o ON o.account_id = a.id WHERE (a.tenant, a.name)" + inPairs + " GROUP BY a.id"
	creditedTo = "SELECT about_job, sum(delta) FROM credit_transactions WHERE about_job" + inIDs + " AND kind = 'adjust' GROUP BY about_job"
)

var loads = []string{accountsByName, accountsByID, jobsByID, jobsByKey, attemptsOf, callsOf, grantsByID, grantsByKey, adjustmentsByID,
	adjustmentsByKey, heldBy, creditedTo}

// load fills the Book with the rows that names names. A job, grant or adjustment found, by
// whatever name, brings its account along: an answer tells its balance. Accounts come last
// here for that; the lock that covers them all is held already.
func (t *transaction) load(b *ledger.Book, n *ledger.Names) error {
	var owners []string // account ids
	job := func(j *ledger.Job) { b.LoadJob(j); owners = append(owners, j.AccountID) }
	fetch(t, jobsByID, slices.Concat(n.Jobs, n.JobRefs), reads.ScanJob, job)
	fetch(t, jobsByKey, pairs(n.JobKeys), reads.ScanJob, job)
	fetch(t, attemptsOf, attemptPairs(n.Attempts), reads.ScanAttempt, b.LoadAttempt)
	fetch(t, callsOf, n.Calls, reads.ScanCall, b.LoadCall)

	grant := func(g *ledger.Grant) { b.LoadGrant(g); owners = append(owners, g.AccountID) }
	fetch(t, grantsByID, n.Grants, reads.ScanGrant, grant)
	fetch(t, grantsByKey, pairs(n.GrantKeys), reads.ScanGrant, grant)

	adjustment := func(a *ledger.Adjustment) { b.LoadAdjustment(a); owners = append(owners, a.AccountID) }
	fetch(t, adjustmentsByID, n.Adjustments, reads.ScanAdjustment, adjustment)
	fetch(t, adjustmentsByKey, pairs(n.AdjustKeys), reads.ScanAdjustment, adjustment)
	fetch(t, creditedTo, n.Credited, scanSum, func(s sum) { b.LoadCredited(s.of, s.credits) })
	fetch(t, heldBy, accountPairs(n.Held), scanSum, func(s sum) { b.LoadHeld(s.of, s.credits) })

	loaded := map[string]bool{} // an account is loaded once, since its head is changed in place
	account := func(a *ledger.Account) {
		if !loaded[a.ID] {
			loaded[a.ID] = true
			b.LoadAccount(a)
		}
	}
	fetch(t, accountsByName, accountPairs(n.Accounts), reads.ScanAccount, account)
	fetch(t, accountsByID, owners, reads.ScanAccount, account)
	return t.err
}

// fetch hands the rows of a prepared query over a list to load. An empty list is no query, and
// after an error nothing more is asked.
func fetch[L, R any](t *transaction, query string, list []L, scan func(reads.Row) (R, error), load func(R)) {
	if t.err != nil || len(list) == 0 {
		return
	}
	raw, err := json.Marshal(list)
	if err != nil { // lists of texts
		panic(err)
	}
	rows, err := t.StmtContext(t.ctx, t.statements[query]).QueryContext(t.ctx, string(raw))
	if err != nil {
		t.err = err
		return
	}
	t.err = scanAll(rows, scan, load)
}

func scanAll[R any](rows *sql.Rows, scan func(reads.Row) (R, error), load func(R)) error {
	defer rows.Close()
	for rows.Next() {
		row, err := scan(rows)
		if err != nil {
			return err
		}
		load(row)
	}
	return rows.Err()
}

// pairs spells keys as json_each reads them.
func pairs(keys []ledger.TenantKey) [][2]string {
	list := make([][2]string, len(keys))
	for i, k := range keys {
		list[i] = [2]string{k.Tenant, k.Key}
	}
	return list
}

func attemptPairs(attempts []ledger.AttemptRef) [][2]string {
	list := make([][2]string, len(attempts))
	for i, a := range attempts {
		list[i] = [2]string{a.JobID, a.Token}
	}
	return list
}

// sum is what adds up about a job or for an account, in credits.
type sum struct {
	of      string
	credits int64
}

func scanSum(r reads.Row) (s sum, err error) {
	err = r.Scan(&s.of, &s.credits)
	return s, err
}

func accountPairs(accounts []ledger.AccountName) [][2]string {
	list := make([][2]string, len(accounts))
	for i, a := range accounts {
		list[i] = [2]string{a.Tenant, a.Name}
	}
	return list
}
