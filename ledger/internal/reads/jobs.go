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
		a, err := db.Account(ctx, ledger.AccountName{Tenant: f.Tenant, Name: f.Account})
		if err != nil {
			return nil, err
		}
		w.add("j.account_id = ?", a.ID)
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

// Calls lists a job's calls to vendors, oldest first.
func (db *DB) Calls(ctx context.Context, jobID string) ([]ledger.Call, error) {
	return list(ctx, db, "list calls", "SELECT "+CallColumns+CallFrom+" WHERE v.job_id = $1 ORDER BY v.n", []any{jobID}, value(ScanCall))
}

// CallByRef finds a call by the vendor's name for it.
func (db *DB) CallByRef(ctx context.Context, provider, ref string) (ledger.Call, error) {
	return one(ctx, db, "find call", "SELECT "+CallColumns+CallFrom+" WHERE v.provider = $1 AND v.ref = $2 ORDER BY v.claimed_at LIMIT 1",
		[]any{provider, ref}, value(ScanCall), ledger.NotFound("call", ref))
}

// VendorEvents lists what a vendor called back with about a reference, oldest first: the newest
// few hundred, among which its verdict is.
func (db *DB) VendorEvents(ctx context.Context, provider, ref string) ([]ledger.VendorEvent, error) {
	return list(ctx, db, "list vendor events", `SELECT provider, id, ref, news, received_at FROM (
		SELECT * FROM vendor_events WHERE provider = $1 AND ref = $2 ORDER BY received_at DESC, id DESC LIMIT 200) newest ORDER BY received_at, id`, []any{provider, ref}, func(r Row) (e ledger.VendorEvent, err error) {
		var news string
		err = r.Scan(&e.Provider, &e.ID, &e.Ref, &news, Moment{&e.ReceivedAt})
		e.News = []byte(news)
		return e, err
	})
}
