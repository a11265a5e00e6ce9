package reads

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/makegood/makegood/ledger"
)

func itoa(n int) string { return strconv.Itoa(n) }

// Job reads one job of a tenant.
func (db *DB) Job(ctx context.Context, tenant, id string) (ledger.Job, error) {
	j, err := ScanJob(db.read.QueryRowContext(ctx, db.dialect.SQL("SELECT "+JobColumns+JobFrom+
		" WHERE j.job_id = $1 AND j.tenant = $2"), id, tenant))
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Job{}, ledger.NotFound("job", id)
	}
	if err != nil {
		return ledger.Job{}, failed("read job", err)
	}
	return *j, nil
}

func (db *DB) jobs(ctx context.Context, what, clause string, args []any) (list []ledger.Job, err error) {
	err = db.rows(ctx, what, "SELECT "+JobColumns+JobFrom+clause, args, func(r *sql.Rows) error {
		j, err := ScanJob(r)
		if err == nil {
			list = append(list, *j)
		}
		return err
	})
	return list, err
}

// Jobs lists a tenant's jobs, newest first: by id, which is a ULID and holds the time.
func (db *DB) Jobs(ctx context.Context, f ledger.JobFilter, page ledger.Page) ([]ledger.Job, error) {
	w := where{dialect: db.dialect}
	w.add("j.tenant = ?", f.Tenant)
	if f.Account != "" {
		w.add("a.name = ? AND a.tenant = ?", f.Account, f.Tenant)
	}
	if f.Type != "" {
		w.add("j.type = ?", f.Type)
	}
	switch f.State {
	case "":
	case ledger.StateQueued, ledger.StateRunning:
		w.add("o.state = ?", string(f.State))
	default:
		w.add("e.state = ?", string(f.State))
	}
	if !f.Since.IsZero() {
		w.add("j.created_at >= ?", f.Since)
	}
	if page.AfterID != "" {
		w.add("j.job_id < ?", page.AfterID)
	}
	w.args = append(w.args, limit(page.Limit))
	return db.jobs(ctx, "list jobs", w.String()+" ORDER BY j.job_id DESC LIMIT $"+itoa(len(w.args)), w.args)
}

// Due lists queued jobs that the relay should look at, the longest due first.
func (db *DB) Due(ctx context.Context, most int) ([]ledger.Job, error) {
	now, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	return db.jobs(ctx, "list due jobs", " WHERE o.state = 'queued' AND o.check_at <= $1 ORDER BY o.check_at LIMIT $2",
		[]any{db.dialect.Time(now), most})
}

// OpenJobs lists open jobs of all tenants by id.
func (db *DB) OpenJobs(ctx context.Context, afterID string, most int) ([]ledger.Job, error) {
	return db.jobs(ctx, "list open jobs", " WHERE o.job_id > $1 ORDER BY o.job_id LIMIT $2", []any{afterID, most})
}

// Attempts lists a job's attempts that are over, oldest first.
func (db *DB) Attempts(ctx context.Context, jobID string) (list []ledger.Attempt, err error) {
	err = db.rows(ctx, "list attempts", "SELECT "+AttemptColumns+AttemptFrom+" WHERE x.job_id = $1 ORDER BY x.n", []any{jobID},
		func(r *sql.Rows) error {
			a, err := ScanAttempt(r)
			list = append(list, a)
			return err
		})
	return list, err
}

// Workers lists all leases.
func (db *DB) Workers(ctx context.Context) (list []ledger.WorkerLease, err error) {
	err = db.rows(ctx, "list workers", "SELECT id, host, pid, renewed_at, alive_until FROM workers ORDER BY id", nil, func(r *sql.Rows) error {
		var w ledger.WorkerLease
		err := r.Scan(&w.ID, &w.Host, &w.PID, Moment{&w.RenewedAt}, Moment{&w.AliveUntil})
		list = append(list, w)
		return err
	})
	return list, err
}

// Relays lists what each relay last reported.
func (db *DB) Relays(ctx context.Context) (list []ledger.RelayStatus, err error) {
	err = db.rows(ctx, "list relays", "SELECT id, started_at, round_at, outage_since FROM relays ORDER BY id", nil, func(r *sql.Rows) error {
		var s ledger.RelayStatus
		err := r.Scan(&s.ID, Moment{&s.StartedAt}, Moment{&s.RoundAt}, Moment{&s.OutageSince})
		list = append(list, s)
		return err
	})
	return list, err
}

func (db *DB) exec(ctx context.Context, what, query string, args ...any) error {
	_, err := db.write.ExecContext(ctx, db.dialect.SQL(query), args...)
	return failed(what, err)
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
	err = db.rows(ctx, "list cancelled jobs", "SELECT job_id FROM open_jobs WHERE worker = $1 AND cancel_at IS NOT NULL", []any{w.ID},
		func(r *sql.Rows) error {
			var id string
			err := r.Scan(&id)
			cancelled = append(cancelled, id)
			return err
		})
	return cancelled, err
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

// ReportRelay keeps what a relay knows of the queue.
func (db *DB) ReportRelay(ctx context.Context, s ledger.RelayStatus) error {
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	return db.exec(ctx, "report relay", `INSERT INTO relays (id, started_at, round_at, outage_since) VALUES ($1, $2, $2, $3)
		ON CONFLICT (id) DO UPDATE SET round_at = excluded.round_at, outage_since = excluded.outage_since`,
		s.ID, db.dialect.Time(now), db.dialect.Time(s.OutageSince))
}

// RemoveRelay forgets a relay that stopped.
func (db *DB) RemoveRelay(ctx context.Context, id string) error {
	return db.exec(ctx, "remove relay", "DELETE FROM relays WHERE id = $1", id)
}

// SaveSweep keeps a sweep's report.
func (db *DB) SaveSweep(ctx context.Context, s ledger.SweepReport) error {
	return db.exec(ctx, "save sweep", `INSERT INTO sweeps (id, started_at, ended_at, seen, refunded, remaining, errors, decisions)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`, s.ID, db.dialect.Time(s.StartedAt), db.dialect.Time(s.EndedAt),
		s.Seen, s.Refunded, s.Remaining, s.Errors, string(s.Decisions))
}
