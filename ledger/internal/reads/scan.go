package reads

import (
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/makegood/makegood/ledger"
)

// Columns and sources of the rows that the scanners below read. The SQLite store loads its
// Book with them too.
const (
	AccountColumns = "a.id, a.tenant, a.name, a.status, a.overdraft, a.created_at, t.seq, t.balance_after, " + newestEntryAt
	// When the newest entry was written, markers too, is one probe of the history's index.
	newestEntryAt = `(SELECT h.created_at FROM credit_transactions h WHERE h.account_id = a.id ORDER BY h.created_at DESC, h.id DESC LIMIT 1)`
	AccountFrom   = " FROM accounts a" + newestMovement
	// The newest movement t of account a is two probes, of the chain's index and of the key.
	// By id and not by (account, seq): where most accounts have one movement, PostgreSQL would
	// take any index of the account and filter, which reads a long account from end to end.
	newestMovement = ` LEFT JOIN credit_transactions t ON t.id = (SELECT m.id FROM credit_transactions m
		WHERE m.account_id = a.id AND m.seq IS NOT NULL ORDER BY m.seq DESC LIMIT 1)`

	JobColumns = `j.job_id, j.key, j.tenant, j.account_id, a.name, j.type, j.cost, j.units, j.input, j.metadata, j.max_attempts,
		j.wait_until, j.retry_of, j.created_at, j.fingerprint,
		o.held, o.state, o.epoch, o.attempts, o.starts, o.lost, o.counted, o.n, o.queued_at, o.check_at, o.run_after, o.enqueued_at, o.seen_at,
		o.refused_at, o.worker, o.token, o.first_started_at, o.started_at, o.deadline, o.cancel_at, o.percent, o.progress,
		w.renewed_at, w.alive_until,
		e.state, e.end_reason, e.held, e.charged, e.shortfall, e.delivered, e.attempts, e.starts, e.epoch, e.n, e.token, e.result,
		e.error, e.evidence, e.percent, e.progress, e.started_at, e.ended_at, ` + CallColumns
	// LEFT JOIN accounts: a job is seen, and so ended, even when its account's row is gone.
	JobFrom = ` FROM jobs j LEFT JOIN accounts a ON a.id = j.account_id LEFT JOIN open_jobs o ON o.job_id = j.job_id
		LEFT JOIN workers w ON w.id = o.worker LEFT JOIN ended_jobs e ON e.job_id = j.job_id
		LEFT JOIN vendor_calls v ON v.job_id = j.job_id AND v.n = coalesce(o.n, e.n)`

	AttemptColumns    = "x.job_id, x.n, x.token, x.epoch, x.worker, x.counted, x.outcome, x.error, x.run_after, x.vendor_ref, x.started_at, x.ended_at"
	AttemptFrom       = " FROM attempts x"
	CallColumns       = "v.job_id, v.n, v.provider, v.status, v.ref, v.token, v.error, v.claimed_at, v.sent_at, v.accepted_at, v.heard_at, v.called_at, v.ended_at"
	CallFrom          = " FROM vendor_calls v"
	GrantColumns      = "g.id, g.key, g.tenant, g.account_id, a.name, g.amount, g.source, g.priority, g.reason, g.actor, g.created_at, g.fingerprint"
	GrantFrom         = " FROM grants g JOIN accounts a ON a.id = g.account_id"
	AdjustmentColumns = "d.id, d.key, d.tenant, d.account_id, a.name, d.amount, d.about_job, d.reason, d.actor, d.created_at, d.fingerprint"
	AdjustmentFrom    = " FROM adjustments d JOIN accounts a ON a.id = d.account_id"

	EntryColumns = `t.id, t.account_id, a.name, t.seq, t.kind, t.delta, t.balance_after, t.floor, t.job_id, t.about_job,
		coalesce(g.reason, d.reason, t.reason), coalesce(g.actor, d.actor, t.actor), t.evidence, t.created_at`
	// The words that people wrote beside a grant or an adjustment live apart from the entry.
	// Kind and account are compared too: callers choose ids, and a job that is named like
	// somebody's grant must not show that grant's words.
	EntryFrom = ` FROM credit_transactions t LEFT JOIN accounts a ON a.id = t.account_id
		LEFT JOIN grants g ON g.id = t.job_id AND g.account_id = t.account_id AND t.kind = 'grant'
		LEFT JOIN adjustments d ON d.id = t.job_id AND d.account_id = t.account_id AND t.kind = 'adjust'`
)

// truth scans a boolean that may be NULL; NULL is false.
type truth struct{ b *bool }

func (x truth) Scan(v any) error {
	var b sql.NullBool
	err := b.Scan(v)
	*x.b = b.Bool
	return err
}

// Row is what can be scanned: *sql.Row and *sql.Rows.
type Row interface{ Scan(dest ...any) error }

// number scans an integer that may be NULL; NULL is 0.
type number struct{ n *int64 }

func (x number) Scan(v any) error {
	var n sql.NullInt64
	err := n.Scan(v)
	*x.n = n.Int64
	return err
}

// ScanAccount reads AccountColumns.
func ScanAccount(r Row) (*ledger.Account, error) {
	a := &ledger.Account{}
	err := r.Scan(&a.ID, &a.Tenant, &a.Name, &a.Status, &a.Overdraft, Moment{&a.CreatedAt}, number{&a.Seq}, number{&a.Balance}, Moment{&a.LastAt})
	return a, err
}

// ScanJob reads JobColumns.
func ScanJob(r Row) (*ledger.Job, error) {
	j, o, e := &ledger.Job{}, &ledger.OpenState{}, &ledger.EndState{}
	var input, metadata, openState, endState, reason, result, failure, evidence string
	n := make([]int64, 12) // counts of the two rows of which only one exists
	var call callRow
	err := r.Scan(append([]any{&j.ID, Maybe{&j.Key}, &j.Tenant, &j.AccountID, Maybe{&j.Account}, &j.Type, &j.Cost, &j.Units, &input, &metadata, &j.MaxAttempts,
		Moment{&j.WaitUntil}, Maybe{&j.RetryOf}, Moment{&j.CreatedAt}, &j.Fingerprint,
		number{&o.Held}, Maybe{&openState}, number{&n[0]}, number{&n[1]}, number{&n[2]}, number{&n[9]},
		truth{&o.Counted}, number{&n[10]}, Moment{&o.QueuedAt}, Moment{&o.CheckAt},
		Moment{&o.RunAfter}, Moment{&o.EnqueuedAt}, Moment{&o.SeenAt}, Moment{&o.RefusedAt}, Maybe{&o.Worker}, Maybe{&o.Token},
		Moment{&o.FirstStartedAt}, Moment{&o.StartedAt}, Moment{&o.Deadline}, Moment{&o.CancelAt}, number{&n[3]}, Maybe{&o.Progress},
		Moment{&o.WorkerRenewedAt}, Moment{&o.WorkerAliveUntil},
		Maybe{&endState}, Maybe{&reason}, number{&e.Held}, number{&e.Charged}, number{&e.Shortfall}, number{&n[4]}, number{&n[5]},
		number{&n[6]}, number{&n[7]}, number{&n[11]}, Maybe{&e.Token}, Maybe{&result}, Maybe{&failure}, Maybe{&evidence}, number{&n[8]}, Maybe{&e.Progress},
		Moment{&e.StartedAt}, Moment{&e.EndedAt}}, call.columns()...)...)
	if err != nil {
		return nil, err
	}
	j.Input, j.Metadata = json.RawMessage(input), json.RawMessage(metadata)
	if openState != "" {
		o.State, o.Epoch, o.Attempts, o.Starts, o.Percent = ledger.State(openState), int(n[0]), int(n[1]), int(n[2]), int(n[3])
		o.Lost, o.N = int(n[9]), int(n[10])
		j.Open = o
	}
	if endState != "" {
		e.State, e.Reason = ledger.State(endState), ledger.EndReason(reason)
		e.Delivered, e.Attempts, e.Starts, e.Epoch, e.Percent = int(n[4]), int(n[5]), int(n[6]), int(n[7]), int(n[8])
		e.N = int(n[11])
		if evidence != "" {
			e.Evidence = json.RawMessage(evidence)
		}
		err = errors.Join(optional(result, &e.Result), optional(failure, &e.Error))
		j.End = e
	}
	if call.job != "" {
		var callErr error
		j.Call, callErr = call.read()
		err = errors.Join(err, callErr)
	}
	return j, err
}

// callRow is a row of CallColumns, or the NULLs of a job that has none.
type callRow struct {
	ledger.Call
	job, status, failure string
	n                    int64
}

func (c *callRow) columns() []any {
	return []any{Maybe{&c.job}, number{&c.n}, Maybe{&c.Provider}, Maybe{&c.status}, Maybe{&c.Ref}, Maybe{&c.Token}, Maybe{&c.failure},
		Moment{&c.ClaimedAt}, Moment{&c.SentAt}, Moment{&c.AcceptedAt}, Moment{&c.HeardAt}, Moment{&c.CalledAt}, Moment{&c.EndedAt}}
}

func (c *callRow) read() (*ledger.Call, error) {
	c.JobID, c.N, c.Status = c.job, int(c.n), ledger.CallStatus(c.status)
	return &c.Call, optional(c.failure, &c.Error)
}

// ScanCall reads CallColumns.
func ScanCall(r Row) (*ledger.Call, error) {
	var row callRow
	if err := r.Scan(row.columns()...); err != nil {
		return nil, err
	}
	return row.read()
}

// optional reads JSON that may be missing.
func optional[T any](raw string, into **T) error {
	if raw == "" {
		return nil
	}
	*into = new(T)
	return json.Unmarshal([]byte(raw), *into)
}

// ScanAttempt reads AttemptColumns.
func ScanAttempt(r Row) (a ledger.Attempt, err error) {
	var failure string
	if err := r.Scan(&a.JobID, &a.N, &a.Token, &a.Epoch, &a.Worker, &a.Counted, &a.Outcome, Maybe{&failure}, Moment{&a.RunAfter},
		Maybe{&a.VendorRef}, Moment{&a.StartedAt}, Moment{&a.EndedAt}); err != nil {
		return a, err
	}
	return a, optional(failure, &a.Error)
}

// ScanGrant reads GrantColumns.
func ScanGrant(r Row) (*ledger.Grant, error) {
	g := &ledger.Grant{}
	err := r.Scan(&g.ID, Maybe{&g.Key}, &g.Tenant, &g.AccountID, &g.Account, &g.Amount, &g.Source, &g.Priority, &g.Reason, &g.Actor,
		Moment{&g.CreatedAt}, &g.Fingerprint)
	return g, err
}

// ScanAdjustment reads AdjustmentColumns.
func ScanAdjustment(r Row) (*ledger.Adjustment, error) {
	d := &ledger.Adjustment{}
	err := r.Scan(&d.ID, Maybe{&d.Key}, &d.Tenant, &d.AccountID, &d.Account, &d.Amount, Maybe{&d.AboutJob}, &d.Reason, &d.Actor,
		Moment{&d.CreatedAt}, &d.Fingerprint)
	return d, err
}

// ScanEntry reads EntryColumns.
func ScanEntry(r Row) (e ledger.Entry, err error) {
	var evidence string
	err = r.Scan(&e.ID, &e.AccountID, Maybe{&e.Account}, number{&e.Seq}, &e.Kind, &e.Delta, number{&e.BalanceAfter}, number{&e.Floor}, &e.JobID,
		Maybe{&e.AboutJob}, &e.Reason, &e.Actor, Maybe{&evidence}, Moment{&e.CreatedAt})
	if evidence != "" {
		e.Evidence = json.RawMessage(evidence)
	}
	return e, err
}
