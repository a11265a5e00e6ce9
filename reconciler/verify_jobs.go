package reconciler

import (
	"database/sql"

	"github.com/makegood/makegood/ledger"
)

// Rows as the streams of checkJobs bring them, all ordered by the id they belong to.
type (
	entryRow struct {
		jobID, id, account string
		kind               ledger.Kind
		delta              int64
		seq, balance       sql.NullInt64
	}
	jobRow struct {
		id, account string
		cost        int64
	}
	openRow struct {
		id   string
		held int64
	}
	endedRow struct {
		id            string
		state         ledger.State
		held, charged int64
	}
	// operationRow is a grant or an adjustment.
	operationRow struct {
		id, account string
		amount      int64
	}
	// creditRow is an adjustment's entry, ordered by the job that it is about.
	creditRow struct {
		jobID string
		delta int64
	}
)

// jobStreams are what is known of jobs and of operations without a job.
type jobStreams struct {
	entries             *stream[entryRow]
	jobs                *stream[jobRow]
	open                *stream[openRow]
	ended               *stream[endedRow]
	grants, adjustments *stream[operationRow]
	credits             *stream[creditRow]
}

func (v *verifier) jobStreams() (s jobStreams, err error) {
	// The name of an ended job's account is in another table.
	endedOf := ""
	if v.accountID != "" {
		endedOf = " WHERE job_id IN (SELECT job_id FROM jobs" + v.of("account_id") + ")"
	}
	errs := []error{
		open(&s.entries, v, "SELECT job_id, id, account_id, kind, delta, seq, balance_after FROM credit_transactions"+
			v.of("account_id")+" ORDER BY job_id, kind, id",
			func(e entryRow) string { return e.jobID },
			func(rows *sql.Rows) (e entryRow, err error) {
				return e, rows.Scan(&e.jobID, &e.id, &e.account, &e.kind, &e.delta, &e.seq, &e.balance)
			}),
		open(&s.jobs, v, "SELECT job_id, account_id, cost FROM jobs"+v.of("account_id")+" ORDER BY job_id",
			func(j jobRow) string { return j.id },
			func(rows *sql.Rows) (j jobRow, err error) { return j, rows.Scan(&j.id, &j.account, &j.cost) }),
		open(&s.open, v, "SELECT job_id, held FROM open_jobs"+v.of("account_id")+" ORDER BY job_id",
			func(o openRow) string { return o.id },
			func(rows *sql.Rows) (o openRow, err error) { return o, rows.Scan(&o.id, &o.held) }),
		open(&s.ended, v, "SELECT job_id, state, held, charged FROM ended_jobs"+endedOf+" ORDER BY job_id",
			func(e endedRow) string { return e.id },
			func(rows *sql.Rows) (e endedRow, err error) {
				return e, rows.Scan(&e.id, &e.state, &e.held, &e.charged)
			}),
		v.operations(&s.grants, "grants"),
		v.operations(&s.adjustments, "adjustments"),
		open(&s.credits, v, "SELECT about_job, delta FROM credit_transactions"+v.of("account_id", "about_job IS NOT NULL")+
			" ORDER BY about_job",
			func(c creditRow) string { return c.jobID },
			func(rows *sql.Rows) (c creditRow, err error) { return c, rows.Scan(&c.jobID, &c.delta) }),
	}
	for _, err := range errs {
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func (v *verifier) operations(s **stream[operationRow], table string) error {
	return open(s, v, "SELECT id, account_id, amount FROM "+table+v.of("account_id")+" ORDER BY id",
		func(o operationRow) string { return o.id },
		func(rows *sql.Rows) (o operationRow, err error) { return o, rows.Scan(&o.id, &o.account, &o.amount) })
}

func open[T any](s **stream[T], v *verifier, query string, key func(T) string, scan func(*sql.Rows) (T, error)) (err error) {
	*s, err = newStream(v, query, key, scan)
	return err
}

// checkJobs brings together, id by id, all that is said of a job or an operation in any
// table, and judges it (I2, I3, I5, I6, and the movements that I4 needs a counterpart for).
func (v *verifier) checkJobs() error {
	s, err := v.jobStreams()
	if err != nil {
		return err
	}
	for {
		id, ok, err := lowest(s.entries.nextKey, s.jobs.nextKey, s.open.nextKey, s.ended.nextKey, s.grants.nextKey,
			s.adjustments.nextKey, s.credits.nextKey)
		if err != nil || !ok {
			return err
		}
		d := &dossier{v: v, id: id, byKind: map[ledger.Kind]tally{}}
		if err := d.collect(s); err != nil {
			return err
		}
		d.judge()
	}
}

// collect takes all rows of the dossier's id.
func (d *dossier) collect(s jobStreams) error {
	counts, sums := &d.v.report.Counts, &d.v.report.Conservation
	errs := []error{
		s.entries.take(d.id, d.addEntry),
		s.jobs.take(d.id, func(j jobRow) {
			d.job = &j
			counts.Jobs++
		}),
		s.open.take(d.id, func(o openRow) {
			d.open = &o
			sums.Held += o.held
		}),
		s.ended.take(d.id, func(e endedRow) {
			d.ended = &e
			sums.Spent += e.charged
		}),
		s.grants.take(d.id, func(o operationRow) { d.grant = &o }),
		s.adjustments.take(d.id, func(o operationRow) { d.adjustment = &o }),
		s.credits.take(d.id, func(c creditRow) {
			d.credited += c.delta
			d.credits++
		}),
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tally is a dossier's entries of one kind.
type tally struct {
	n     int
	id    string // of the first
	delta int64
}

// addEntry takes an entry into the dossier and checks what one entry alone can break.
func (d *dossier) addEntry(e entryRow) {
	v := d.v
	v.report.Counts.Entries++
	sums := &v.report.Conservation
	switch e.kind {
	case ledger.KindGrant:
		sums.Granted += e.delta
	case ledger.KindAdjust:
		sums.Adjusted += e.delta
	case ledger.KindExpire:
		sums.Expired -= e.delta
	case ledger.KindRevoke:
		sums.Revoked -= e.delta
	}
	if d.account == "" {
		d.account = e.account
	}
	t := d.byKind[e.kind]
	if t.n++; t.n == 1 {
		t.id = e.id
	} else {
		d.broken("I2", "credit_transactions", e.id, "the job has another entry of the kind "+string(e.kind), int64(1), int64(t.n))
	}
	t.delta += e.delta
	d.byKind[e.kind] = t
	if e.kind.Outcome() {
		if d.outcomes++; d.outcomes == 1 {
			d.outcome, d.outcomeID = e.kind, e.id
		} else {
			d.broken("I3", "credit_transactions", e.id, "the job has ended another way too", string(d.outcome), string(e.kind))
		}
	}
	if (e.delta == 0) != !e.seq.Valid || (e.delta == 0) != !e.balance.Valid {
		d.broken("I4", "credit_transactions", e.id, "a movement needs a place in the chain, and a marker has none", nil, number(e.seq))
	}
	if jobOf(e.kind, d.id) != nil {
		d.moved += e.delta
		d.jobEntries++
		d.entryAccounts(e)
	}
}

// entryAccounts finds a job's entry in an account that its other entries are not in.
func (d *dossier) entryAccounts(e entryRow) {
	if e.account != d.account {
		d.broken("I6", "credit_transactions", e.id, "the job's entries are in two accounts", d.account, e.account)
	}
}
