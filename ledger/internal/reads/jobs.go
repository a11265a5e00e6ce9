package reads

import (
	"context"

	"github.com/makegood/makegood/ledger"
)

// Job reads one job of a tenant.
func (db *DB) Job(ctx context.Context, tenant, id string) (ledger.Job, error) {
	return one(ctx, db, "read job", "SELECT "+JobColumns+JobFrom+" WHERE j.job_id = $1 AND j.tenant = $2",
		[]any{id, tenant}, value(ScanJob), ledger.NotFound("job", id))
}

// Jobs lists a tenant's jobs, newest first: by id, which is a ULID and holds the time.
func (db *DB) Jobs(ctx context.Context, f ledger.JobFilter, page ledger.Page) ([]ledger.Job, error) {
	w, id := where{dialect: db.dialect}, "j.job_id"
	w.add("j.tenant = ?", f.Tenant)
	if f.Account != "" {
		w.add("j.account_id = (SELECT id FROM accounts WHERE tenant = ? AND name = ?)", f.Tenant, f.Account)
	}
	if f.Type != "" {
		w.add("j.type = ?", f.Type)
	}
	switch f.State {
	case "":
	case ledger.StateQueued, ledger.StateRunning:
		w.add("o.state = ?", string(f.State))
		id = "o.job_id" // walk the few open jobs, not all that ever were
	default:
		w.add("e.state = ?", string(f.State))
	}
	if !f.Since.IsZero() {
		w.add("j.created_at >= ?", f.Since)
	}
	if page.AfterID != "" {
		w.add(id+" < ?", page.AfterID)
	}
	return db.jobs(ctx, "list jobs", w.page(id+" DESC", page.Limit), w.args)
}

func (db *DB) jobs(ctx context.Context, what, clause string, args []any) ([]ledger.Job, error) {
	return list(ctx, db, what, "SELECT "+JobColumns+JobFrom+clause, args, value(ScanJob))
}

// Attempts lists a job's attempts that are over, oldest first.
func (db *DB) Attempts(ctx context.Context, jobID string) ([]ledger.Attempt, error) {
	return list(ctx, db, "list attempts", "SELECT "+AttemptColumns+AttemptFrom+" WHERE x.job_id = $1 ORDER BY x.n",
		[]any{jobID}, ScanAttempt)
}
