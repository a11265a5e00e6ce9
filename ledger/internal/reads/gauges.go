package reads

import (
	"context"

	"github.com/makegood/makegood/ledger"
)

// What Gauges asks. Each visits the open jobs once, or less: a call is looked up by its key in
// a scalar subquery, which no planner turns into a join that reads all calls there ever were.
// The oldest open job is the one with the smallest id, which is a ULID and holds the time.
const (
	gaugesOfJobs = `SELECT state, vendor, count(*), CAST(sum(held) AS bigint) FROM (SELECT o.state, o.held, coalesce(
			(SELECT CASE WHEN v.status = 'claimed' AND (o.token IS NULL OR o.token <> v.token) THEN 'unknown' ELSE 'known' END
			   FROM vendor_calls v WHERE v.job_id = o.job_id AND v.n = o.n AND v.status IN ('claimed', 'accepted')), '') AS vendor
		FROM open_jobs o) x GROUP BY state, vendor`
	gaugesOfAges = `SELECT (SELECT j.created_at FROM jobs j WHERE j.job_id = (SELECT o.job_id FROM open_jobs o ORDER BY o.job_id LIMIT 1)),
		(SELECT o.check_at FROM open_jobs o WHERE o.state = 'queued' AND o.check_at <= $1 ORDER BY o.check_at LIMIT 1)`
	gaugesOfLeases = "SELECT count(*), coalesce(sum(CASE WHEN alive_until > $1 THEN 1 ELSE 0 END), 0) FROM workers"
	gaugesOfSweep  = "SELECT id, started_at, ended_at, seen, refunded, remaining, errors FROM sweeps ORDER BY id DESC LIMIT 1"
)

// Gauges measures the open jobs, the leases and the newest sweep.
func (db *DB) Gauges(ctx context.Context) (g ledger.Gauges, err error) {
	if g.At, err = db.Now(ctx); err != nil {
		return g, err
	}
	now := db.dialect.Time(g.At)
	for _, q := range []struct {
		what, query string
		args        []any
		scan        func(Row) error
	}{
		{"count open jobs", gaugesOfJobs, nil, func(r Row) error { return addJobs(&g, r) }},
		{"find the oldest jobs", gaugesOfAges, []any{now}, func(r Row) error { return r.Scan(Moment{&g.OldestOpen}, Moment{&g.OldestDue}) }},
		{"count leases", gaugesOfLeases, []any{now}, func(r Row) error {
			err := r.Scan(&g.WorkersDead, &g.WorkersAlive)
			g.WorkersDead -= g.WorkersAlive
			return err
		}},
		{"find the newest sweep", gaugesOfSweep, nil, func(r Row) error { return scanSweep(&g.LastSweep, r) }},
	} {
		if err := db.rows(ctx, q.what, q.query, q.args, q.scan); err != nil {
			return ledger.Gauges{}, err
		}
	}
	return g, nil
}

// addJobs adds a row of gaugesOfJobs.
func addJobs(g *ledger.Gauges, r Row) error {
	var state, vendor string
	var jobs int
	var held int64
	if err := r.Scan(&state, &vendor, &jobs, &held); err != nil {
		return err
	}
	if ledger.State(state) == ledger.StateRunning {
		g.Running += jobs
	} else {
		g.Queued += jobs
	}
	if vendor != "" {
		g.AtVendor += jobs
	}
	if vendor == "unknown" {
		g.VendorUnknown += jobs
	}
	g.Held += held
	return nil
}

func scanSweep(s *ledger.SweepReport, r Row) error {
	return r.Scan(&s.ID, Moment{&s.StartedAt}, Moment{&s.EndedAt}, &s.Seen, &s.Refunded, &s.Remaining, &s.Errors)
}
