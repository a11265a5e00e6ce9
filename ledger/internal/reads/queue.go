package reads

import (
	"context"
	"time"

	"github.com/makegood/makegood/ledger"
)

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

// Running lists running jobs of all tenants by id.
func (db *DB) Running(ctx context.Context, afterID string, most int) ([]ledger.Job, error) {
	return db.jobs(ctx, "list running jobs", " WHERE o.state = 'running' AND o.job_id > $1 ORDER BY o.job_id LIMIT $2", []any{afterID, most})
}

// Relays lists what each relay last reported.
func (db *DB) Relays(ctx context.Context) ([]ledger.RelayStatus, error) {
	return list(ctx, db, "list relays", "SELECT id, started_at, round_at, outage_since FROM relays ORDER BY id", nil,
		func(r Row) (s ledger.RelayStatus, err error) {
			err = r.Scan(&s.ID, Moment{&s.StartedAt}, Moment{&s.RoundAt}, Moment{&s.OutageSince})
			return s, err
		})
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

// SaveSweep keeps a sweep's report; the same one again changes nothing.
func (db *DB) SaveSweep(ctx context.Context, s ledger.SweepReport) error {
	return db.exec(ctx, "save sweep", `INSERT INTO sweeps (id, started_at, ended_at, seen, refunded, remaining, errors, decisions)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (id) DO NOTHING`, s.ID, db.dialect.Time(s.StartedAt), db.dialect.Time(s.EndedAt),
		s.Seen, s.Refunded, s.Remaining, s.Errors, string(s.Decisions))
}

// SaveVendorEvent keeps a callback; the same one again changes nothing.
func (db *DB) SaveVendorEvent(ctx context.Context, e ledger.VendorEvent) error {
	now, err := db.Now(ctx)
	if err != nil {
		return err
	}
	return db.exec(ctx, "save vendor event", `INSERT INTO vendor_events (provider, id, ref, news, received_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (provider, id) DO NOTHING`, e.Provider, e.ID, e.Ref, string(e.News), db.dialect.Time(now))
}

// ForgetVendorEvents drops the callbacks received before.
func (db *DB) ForgetVendorEvents(ctx context.Context, before time.Time) error {
	return db.exec(ctx, "forget vendor events", "DELETE FROM vendor_events WHERE received_at < $1", db.dialect.Time(before))
}

// ForgetSweeps drops reports that decided nothing, the oldest first. The bound keeps the lock
// short after a long pause; an index holds just these rows.
func (db *DB) ForgetSweeps(ctx context.Context, before time.Time, most int) error {
	return db.exec(ctx, "forget sweeps", `DELETE FROM sweeps WHERE id IN (SELECT id FROM sweeps
		WHERE refunded = 0 AND errors = 0 AND started_at < $1 ORDER BY started_at LIMIT $2)`, db.dialect.Time(before), most)
}
