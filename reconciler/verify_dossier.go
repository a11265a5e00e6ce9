package reconciler

import "github.com/makegood/makegood/ledger"

// dossier is all that the tables say of one id.
type dossier struct {
	v       *verifier
	id      string
	account string // of the first entry

	byKind     map[ledger.Kind]tally
	jobEntries int   // entries of a job; others are of operations
	moved      int64 // Σ delta of these
	outcomes   int
	outcome    ledger.Kind // the first
	outcomeID  string

	job               *jobRow
	open              *openRow
	ended             *endedRow
	grant, adjustment *operationRow
	credits           int   // adjustments about the job
	credited          int64 // their sum
}

func (d *dossier) broken(invariant, table, id, detail string, expected, found any) {
	b := Broken{Invariant: invariant, Table: table, ID: id, Detail: detail, Expected: expected, Found: found, accountID: d.account}
	if d.job != nil || d.open != nil || d.ended != nil || d.jobEntries > 0 {
		b.JobID = &d.id
	}
	d.v.broken(b)
}

// judge checks what the rows say of each other.
func (d *dossier) judge() {
	switch {
	case d.account != "":
	case d.job != nil:
		d.account = d.job.account
	case d.grant != nil:
		d.account = d.grant.account
	case d.adjustment != nil:
		d.account = d.adjustment.account
	}
	d.judgeOperation(ledger.KindGrant, "grants", d.grant)
	d.judgeOperation(ledger.KindAdjust, "adjustments", d.adjustment)
	if d.job != nil || d.open != nil || d.ended != nil || d.jobEntries > 0 || d.credits > 0 {
		d.judgeRows()
		d.judgeDeduct()
		d.judgeOpen()
		d.judgeEnd()
		d.judgeMoney()
	}
}

// judgeOperation: a grant and its entry, an adjustment and its entry, stand for each other.
func (d *dossier) judgeOperation(kind ledger.Kind, table string, row *operationRow) {
	t := d.byKind[kind]
	switch {
	case row == nil && t.n == 0:
	case row == nil:
		d.broken("I4", "credit_transactions", t.id, "the entry belongs to no row of "+table, d.id, nil)
	case t.n == 0:
		d.broken("I4", table, d.id, "its entry is missing", row.amount, nil)
	case t.n == 1 && t.delta != row.amount:
		d.broken("I4", "credit_transactions", t.id, "delta is not the amount of its row of "+table, row.amount, t.delta)
	case row.account != d.account:
		d.broken("I4", "credit_transactions", t.id, "the entry is in another account than its row of "+table, row.account, d.account)
	}
}

// judgeRows: a job is one row of jobs and either one of open_jobs or one of ended_jobs.
func (d *dossier) judgeRows() {
	switch {
	case d.job == nil && d.jobEntries > 0:
		d.broken("I6", "credit_transactions", d.anyEntry(), "the entry's job does not exist", d.id, nil)
	case d.job == nil && d.open != nil:
		d.broken("I6", "open_jobs", d.id, "the job does not exist", d.id, nil)
	case d.job == nil && d.ended != nil:
		d.broken("I6", "ended_jobs", d.id, "the job does not exist", d.id, nil)
	case d.job == nil:
		d.broken("I6", "adjustments", d.id, "the job that adjustments are about does not exist", d.id, nil)
	case d.open == nil && d.ended == nil:
		d.broken("I6", "jobs", d.id, "the job is neither open nor ended", nil, nil)
	case d.open != nil && d.ended != nil:
		d.broken("I6", "open_jobs", d.id, "the job is open and ended at once", nil, string(d.ended.state))
	}
	if d.job != nil && d.job.account != d.account {
		d.broken("I6", "jobs", d.id, "the job's entries are in another account", d.job.account, d.account)
	}
}

// anyEntry is the id of the job's first entry in the order of its life.
func (d *dossier) anyEntry() string {
	for _, kind := range ledger.Kinds {
		if t := d.byKind[kind]; t.n > 0 && jobOf(kind, d.id) != nil {
			return t.id
		}
	}
	return ""
}

// judgeDeduct: what a job costs was taken, and nothing completes without.
func (d *dossier) judgeDeduct() {
	t := d.byKind[ledger.KindDeduct]
	switch {
	case t.n == 0 && d.job != nil:
		d.broken("I6", "jobs", d.id, "the job's deduct is missing", -d.job.cost, nil)
		if d.job.cost > 0 {
			d.broken("I4", "jobs", d.id, "the movement that paid for the job is missing", -d.job.cost, nil)
		}
	case t.n == 1 && d.job != nil && t.delta != -d.job.cost:
		d.broken("I4", "credit_transactions", t.id, "the deduct is not what the job costs", -d.job.cost, t.delta)
	}
	if done := d.byKind[ledger.KindTaskCompleted]; done.n > 0 && t.n == 0 {
		d.broken("I5", "credit_transactions", done.id, "the job completed without a deduct", nil, nil)
	}
}

// judgeOpen: an open job has no outcome, and holds what was taken.
func (d *dossier) judgeOpen() {
	if d.open == nil {
		return
	}
	if d.outcomes > 0 && d.ended == nil {
		d.broken("I6", "open_jobs", d.id, "the job is open but has an outcome", nil, string(d.outcome))
	}
	if d.ended == nil && d.jobEntries > 0 && d.open.held != -d.moved {
		d.broken("I6", "open_jobs", d.id, "held is not what was taken for the job", -d.moved, d.open.held)
	}
}

var outcomeOf = map[ledger.State]ledger.Kind{
	ledger.StateCompleted: ledger.KindTaskCompleted,
	ledger.StateFailed:    ledger.KindTaskFailed,
	ledger.StateRefunded:  ledger.KindReconcilerRefund,
}

// judgeEnd: a job ended exactly when it has its outcome.
func (d *dossier) judgeEnd() {
	if d.ended == nil {
		if d.outcomes > 0 && d.open == nil {
			d.broken("I6", "credit_transactions", d.outcomeID, "the outcome's job has no row of its end", nil, string(d.outcome))
		}
		return
	}
	want := outcomeOf[d.ended.state]
	switch {
	case d.byKind[want].n > 0:
	case d.ended.state == ledger.StateCompleted:
		d.broken("I5", "ended_jobs", d.id, "the job counts as delivered without task_completed", string(want), d.outcomeWord())
	case d.outcomes > 0:
		d.broken("I6", "ended_jobs", d.id, "the job's state is not its outcome", string(want), d.outcomeWord())
	}
	if d.outcomes == 0 {
		d.broken("I6", "ended_jobs", d.id, "the job ended without an outcome", string(want), nil)
	}
}

func (d *dossier) outcomeWord() any {
	if d.outcome == "" {
		return nil
	}
	return string(d.outcome)
}

// judgeMoney: charged and ended means delivered or refunded, and no more returns than was
// taken.
func (d *dossier) judgeMoney() {
	taken := -d.byKind[ledger.KindDeduct].delta
	for _, kind := range []ledger.Kind{ledger.KindRefund, ledger.KindReconcilerRefund} {
		if t := d.byKind[kind]; t.delta > taken {
			d.broken("I6", "credit_transactions", t.id, "the refund is above the deduct", taken, t.delta)
		}
	}
	if d.credits > 0 && d.credited > -d.moved {
		d.broken("I6", "adjustments", d.id, "adjustments about the job return more than it was charged", -d.moved, d.credited)
	} else if d.moved > 0 {
		d.broken("I6", "jobs", d.id, "more was returned for the job than taken", taken, taken+d.moved)
	}
	if d.ended == nil {
		return
	}
	e := d.ended
	if e.held != taken && d.byKind[ledger.KindDeduct].n > 0 {
		d.broken("I6", "ended_jobs", d.id, "held is not what the deduct took", taken, e.held)
	}
	if e.charged != -d.moved {
		d.broken("I6", "ended_jobs", d.id, "charged is not what the job's entries took", -d.moved, e.charged)
		d.judgeReturn()
	}
	if e.state != ledger.StateCompleted && e.charged != 0 {
		d.broken("I6", "ended_jobs", d.id, "the job was not delivered, and is charged", int64(0), e.charged)
	}
}

// judgeReturn tells whether the difference is a movement that is gone from the chain's end.
func (d *dossier) judgeReturn() {
	e := d.ended
	kind := ledger.KindRefund
	if e.state == ledger.StateCompleted {
		kind = ledger.KindSettle
	}
	if e.state != ledger.StateRefunded && e.held != e.charged && d.byKind[kind].n == 0 {
		d.broken("I4", "ended_jobs", d.id, "the job's "+string(kind)+" is missing", e.held-e.charged, nil)
	}
}
