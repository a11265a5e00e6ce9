package reconciler

import (
	"encoding/json"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Policy says what a sweep does with an open job. It is a pure function of the job, the time
// of decision and what the relays know of the queue.
type Policy struct {
	// OrphanThreshold is the silence after which a job counts as an orphan.
	OrphanThreshold time.Duration
	// MaxQueueOutage is the same while the queue cannot be reached.
	MaxQueueOutage time.Duration
	// AttemptGrace is how long a live worker may exceed its attempt's deadline.
	AttemptGrace time.Duration
	// MaxUnknown is how long a vendor's verdict on a call is waited for, counted from when the
	// call's number was first stored.
	MaxUnknown time.Duration
	// MaxStarts ends a job that keeps killing its workers.
	MaxStarts int
	// Queue is what the relays know of the queue.
	Queue QueueHealth
}

// Reasons to leave a job as it is.
const (
	WaitWatcher  ledger.EndReason = "watcher"   // the watcher puts it back into the queue
	WaitVendor   ledger.EndReason = "vendor"    // a vendor has it, or may have it: only its word, a cancel or MaxUnknown ends it
	WaitRunAfter ledger.EndReason = "run_after" // it asked to be run later
	WaitRunning  ledger.EndReason = "running"   // a worker has it, or had it a moment ago
	WaitUnproven ledger.EndReason = "unproven"  // silent, but nothing proves that the queue lost it
	WaitRecent   ledger.EndReason = "recent"    // heard of within the threshold
)

// rule is one row of the policy.
type rule struct {
	name   string
	when   func(v view) bool
	action ledger.SweepAction
	reason ledger.EndReason
}

// rules is the table of docs/sweep.md; the first match from the top counts. Signs of life
// defer only the orphan rows, never a deadline.
var rules = []rule{
	{"a vendor has it, or may have it, for longer than anybody waits",
		func(v view) bool { return v.atVendor() && v.unknownTooLong() },
		ledger.SweepRefund, ledger.EndUnknown},
	{"a vendor has it, or may have it; its worker is dead or late",
		func(v view) bool { return v.atVendor() && v.running() && (!v.workerAlive() || v.pastDeadline(0)) },
		ledger.SweepWait, WaitWatcher},
	{"a vendor has it, or may have it",
		func(v view) bool { return v.atVendor() },
		ledger.SweepWait, WaitVendor},
	{"cancel requested, nothing submitted, nobody running it",
		func(v view) bool { return v.cancelRequested() && !v.workerAlive() },
		ledger.SweepFail, ledger.EndCancelled},
	{"queued, past max_wait",
		func(v view) bool { return v.queued() && v.waitedTooLong() },
		ledger.SweepFail, ledger.EndMaxWait},
	{"queued, attempts or starts used up",
		func(v view) bool { return v.queued() && (v.attemptsUsedUp() || v.startsUsedUp()) },
		ledger.SweepFail, ledger.EndExhausted},
	{"orphan: running, worker dead, attempts used up, last renewal older than the threshold",
		func(v view) bool {
			return v.running() && !v.workerAlive() && v.attemptsUsedUp() && v.silentFor(v.OrphanThreshold)
		},
		ledger.SweepRefund, ledger.EndOrphaned},
	{"running, worker dead or attempt past its deadline, attempts left",
		func(v view) bool {
			return v.running() && (!v.workerAlive() || v.pastDeadline(0)) && !v.attemptsUsedUp()
		},
		ledger.SweepWait, WaitWatcher},
	{"running, worker live, attempt past its deadline and grace, attempts used up",
		func(v view) bool {
			return v.running() && v.workerAlive() && v.pastDeadline(v.AttemptGrace) && v.attemptsUsedUp()
		},
		ledger.SweepFail, ledger.EndExhausted},
	{"waiting for run_after",
		func(v view) bool { return v.queued() && v.runsLater() },
		ledger.SweepWait, WaitRunAfter},
	{"orphan: queued, newest sign of life older than the threshold, the queue refused it",
		func(v view) bool { return v.queued() && v.silentFor(v.OrphanThreshold) && v.refusedByQueue() },
		ledger.SweepRefund, ledger.EndOrphaned},
	{"orphan: queued, newest sign of life older than the longest outage, the queue out of reach as long",
		func(v view) bool {
			return v.queued() && v.silentFor(v.MaxQueueOutage) && v.queueOutFor(v.MaxQueueOutage)
		},
		ledger.SweepRefund, ledger.EndOrphaned},
	// Anything else is left. The rows below only tell why.
	{"anything else: running",
		func(v view) bool { return v.running() },
		ledger.SweepWait, WaitRunning},
	{"anything else: silent, nothing proven",
		func(v view) bool { return v.silentFor(v.OrphanThreshold) },
		ledger.SweepWait, WaitUnproven},
	{"anything else",
		func(view) bool { return true },
		ledger.SweepWait, WaitRecent},
}

// Decide says what to do with an open job at now. It has the form of
// [ledger.SweepJob].Policy.
func (p Policy) Decide(job ledger.Job, now time.Time) ledger.SweepDecision {
	if job.Open == nil {
		return ledger.SweepDecision{Action: ledger.SweepWait, Reason: ledger.SweepEnded}
	}
	v := view{Policy: p, job: job, open: job.Open, now: now}
	r := match(v)
	return ledger.SweepDecision{Action: r.action, Reason: r.reason, Evidence: v.evidence()}
}

// match finds the first row that fits; the last row fits everything.
func match(v view) rule {
	for _, r := range rules {
		if r.when(v) {
			return r
		}
	}
	return rules[len(rules)-1]
}

// view is an open job as the rules see it.
type view struct {
	Policy
	job  ledger.Job
	open *ledger.OpenState
	now  time.Time
}

func (v view) queued() bool          { return v.open.State == ledger.StateQueued }
func (v view) running() bool         { return v.open.State == ledger.StateRunning }
func (v view) workerAlive() bool     { return v.running() && v.open.WorkerAlive(v.now) }
func (v view) cancelRequested() bool { return !v.open.CancelAt.IsZero() }
func (v view) attemptsUsedUp() bool  { return v.open.Attempts >= v.job.MaxAttempts }
func (v view) startsUsedUp() bool    { return v.open.Lost >= v.MaxStarts }
func (v view) atVendor() bool        { return v.job.Call != nil }
func (v view) unknownTooLong() bool  { return v.now.Sub(v.job.Call.ClaimedAt) > v.MaxUnknown }
func (v view) runsLater() bool       { return v.open.RunAfter.After(v.now) }

func (v view) waitedTooLong() bool {
	return !v.job.WaitUntil.IsZero() && v.now.After(v.job.WaitUntil)
}

func (v view) pastDeadline(grace time.Duration) bool { return v.now.After(v.open.Deadline.Add(grace)) }

// silentFor reports whether nothing was heard of the job for longer than d. Silence that the
// job itself asked for does not count: it begins at run_after.
func (v view) silentFor(d time.Duration) bool { return v.now.Sub(v.silentSince()) > d }

func (v view) silentSince() time.Time {
	_, since := v.sign()
	if v.queued() && v.open.RunAfter.After(since) {
		return v.open.RunAfter
	}
	return since
}

// refusedByQueue reports whether a relay that is at work now reached the queue, offered it
// the job, and was refused, after everything else that was heard of the job.
func (v view) refusedByQueue() bool {
	at := v.open.RefusedAt
	return v.Queue.Reached() && !at.Before(v.Queue.ReachedFrom) && at.After(v.silentSince())
}

// queueOutFor reports whether no relay at work has reached the queue for at least d.
func (v view) queueOutFor(d time.Duration) bool {
	return v.Queue.Out() && v.now.Sub(v.Queue.OutSince) >= d
}

// Signs of life, as evidence names them.
const (
	signDeduct   = "deduct"   // opened
	signRequeued = "requeued" // yielded, given back or put back
	signEnqueue  = "enqueue"  // the queue accepted it
	signSighting = "sighting" // the queue was seen to have it
	signStart    = "start"    // a worker took it
	signLease    = "lease"    // that worker's newest renewal
	signVendor   = "vendor"   // the vendor's newest answer
)

// sign is the newest sign of life.
func (v view) sign() (name string, at time.Time) {
	name, at = v.ownSign()
	if call := v.job.Call; call != nil && call.HeardAt.After(at) {
		return signVendor, call.HeardAt
	}
	return name, at
}

// ownSign is the newest sign that did not come from a vendor.
func (v view) ownSign() (name string, at time.Time) {
	o := v.open
	if v.running() {
		if o.WorkerRenewedAt.After(o.StartedAt) {
			return signLease, o.WorkerRenewedAt
		}
		return signStart, o.StartedAt
	}
	name, at = signDeduct, o.QueuedAt
	if o.Starts > 0 {
		name = signRequeued
	}
	if o.EnqueuedAt.After(at) {
		name, at = signEnqueue, o.EnqueuedAt
	}
	if o.SeenAt.After(at) {
		name, at = signSighting, o.SeenAt
	}
	return name, at
}

// evidence is what was known when a job was decided on: codes and numbers only.
type evidence struct {
	LastSignOfLife string `json:"last_sign_of_life"`
	Sign           string `json:"sign"`
	Threshold      string `json:"threshold"`
	Attempt        int    `json:"attempt"`
	Epoch          int    `json:"epoch"`
	Queue          string `json:"queue"`
	Vendor         string `json:"vendor"`
}

func (v view) evidence() []byte {
	name, at := v.sign()
	threshold := v.OrphanThreshold
	queue := v.Queue.word()
	switch {
	case v.queued() && v.refusedByQueue():
		queue = queueRefused
	case v.queued() && v.Queue.Out():
		threshold = v.MaxQueueOutage
	}
	if v.atVendor() {
		threshold = v.MaxUnknown
	}
	raw, err := json.Marshal(evidence{
		LastSignOfLife: timeText(at), Sign: name, Threshold: durationText(threshold),
		Attempt: v.open.Attempts, Epoch: v.open.Epoch, Queue: queue, Vendor: v.vendorWord(),
	})
	if err != nil { // strings and numbers always marshal
		panic(err)
	}
	return raw
}

// vendorWord is what evidence says of the vendor: no_reference (nothing was submitted),
// unknown (it may have the job), reference (it has it).
func (v view) vendorWord() string {
	switch call := v.job.Call; {
	case call == nil:
		return "no_reference"
	case call.Status == ledger.CallAccepted:
		return "reference"
	}
	return "unknown"
}
