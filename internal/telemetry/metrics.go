package telemetry

import (
	"log/slog"
	"net/http"
	"path"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/makegood/makegood/ledger"
)

// Metrics is what one program tells Prometheus. docs/metrics.md lists every name and when to
// raise an alarm.
//
// Counters begin at 0 with the process. What is read from a database or from Redis is read when
// Prometheus asks, at most once in a few seconds and only for so long: while one of them is
// away its gauges are left out, makegood_scrape_errors_total counts, and everything else is
// told all the same. No label holds a name that a tenant chose.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	ledger   ledgerEvents
	errors   *prometheus.CounterVec // by source
	late     *lateSuccesses
}

// NewMetrics makes a registry of its own.
func NewMetrics(log *slog.Logger) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), log: log, ledger: newLedgerEvents(), late: newLateSuccesses(),
		errors: counters("scrape_errors_total", "Reads for a scrape that failed or took too long, by what was asked.", "source")}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(), m.errors, m.late)
	m.registry.MustRegister(m.ledger.collectors()...)
	return m
}

// Observer counts what a ledger does; see ledger.Options.
func (m *Metrics) Observer() ledger.Observer { return m.ledger.observer() }

// Handler answers a scrape. It is 200 whatever is away.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(m.log.Handler(), slog.LevelWarn)})
}

// Gatherer is for those who read the metrics in the same process.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }

const namespace = "makegood"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help})
}

// counters makes a counter by one label or more. Values of the first label that are known
// beforehand are told as 0 from the start, so that their first event is a rise.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
}

// zero begins a counter at 0 for each value of its only label.
func zero(vec *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, v := range values {
		vec.WithLabelValues(v)
	}
	return vec
}

// desc describes a metric that is made when it is asked for.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(namespace+"_"+name, help, labels, nil)
}

func gauge(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func count(d *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// buildInfo says which program this is, in which version.
func buildInfo() prometheus.Collector {
	version, program := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version, program = info.Main.Version, path.Base(info.Path)
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help:        "1, with the program, its version and Go's as labels.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "goversion": runtime.Version()}})
	g.Set(1)
	return g
}
