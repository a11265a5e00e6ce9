package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

// What a transaction writes, one prepared statement a row: on one connection in one process
// that costs microseconds, where the commit's sync costs milliseconds.
const (
	insertAccount = `INSERT INTO accounts (id, tenant, name, status, overdraft, created_at) VALUES (?, ?, ?, ?, ?, ?)`

	insertGrant = `INSERT INTO grants (id, account_id, tenant, key, fingerprint, amount, source, priority, reason, actor,
		created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertAdjustment = `INSERT INTO adjustments (id, account_id, tenant, key, fingerprint, amount, about_job, reason, actor,
		created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertJob = `INSERT INTO jobs (job_id, account_id, tenant, key, fingerprint, type, cost, units, input, metadata,
		max_attempts, wait_until, retry_of, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertEntry = `INSERT INTO credit_transactions (id, account_id, seq, kind, delta, balance_after, floor, job_id, about_job,
		reason, actor, evidence, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	// openColumns of both statements below are bound by openValues, the job's id last.
	insertOpen = `INSERT INTO open_jobs (account_id, held, state, epoch, attempts, starts, lost, counted, n, queued_at, check_at,
		run_after, enqueued_at, seen_at, refused_at, worker, token, first_started_at, started_at, deadline, cancel_at, percent, progress,
		job_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateOpen = `UPDATE open_jobs SET account_id = ?, held = ?, state = ?, epoch = ?, attempts = ?, starts = ?, lost = ?, counted = ?, n = ?, queued_at = ?,
		check_at = ?, run_after = ?, enqueued_at = ?, seen_at = ?, refused_at = ?, worker = ?, token = ?, first_started_at = ?,
		started_at = ?, deadline = ?, cancel_at = ?, percent = ?, progress = ? WHERE job_id = ?`
	deleteOpen = `DELETE FROM open_jobs WHERE job_id = ?`

	insertEnded = `INSERT INTO ended_jobs (job_id, state, end_reason, held, charged, shortfall, delivered, attempts, starts,
		epoch, n, token, result, error, evidence, percent, progress, started_at, ended_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertAttempt = `INSERT INTO attempts (job_id, n, token, epoch, worker, counted, outcome, error, run_after, vendor_ref,
		started_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	upsertCall = `INSERT INTO vendor_calls (job_id, n, provider, status, ref, token, error, claimed_at, sent_at, accepted_at, heard_at,
		called_at, ended_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job_id, n) DO UPDATE SET provider = excluded.provider,
		status = excluded.status, ref = excluded.ref, token = excluded.token, error = excluded.error, claimed_at = excluded.claimed_at,
		sent_at = excluded.sent_at, accepted_at = excluded.accepted_at, heard_at = excluded.heard_at, called_at = excluded.called_at,
		ended_at = excluded.ended_at`

	// A Start must not shorten the lease that its worker renewed itself.
	renewWorker = `INSERT INTO workers (id, renewed_at, alive_until) VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE
		SET renewed_at = max(renewed_at, excluded.renewed_at), alive_until = max(alive_until, excluded.alive_until)`
)

var writes = []string{insertAccount, insertGrant, insertAdjustment, insertJob, insertEntry, insertOpen, updateOpen, deleteOpen,
	insertEnded, insertAttempt, upsertCall, renewWorker}

// store writes what the commands changed.
func (t *transaction) store(b *ledger.Book) error {
	c := b.Changes()
	each(t, c.Accounts, t.account)
	each(t, c.Grants, t.grant)
	each(t, c.Adjustments, t.adjustment)
	each(t, c.Jobs, t.job)
	each(t, c.Entries, t.entry)
	added := map[string]bool{}
	for _, j := range c.Jobs {
		added[j.ID] = true
	}
	each(t, c.SortedTouched(), func(j *ledger.Job) { t.open(j, added[j.ID]) })
	each(t, c.Ended, func(j *ledger.Job) { t.ended(j, added[j.ID]) })
	each(t, c.Attempts, t.attempt)
	each(t, c.SortedCalls(), t.call)
	for id, until := range c.Renewals {
		t.exec(renewWorker, id, micros(b.Now()), micros(until))
	}
	return t.err
}

// each writes rows until one fails.
func each[R any](t *transaction, rows []R, write func(R)) {
	for _, row := range rows {
		if t.err != nil {
			return
		}
		write(row)
	}
}

func (t *transaction) account(a *ledger.Account) {
	t.exec(insertAccount, a.ID, a.Tenant, a.Name, a.Status, a.Overdraft, micros(a.CreatedAt))
}

func (t *transaction) grant(g *ledger.Grant) {
	t.exec(insertGrant, g.ID, g.AccountID, g.Tenant, reads.Text(g.Key), g.Fingerprint, g.Amount, g.Source, g.Priority, g.Reason,
		g.Actor, micros(g.CreatedAt))
}

func (t *transaction) adjustment(a *ledger.Adjustment) {
	t.exec(insertAdjustment, a.ID, a.AccountID, a.Tenant, reads.Text(a.Key), a.Fingerprint, a.Amount, reads.Text(a.AboutJob), a.Reason,
		a.Actor, micros(a.CreatedAt))
}

func (t *transaction) job(j *ledger.Job) {
	t.exec(insertJob, j.ID, j.AccountID, j.Tenant, reads.Text(j.Key), j.Fingerprint, j.Type, j.Cost, j.Units, string(j.Input),
		string(j.Metadata), j.MaxAttempts, micros(j.WaitUntil), reads.Text(j.RetryOf), micros(j.CreatedAt))
}

// entry writes a movement with its place in the chain, or a marker without one.
func (t *transaction) entry(e ledger.Entry) {
	var seq, balance, floor any
	if e.Movement() {
		seq, balance = e.Seq, e.BalanceAfter
		if e.Kind == ledger.KindDeduct {
			floor = e.Floor
		}
	}
	t.exec(insertEntry, e.ID, e.AccountID, seq, string(e.Kind), e.Delta, balance, floor, e.JobID, reads.Text(e.AboutJob), e.Reason,
		e.Actor, reads.Text(string(e.Evidence)), micros(e.CreatedAt))
}

// open writes the state of an open job. One that was touched and then ended is ended's.
func (t *transaction) open(j *ledger.Job, added bool) {
	o := j.Open
	if o == nil {
		return
	}
	query := updateOpen
	if added {
		query = insertOpen
	}
	t.exec(query, j.AccountID, o.Held, string(o.State), o.Epoch, o.Attempts, o.Starts, o.Lost, o.Counted, o.N, micros(o.QueuedAt), micros(o.CheckAt),
		micros(o.RunAfter), micros(o.EnqueuedAt), micros(o.SeenAt), micros(o.RefusedAt), reads.Text(o.Worker), reads.Text(o.Token),
		micros(o.FirstStartedAt), micros(o.StartedAt), micros(o.Deadline), micros(o.CancelAt), o.Percent, o.Progress, j.ID)
}

// ended moves a job to those that ended. One added in the same batch was never among the open.
func (t *transaction) ended(j *ledger.Job, added bool) {
	if !added {
		t.exec(deleteOpen, j.ID)
	}
	e := j.End
	t.exec(insertEnded, j.ID, string(e.State), string(e.Reason), e.Held, e.Charged, e.Shortfall, e.Delivered, e.Attempts,
		e.Starts, e.Epoch, e.N, reads.Text(e.Token), asJSON(e.Result), asJSON(e.Error), reads.Text(string(e.Evidence)), e.Percent, e.Progress,
		micros(e.StartedAt), micros(e.EndedAt))
}

func (t *transaction) attempt(a ledger.Attempt) {
	t.exec(insertAttempt, a.JobID, a.N, a.Token, a.Epoch, a.Worker, a.Counted, string(a.Outcome), asJSON(a.Error),
		micros(a.RunAfter), reads.Text(a.VendorRef), micros(a.StartedAt), micros(a.EndedAt))
}

func (t *transaction) call(c *ledger.Call) {
	t.exec(upsertCall, c.JobID, c.N, c.Provider, string(c.Status), reads.Text(c.Ref), c.Token, asJSON(c.Error), micros(c.ClaimedAt),
		micros(c.SentAt), micros(c.AcceptedAt), micros(c.HeardAt), micros(c.CalledAt), micros(c.EndedAt))
}

// exec runs a prepared statement that must write exactly one row. The first error stays.
func (t *transaction) exec(query string, args ...any) {
	if t.err != nil {
		return
	}
	result, err := t.StmtContext(t.ctx, t.statements[query]).ExecContext(t.ctx, args...)
	if err != nil {
		t.err = err
		return
	}
	if n, err := result.RowsAffected(); err != nil || n != 1 {
		t.err = errors.Join(fmt.Errorf("%w: %.40q wrote %d rows", errMissingRow, query, n), err)
	}
}

// errMissingRow says that a row loaded under the lock was not there to be written: a fault.
var errMissingRow = errors.New("a row that was loaded is gone")

// micros is a time as it is stored; the zero time is NULL.
func micros(at time.Time) any { return reads.SQLite.Time(at) }

// asJSON is an optional value as JSON text; nil is NULL.
func asJSON[V any](v *V) any {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil { // texts and numbers only
		panic(err)
	}
	return string(raw)
}
