package reads

import (
	"context"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Workers lists all leases.
func (db *DB) Workers(ctx context.Context) ([]ledger.WorkerLease, error) {
	return list(ctx, db, "list workers", "SELECT id, host, pid, renewed_at, alive_until FROM workers ORDER BY id", nil,
		func(r Row) (w ledger.WorkerLease, err error) {
			err = r.Scan(&w.ID, &w.Host, &w.PID, Moment{&w.RenewedAt}, Moment{&w.AliveUntil})
			return w, err
		})
}

// RenewWorker renews a lease and lists the worker's jobs that somebody asked to cancel.
func (db *DB) RenewWorker(ctx context.Context, w ledger.WorkerLease, ttl time.Duration) (cancelled []string, err error) {
	now, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	if err := db.exec(ctx, "renew lease", `INSERT INTO workers (id, host, pid, renewed_at, alive_until) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, renewed_at = excluded.renewed_at, alive_until = excluded.alive_until`,
		w.ID, w.Host, w.PID, db.dialect.Time(now), db.dialect.Time(now.Add(ttl))); err != nil {
		return nil, err
	}
	return list(ctx, db, "list cancelled jobs", "SELECT job_id FROM open_jobs WHERE worker = $1 AND cancel_at IS NOT NULL ORDER BY job_id",
		[]any{w.ID}, scalar[string])
}

// RemoveWorker gives a lease back.
func (db *DB) RemoveWorker(ctx context.Context, id string) error {
	return db.exec(ctx, "remove lease", "DELETE FROM workers WHERE id = $1", id)
}

// SaveProgress keeps an attempt's newest report.
func (db *DB) SaveProgress(ctx context.Context, jobID, token string, percent int, text string) error {
	return db.exec(ctx, "save progress", "UPDATE open_jobs SET percent = $3, progress = $4 WHERE job_id = $1 AND token = $2",
		jobID, token, percent, text)
}

func (db *DB) exec(ctx context.Context, what, query string, args ...any) error {
	_, err := db.write.ExecContext(ctx, db.dialect.SQL(query), args...)
	return failed(ctx, what, err)
}
