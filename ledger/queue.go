package ledger

import "time"

// Sign is what the relay learned of a queued job at the queue.
type Sign string

// Signs.
const (
	SignEnqueued Sign = "enqueued" // the queue accepted the current epoch: healed, or first
	SignSeen     Sign = "seen"     // the queue has it
	SignRefused  Sign = "refused"  // the queue was reached and refused it
	SignLost     Sign = "lost"     // the queue cannot deliver this epoch any more: the next one
)

// SightJob records a sign of a queued job and says when the relay looks next. A job that
// moved on since (another epoch, started, ended) is left as it is.
type SightJob struct {
	JobID string
	Epoch int
	Sign  Sign
	// Next is when to look again, counted from now; 0 means at once.
	Next time.Duration
}

// Sighted answers SightJob.
type Sighted struct {
	Job     Job
	Changed bool
}

func (c *SightJob) check() error {
	switch c.Sign {
	case SignEnqueued, SignSeen, SignRefused, SignLost:
		return checkID("job_id", c.JobID)
	}
	return invalid("sign", "%s is unknown", quoteShort(string(c.Sign)))
}
func (c *SightJob) names(n *Names)     { jobCommand{c.JobID}.names(n) }
func (c *SightJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *SightJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	o := j.Open
	if o == nil || o.State != StateQueued || o.Epoch != c.Epoch {
		return Sighted{Job: j.clone()}, nil
	}
	switch c.Sign {
	case SignEnqueued:
		o.EnqueuedAt = b.now
	case SignSeen:
		o.SeenAt = b.now
	case SignRefused:
		o.RefusedAt = b.now
	case SignLost:
		o.Epoch++
	}
	o.CheckAt = b.now.Add(c.Next)
	b.touch(j)
	return Sighted{Job: j.clone(), Changed: true}, nil
}

// PutBackJob returns a running job to the queue because its worker is dead or its attempt is
// past its deadline. It decides again under lock: a job that moved on since is left as it is,
// and so is one without an attempt left, which is the sweep's, unless a vendor has it: then
// somebody must go on asking.
type PutBackJob struct {
	JobID string
	Token string // of the attempt that was seen
	// Renewed is the worker's newest renewal as the watcher saw it; a newer one saves the
	// worker. Zero when the worker had no row.
	Renewed time.Time
	// Grace after the deadline before a live worker's attempt is taken away.
	Grace time.Duration
}

// PutBack answers PutBackJob.
type PutBack struct {
	Job     Job
	Changed bool
}

func (c *PutBackJob) check() error {
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token))
}
func (c *PutBackJob) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *PutBackJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *PutBackJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	o := j.Open
	if o == nil || o.State != StateRunning || o.Token != c.Token || (o.Attempts >= j.MaxAttempts && j.Call == nil) {
		return PutBack{Job: j.clone()}, nil
	}
	dead := !o.WorkerAlive(b.now) && !o.WorkerRenewedAt.After(c.Renewed)
	late := b.now.After(o.Deadline.Add(c.Grace))
	switch {
	case dead:
		b.closeAttempt(j, AttemptLost, nil, time.Time{})
	case late:
		b.closeAttempt(j, AttemptTimedOut, nil, time.Time{})
	default:
		return PutBack{Job: j.clone()}, nil
	}
	b.requeue(j, time.Time{})
	return PutBack{Job: j.clone(), Changed: true}, nil
}

// SweepAction is what a sweep does with an open job.
type SweepAction string

// Actions of a sweep.
const (
	SweepRefund SweepAction = "refund" // reconciler_refund with evidence
	SweepFail   SweepAction = "fail"   // task_failed and refund
	SweepWait   SweepAction = "wait"   // leave
)

// SweepDecision is what the reconciler's policy says of one job.
type SweepDecision struct {
	Action   SweepAction
	Reason   EndReason // of a refund or fail; of a wait, why
	Evidence []byte    // JSON of codes and numbers; nil for none
}

// SweepJob ends an open job when the policy says so, deciding on the job as it is under
// lock. It is the reconciler's only way to move credits.
type SweepJob struct {
	JobID string
	// Policy is a pure function of the job and the time of decision.
	Policy func(job Job, now time.Time) SweepDecision
}

// Swept answers SweepJob.
type Swept struct {
	Job      Job
	Decision SweepDecision
}

// SweepEnded is the reason of a wait for a job that ended before the sweep got to it.
const SweepEnded EndReason = "ended"

func (c *SweepJob) check() error {
	if c.Policy == nil {
		return invalid("policy", "is missing")
	}
	return checkID("job_id", c.JobID)
}
func (c *SweepJob) names(n *Names)     { jobCommand{c.JobID}.names(n) }
func (c *SweepJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *SweepJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	if j.End != nil {
		return Swept{Job: j.clone(), Decision: SweepDecision{Action: SweepWait, Reason: SweepEnded}}, nil
	}
	d := c.Policy(j.clone(), b.now)
	switch d.Action {
	case SweepRefund:
		b.end(j, ending{state: StateRefunded, reason: d.Reason, actor: ActorReconciler, evidence: d.Evidence})
	case SweepFail:
		b.end(j, ending{state: StateFailed, reason: d.Reason, actor: ActorReconciler, evidence: d.Evidence})
	}
	return Swept{Job: j.clone(), Decision: d}, nil
}
