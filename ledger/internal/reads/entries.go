package reads

import (
	"context"

	"github.com/makegood/makegood/ledger"
)

// Entries lists entries by (created_at, id), newest first.
func (db *DB) Entries(ctx context.Context, f ledger.EntryFilter, page ledger.Page) ([]ledger.Entry, error) {
	a, err := db.Account(ctx, f.Account)
	if err != nil {
		return nil, err
	}
	w := where{dialect: db.dialect}
	w.add("t.account_id = ?", a.ID)
	if !f.From.IsZero() {
		w.add("t.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.add("t.created_at < ?", f.To)
	}
	if f.JobID != "" {
		w.add("(t.job_id = ? OR t.about_job = ?)", f.JobID, f.JobID)
	}
	if page.AfterID != "" {
		w.add("(t.created_at, t.id) < (?, ?)", page.AfterAt, page.AfterID)
	}
	return db.entries(ctx, w.page("t.created_at DESC, t.id DESC", page.Limit), w.args)
}

// JobEntries lists what belongs to one job, oldest first.
func (db *DB) JobEntries(ctx context.Context, jobID string) ([]ledger.Entry, error) {
	return db.entries(ctx, " WHERE t.job_id = $1 OR t.about_job = $1 ORDER BY t.created_at, t.id", []any{jobID})
}

func (db *DB) entries(ctx context.Context, clause string, args []any) ([]ledger.Entry, error) {
	return list(ctx, db, "list entries", "SELECT "+EntryColumns+EntryFrom+clause, args, ScanEntry)
}

// Credited sums the adjustments about a job.
func (db *DB) Credited(ctx context.Context, jobID string) (int64, error) {
	return one(ctx, db, "sum adjustments", `SELECT CAST(coalesce(sum(delta), 0) AS bigint) FROM credit_transactions
		WHERE about_job = $1 AND kind = 'adjust'`, []any{jobID}, scalar[int64], nil)
}
