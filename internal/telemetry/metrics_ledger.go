package telemetry

import (
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/makegood/makegood/ledger"
)

// WatchLedger tells how much work a ledger has, and what its database says of the open jobs.
// Call it once.
func (m *Metrics) WatchLedger(l *ledger.Ledger) {
	m.registry.MustRegister(ledgerLoad{l}, ledgerGauges{newSource(m, "ledger", l.Gauges)})
}

// WatchPool tells how busy the connections to PostgreSQL are. Call it once.
func (m *Metrics) WatchPool(stat func() *pgxpool.Stat) { m.registry.MustRegister(poolStats{stat}) }

// ledgerLoad tells what the group commit has to do at the moment.
type ledgerLoad struct{ ledger *ledger.Ledger }

var (
	commandsWaiting = desc("commands_waiting", "Commands that have no place in a batch yet.")
	batchesInFlight = desc("batches_in_flight", "Batches that are being committed.")
)

// Describe implements prometheus.Collector.
func (ledgerLoad) Describe(ch chan<- *prometheus.Desc) {
	ch <- commandsWaiting
	ch <- batchesInFlight
}

// Collect implements prometheus.Collector.
func (c ledgerLoad) Collect(ch chan<- prometheus.Metric) {
	load := c.ledger.Load()
	ch <- gauge(commandsWaiting, float64(load.Waiting))
	ch <- gauge(batchesInFlight, float64(load.Batches))
}

// ledgerGauges tells what the database says. All programs on one database say the same.
type ledgerGauges struct{ source *source[ledger.Gauges] }

var (
	ledgerUp      = desc("ledger_up", "1 while the database answers a scrape, else 0.")
	openJobs      = desc("open_jobs", "Jobs that have not ended, by state.", "state")
	creditsHeld   = desc("held_credits", "Credits that the open jobs have taken.")
	jobsAtVendor  = desc("jobs_at_vendor", "Open jobs that wait for a vendor's verdict.")
	vendorUnknown = desc("jobs_vendor_unknown", "Open jobs of which nobody knows whether their vendor has them.")
	oldestOpen    = desc("oldest_open_job_seconds", "Age of the oldest open job; 0 when there is none.")
	relayLag      = desc("relay_lag_seconds", "How long the longest due job has waited for the relay; 0 when none is due.")
	leases        = desc("workers", "Workers by their lease; dead ones are kept for an hour.", "lease")
	sweepAge      = desc("sweep_age_seconds", "Time since the newest sweep ended; left out before the first.")
	sweepDuration = desc("sweep_duration_seconds", "How long the newest sweep took.")
	sweepJobs     = desc("sweep_jobs", "Open jobs that the newest sweep saw, by what it did.", "result")
)

// Describe implements prometheus.Collector.
func (ledgerGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ledgerUp, openJobs, creditsHeld, jobsAtVendor, vendorUnknown, oldestOpen, relayLag, leases,
		sweepAge, sweepDuration, sweepJobs} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c ledgerGauges) Collect(ch chan<- prometheus.Metric) {
	g, err := c.source.get()
	ch <- gauge(ledgerUp, truth(err == nil))
	if err != nil {
		return
	}
	since := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return max(g.At.Sub(t), 0).Seconds()
	}
	ch <- gauge(openJobs, float64(g.Queued), string(ledger.StateQueued))
	ch <- gauge(openJobs, float64(g.Running), string(ledger.StateRunning))
	ch <- gauge(creditsHeld, float64(g.Held))
	ch <- gauge(jobsAtVendor, float64(g.AtVendor))
	ch <- gauge(vendorUnknown, float64(g.VendorUnknown))
	ch <- gauge(oldestOpen, since(g.OldestOpen))
	ch <- gauge(relayLag, since(g.OldestDue))
	ch <- gauge(leases, float64(g.WorkersAlive), "alive")
	ch <- gauge(leases, float64(g.WorkersDead), "dead")
	if s := g.LastSweep; s.ID != "" {
		ch <- gauge(sweepAge, since(s.EndedAt))
		ch <- gauge(sweepDuration, s.EndedAt.Sub(s.StartedAt).Seconds())
		ch <- gauge(sweepJobs, float64(s.Refunded), "ended")
		ch <- gauge(sweepJobs, float64(s.Remaining-s.Errors), "left")
		ch <- gauge(sweepJobs, float64(s.Errors), "error")
	}
}

// poolStats tells how busy the connections to PostgreSQL are.
type poolStats struct{ stat func() *pgxpool.Stat }

var (
	connections    = desc("postgres_connections", "Connections of this process to PostgreSQL, by state.", "state")
	maxConnections = desc("postgres_connections_max", "Connections to PostgreSQL that this process may open.")
	acquires       = desc("postgres_acquires_total", "Connections taken from the pool.")
	acquireWait    = desc("postgres_acquire_wait_seconds_total", "Time spent waiting because no connection was free.")
)

// Describe implements prometheus.Collector.
func (poolStats) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connections, maxConnections, acquires, acquireWait} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c poolStats) Collect(ch chan<- prometheus.Metric) {
	s := c.stat()
	ch <- gauge(connections, float64(s.AcquiredConns()), "acquired")
	ch <- gauge(connections, float64(s.IdleConns()), "idle")
	ch <- gauge(connections, float64(s.ConstructingConns()), "opening")
	ch <- gauge(maxConnections, float64(s.MaxConns()))
	ch <- count(acquires, float64(s.AcquireCount()))
	ch <- count(acquireWait, s.EmptyAcquireWaitTime().Seconds())
}
