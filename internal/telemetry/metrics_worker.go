package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/makegood/makegood/tasks"
)

// WatchWorker tells what a worker does with its deliveries. Call it once.
func (m *Metrics) WatchWorker(w *tasks.Worker) {
	m.late.add("worker", func() int64 { return w.Stats().Late })
	m.registry.MustRegister(workerStats{w})
}

// WatchCallbacks counts the successes that vendors called back with too late. Call it once.
func (m *Metrics) WatchCallbacks(c *tasks.Callbacks) { m.late.add("callback", c.Late) }

// workerStats tells a worker's own counts.
type workerStats struct{ worker *tasks.Worker }

var (
	deliveries = desc("deliveries_total", "Deliveries from the queue, by what the worker did with them.", "outcome")
	attempts   = desc("attempts_total", "Attempts that are over, by how they came out for their worker.", "outcome")
)

// Describe implements prometheus.Collector.
func (workerStats) Describe(ch chan<- *prometheus.Desc) {
	ch <- deliveries
	ch <- attempts
}

// Collect implements prometheus.Collector.
func (c workerStats) Collect(ch chan<- prometheus.Metric) {
	s := c.worker.Stats()
	for outcome, n := range map[string]int64{"started": s.Started, "dropped": s.Dropped, "unknown": s.Unknown, "unpaid": s.Unpaid} {
		ch <- count(deliveries, float64(n), outcome)
	}
	for outcome, n := range map[string]int64{"completed": s.Completed, "failed": s.Failed, "late": s.Late, "yielded": s.Yielded} {
		ch <- count(attempts, float64(n), outcome)
	}
}

// lateSuccesses are the results that came when their jobs had ended otherwise: work that a
// vendor is paid for and no customer pays.
type lateSuccesses struct {
	mu      sync.Mutex
	sources map[string]func() int64
}

var late = desc("late_successes_total", "Results that came when their jobs had ended otherwise, by who brought them.", "source")

func newLateSuccesses() *lateSuccesses { return &lateSuccesses{sources: map[string]func() int64{}} }

func (l *lateSuccesses) add(source string, count func() int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sources[source] = count
}

// Describe implements prometheus.Collector.
func (*lateSuccesses) Describe(ch chan<- *prometheus.Desc) { ch <- late }

// Collect implements prometheus.Collector.
func (l *lateSuccesses) Collect(ch chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for source, n := range l.sources {
		ch <- count(late, float64(n()), source)
	}
}
