package ledger

import "time"

// StartJob gives a job to a worker. Only the answer VerdictRun permits new work; VerdictAsk
// permits questions about a call that has no verdict yet, and its cancellation.
type StartJob struct {
	JobID  string
	Epoch  int    // of the delivery; 0 when it is not known
	Token  string // minted per delivery
	Worker string
	// LeaseTTL renews the worker's lease in the same commit.
	LeaseTTL time.Duration
	// AttemptTimeout sets the attempt's deadline; 0 means DefaultAttemptTimeout.
	AttemptTimeout time.Duration
	// MaxStarts ends a job that keeps killing its workers, after so many starts that never
	// came back; 0 means DefaultMaxStarts.
	MaxStarts int
	// ClaimsLater reports whether jobs of a type are submitted to their vendor by ClaimCall,
	// which then counts the attempt. nil means none: Start itself permits the work.
	ClaimsLater func(jobType string) bool
}

// Defaults of StartJob.
const (
	DefaultAttemptTimeout = 15 * time.Minute
	DefaultMaxStarts      = 20
	DefaultLeaseTTL       = 10 * time.Second
)

// Verdict says what a worker does with a delivery.
type Verdict string

// Verdicts.
const (
	VerdictRun  Verdict = "run"
	VerdictAsk  Verdict = "ask"  // only look after what was submitted to the vendor: no submit without ClaimCall
	VerdictDrop Verdict = "drop" // forget the delivery; no vendor call
)

// Started answers StartJob.
type Started struct {
	Verdict Verdict
	Why     string // of a drop: ended, running, replaced, stale_epoch, exhausted, cancelled
	Job     Job
}

func (c *StartJob) check() error {
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = DefaultAttemptTimeout
	}
	if c.MaxStarts == 0 {
		c.MaxStarts = DefaultMaxStarts
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = DefaultLeaseTTL
	}
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token), checkName("worker", c.Worker))
}

func (c *StartJob) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *StartJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *StartJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	drop := func(why string) (any, error) { return Started{Verdict: VerdictDrop, Why: why, Job: j.clone()}, nil }
	o := j.Open
	switch {
	case o == nil:
		return drop("ended")
	case o.State == StateRunning && o.Token == c.Token:
		return started(j), nil // the same Start again
	case b.pastAttempt(j.ID, c.Token) != nil:
		return drop("replaced")
	case c.Epoch != 0 && c.Epoch != o.Epoch:
		return drop("stale_epoch")
	case o.State == StateRunning && o.WorkerAlive(b.now):
		return drop("running")
	case o.Lost >= c.MaxStarts && j.Call != nil:
		return drop("exhausted") // whatever asks after it dies; the vendor's word or the sweep ends it
	case !o.CancelAt.IsZero() && j.Call == nil:
		if o.State == StateQueued { // else the sweep ends it
			b.fail(j, EndCancelled, ActorWorker, "", nil)
		}
		return drop("cancelled")
	case (o.Attempts >= j.MaxAttempts || o.Lost >= c.MaxStarts) && j.Call == nil:
		if o.State == StateQueued {
			b.fail(j, EndExhausted, ActorWorker, "", &JobError{Code: "attempts_exhausted", Message: "no attempt is left"})
		}
		return drop("exhausted")
	}
	c.start(b, j)
	return started(j), nil
}

// started permits the current attempt.
func started(j *Job) Started {
	verdict := VerdictRun
	if j.Call != nil {
		verdict = VerdictAsk
	}
	return Started{Verdict: verdict, Job: j.clone()}
}

// start makes the delivery the job's current attempt.
func (c *StartJob) start(b *Book, j *Job) {
	o := j.Open
	if o.State == StateRunning {
		b.closeAttempt(j, AttemptLost, nil, time.Time{}) // its worker's lease has lapsed
	}
	if o.FirstStartedAt.IsZero() {
		o.FirstStartedAt = b.now
		b.record(b.accountByID[j.AccountID], Entry{Kind: KindTaskStarted, JobID: j.ID, Reason: j.Type, Actor: ActorWorker})
	}
	o.State, o.Worker, o.Token = StateRunning, c.Worker, c.Token
	o.Counted = false
	if later := c.ClaimsLater; j.Call == nil && (later == nil || !later(j.Type)) {
		b.count(j)
	}
	o.Starts++
	o.StartedAt, o.Deadline, o.RunAfter = b.now, b.now.Add(c.AttemptTimeout), time.Time{}
	o.WorkerRenewedAt, o.WorkerAliveUntil = b.now, b.now.Add(c.LeaseTTL)
	b.changes.Renewals[c.Worker] = o.WorkerAliveUntil
	b.touch(j)
}
