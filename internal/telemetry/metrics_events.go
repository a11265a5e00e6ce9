package telemetry

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/makegood/makegood/ledger"
)

// ledgerEvents counts what the ledger of this process did.
type ledgerEvents struct {
	opens, starts, completions, failures, refunds, credits, yields, fenced, putBacks, sights, sweeps, refusals *prometheus.CounterVec

	commands *prometheus.HistogramVec // seconds
	batch    prometheus.Histogram     // commands
	commit   prometheus.Histogram     // seconds
	commits  *prometheus.CounterVec
	halved   prometheus.Counter
}

func newLedgerEvents() ledgerEvents {
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}
	}
	e := ledgerEvents{
		opens: zero(counters("opens_total", "Jobs that were asked for, by the answer.", "outcome"),
			"opened", "replayed", "insufficient_credits", "refused", "unavailable", "abandoned"),
		starts: zero(counters("starts_total", "Deliveries from the queue, by what the ledger told the worker to do.", "verdict"),
			string(ledger.VerdictRun), string(ledger.VerdictAsk), string(ledger.VerdictDrop)),
		completions: zero(counters("completions_total", "Jobs delivered, in whole or in part.", "reason"),
			string(ledger.EndDelivered), string(ledger.EndPartial)),
		failures: zero(counters("failures_total", "Jobs that ended as failed, by reason.", "reason"), string(ledger.EndVendor),
			string(ledger.EndExhausted), string(ledger.EndCancelled), string(ledger.EndMaxWait)),
		refunds: counters("refunds_total", "Jobs not delivered whose credits were given back, by entry and reason.", "kind", "reason"),
		credits: counters("credits_refunded_total", "Credits given back for jobs not delivered, by entry and reason.", "kind", "reason"),
		yields: zero(counters("yields_total", "Jobs that went back to wait, by the vendor's word.", "word"),
			"none", string(ledger.WordWorking), string(ledger.WordFailed), string(ledger.WordCancelled), givenBack),
		fenced: zero(counters("fenced_attempts_total", "Commands of attempts that were no longer their job's.", "command"),
			"complete", "fail", "yield", "claim"),
		putBacks: zero(counters("put_backs_total", "Running jobs taken from a dead worker or past their deadline, by how it came out.", "outcome"),
			"put_back", "left"),
		sights: zero(counters("sights_total", "What the relay learned of queued jobs at the queue.", "sign"), string(ledger.SignEnqueued),
			string(ledger.SignSeen), string(ledger.SignRefused), string(ledger.SignLost)),
		sweeps: counters("sweep_decisions_total", "Decisions of sweeps of this process on jobs under lock.", "action", "reason"),
		refusals: zero(counters("refusals_total", "Commands that the ledger refused, by code.", "code"), abandoned, string(ledger.CodeInvalid),
			string(ledger.CodeInsufficient), string(ledger.CodeNotFound), string(ledger.CodeSettled), string(ledger.CodeConflict),
			string(ledger.CodeFenced), string(ledger.CodeKeyReused), string(ledger.CodeUnavailable), string(ledger.CodeInternal),
			string(ledger.CodeAccountClosed)),
		commands: prometheus.NewHistogramVec(histogram("command_duration_seconds", "Time from a command to its answer, by command.",
			prometheus.ExponentialBuckets(0.001, 2.5, 11)), []string{"command"}),
		batch:  prometheus.NewHistogram(histogram("batch_commands", "Commands that shared a commit.", prometheus.ExponentialBuckets(1, 2, 9))),
		commit: prometheus.NewHistogram(histogram("commit_duration_seconds", "Time of a transaction, from its begin to its commit or failure.", prometheus.ExponentialBuckets(0.0005, 2.5, 11))),
		commits: zero(counters("commits_total", "Transactions, by what is known of them.", "result"), committed, panicked,
			string(ledger.FateContended), string(ledger.FateUnknown), string(ledger.FateUnreached), string(ledger.FateRejected)),
		halved: counter("batches_halved_total", "Batches that failed because of one of their commands and were run in halves."),
	}
	for reason, kind := range map[ledger.EndReason]ledger.Kind{ledger.EndVendor: ledger.KindRefund, ledger.EndExhausted: ledger.KindRefund,
		ledger.EndCancelled: ledger.KindRefund, ledger.EndMaxWait: ledger.KindRefund, ledger.EndOrphaned: ledger.KindReconcilerRefund,
		ledger.EndUnknown: ledger.KindReconcilerRefund} {
		e.refunds.WithLabelValues(string(kind), string(reason))
		e.credits.WithLabelValues(string(kind), string(reason))
		action := ledger.SweepFail
		if kind == ledger.KindReconcilerRefund {
			action = ledger.SweepRefund
		}
		if reason != ledger.EndVendor { // a vendor's word reaches no sweep
			e.sweeps.WithLabelValues(string(action), string(reason))
		}
	}
	return e
}

// Words of labels that are no word of the ledger's.
const (
	abandoned = "abandoned"  // the caller had gone before its command was run
	givenBack = "given_back" // a worker that stops
	committed = "committed"
	panicked  = "panicked"
)

func (e ledgerEvents) collectors() []prometheus.Collector {
	return []prometheus.Collector{e.opens, e.starts, e.completions, e.failures, e.refunds, e.credits, e.yields, e.fenced, e.putBacks, e.sights,
		e.sweeps, e.refusals, e.commands, e.batch, e.commit, e.commits, e.halved}
}

func (e ledgerEvents) observer() ledger.Observer {
	return ledger.Observer{
		Batch:  func(size int) { e.batch.Observe(float64(size)) },
		Commit: e.committed,
		Halve:  func(int) { e.halved.Inc() },
		Ended:  e.ended,
		Answer: e.answered,
	}
}

func (e ledgerEvents) committed(c ledger.Commit) {
	e.commit.Observe(c.Took.Seconds())
	result := string(c.Fate)
	switch {
	case c.Err == nil:
		result = committed
	case result == "":
		result = panicked
	}
	e.commits.WithLabelValues(result).Inc()
}

func (e ledgerEvents) ended(j ledger.Job) {
	end, kind := j.End, ledger.KindRefund
	switch end.State {
	case ledger.StateCompleted:
		e.completions.WithLabelValues(string(end.Reason)).Inc()
		return
	case ledger.StateRefunded:
		kind = ledger.KindReconcilerRefund
	default:
		e.failures.WithLabelValues(string(end.Reason)).Inc()
	}
	if back := end.Held - end.Charged; back > 0 || end.State == ledger.StateRefunded {
		e.refunds.WithLabelValues(string(kind), string(end.Reason)).Inc()
		e.credits.WithLabelValues(string(kind), string(end.Reason)).Add(float64(back))
	}
}

func (e ledgerEvents) answered(a ledger.Answer) {
	name := commandName(a.Command)
	if a.Took > 0 {
		e.commands.WithLabelValues(name).Observe(a.Took.Seconds())
	}
	code := codeOf(a.Err)
	if code != "" {
		e.refusals.WithLabelValues(code).Inc()
	}
	if code == string(ledger.CodeFenced) {
		e.fenced.WithLabelValues(name).Inc()
	}
	switch c := a.Command.(type) {
	case *ledger.OpenJob:
		e.opens.WithLabelValues(openOutcome(a, code)).Inc()
	case *ledger.YieldJob:
		if done, ok := a.Value.(ledger.Failed); ok && !done.Replayed && done.Job.Open != nil {
			e.yields.WithLabelValues(wordOf(c)).Inc()
		}
	case *ledger.SightJob:
		if done, ok := a.Value.(ledger.Sighted); ok && done.Changed {
			e.sights.WithLabelValues(string(c.Sign)).Inc()
		}
	}
	switch v := a.Value.(type) {
	case ledger.Started:
		e.starts.WithLabelValues(string(v.Verdict)).Inc()
	case ledger.PutBack:
		outcome := "left" // it moved on since the watcher looked
		if v.Changed {
			outcome = "put_back"
		}
		e.putBacks.WithLabelValues(outcome).Inc()
	case ledger.Swept:
		e.sweeps.WithLabelValues(string(v.Decision.Action), string(v.Decision.Reason)).Inc()
	}
}

func openOutcome(a ledger.Answer, code string) string {
	opened, ok := a.Value.(ledger.Opened)
	switch {
	case ok && opened.Replayed:
		return "replayed"
	case ok:
		return "opened"
	case code == string(ledger.CodeInsufficient), code == abandoned:
		return code
	case code == string(ledger.CodeUnavailable):
		return "unavailable"
	}
	return "refused"
}

func wordOf(c *ledger.YieldJob) string {
	switch {
	case c.GiveBack:
		return givenBack
	case c.Word == ledger.WordNone:
		return "none"
	}
	return string(c.Word)
}

// codeOf names an error of an answer; "" for none.
func codeOf(err error) string {
	if refusal, ok := errors.AsType[*ledger.Error](err); ok {
		return string(refusal.Code)
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return abandoned
	}
	return string(ledger.CodeInternal)
}

func commandName(c ledger.Command) string {
	switch c.(type) {
	case *ledger.OpenJob:
		return "open"
	case *ledger.StartJob:
		return "start"
	case *ledger.CompleteJob:
		return "complete"
	case *ledger.FailJob:
		return "fail"
	case *ledger.YieldJob:
		return "yield"
	case *ledger.CancelJob:
		return "cancel"
	case *ledger.ClaimCall:
		return "claim"
	case *ledger.HearCall:
		return "hear"
	case *ledger.SightJob:
		return "sight"
	case *ledger.PutBackJob:
		return "put_back"
	case *ledger.SweepJob:
		return "sweep"
	case *ledger.GrantCredits:
		return "grant"
	case *ledger.AdjustCredits:
		return "adjust"
	case *ledger.CreateAccount:
		return "create_account"
	}
	return "other"
}
