package ledger

import (
	"bytes"
	"slices"
	"time"
)

// CompleteJob delivers a job: the first success wins, from whatever attempt. The result is
// readable only after the commit.
type CompleteJob struct {
	JobID string
	Token string
	// Actual is what the job cost, in credits; below what was held the rest returns, above
	// it the account pays what it has and the rest is recorded as shortfall.
	Actual    int64
	Delivered int // units; fewer than asked is a partial delivery
	Result    Result
}

// Completed answers CompleteJob.
type Completed struct {
	Job      Job
	Replayed bool // this very attempt had completed the job before
}

func (c *CompleteJob) check() error {
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token), checkAmount("actual", c.Actual, 0),
		checkAmount("delivered", int64(c.Delivered), 0))
}
func (c *CompleteJob) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *CompleteJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *CompleteJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	if j.End != nil {
		if j.End.State == StateCompleted && j.End.Token == c.Token {
			if !c.sameAs(j.End) {
				return nil, refuse(CodeConflict, "this attempt completed job %s before, with another result", j.ID)
			}
			return Completed{Job: j.clone(), Replayed: true}, nil
		}
		return nil, settled(j)
	}
	if j.Open.Token != c.Token && b.pastAttempt(j.ID, c.Token) == nil {
		return nil, fenced(j)
	}
	charged, shortfall := settle(b.accountByID[j.AccountID], j.Open.Held, c.Actual)
	reason := EndDelivered
	if c.Delivered < j.Units {
		reason = EndPartial
	}
	result := c.Result
	b.end(j, ending{state: StateCompleted, reason: reason, actor: ActorWorker, charged: charged, shortfall: shortfall,
		delivered: c.Delivered, token: c.Token, result: &result})
	return Completed{Job: j.clone()}, nil
}

// sameAs tells a repetition from another completion under the same token (I8).
func (c *CompleteJob) sameAs(e *EndState) bool {
	return e.Charged+e.Shortfall == c.Actual && e.Delivered == c.Delivered && bytes.Equal(fingerprint(e.Result), fingerprint(c.Result))
}

// settle says how much of the actual cost stays taken and how much the account cannot pay:
// never less than nothing, and beyond the hold only what the balance has (a balance below
// zero has nothing).
func settle(a *Account, held, actual int64) (charged, shortfall int64) {
	if actual <= held {
		return actual, 0
	}
	charged = held + min(actual-held, max(a.Balance, 0))
	return charged, actual - charged
}

// FailJob ends a job as not delivered and gives its credits back. Only the current attempt
// may.
type FailJob struct {
	JobID string
	Token string
	// Reason is EndVendor, EndExhausted or EndCancelled; "" means EndVendor.
	Reason EndReason
	Error  *JobError // nil for none
	Word   CallWord  // what the vendor said of the job's call
}

// Failed answers FailJob and YieldJob.
type Failed struct {
	Job      Job
	Replayed bool
}

func (c *FailJob) check() error {
	if c.Reason == "" {
		c.Reason = EndVendor
	}
	if c.Reason != EndVendor && c.Reason != EndExhausted && c.Reason != EndCancelled {
		return invalid("reason", "%s is not a reason for an attempt to fail a job", quoteShort(string(c.Reason)))
	}
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token), c.Word.check())
}
func (c *FailJob) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *FailJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *FailJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	if replay, err := b.fence(j, c.Token, AttemptFailed); replay != nil || err != nil {
		return replay, err
	}
	reason := c.Reason
	if !j.Open.CancelAt.IsZero() {
		reason = EndCancelled
	}
	b.hear(j, c.Word, c.Error)
	b.fail(j, reason, ActorWorker, c.Token, c.Error)
	return Failed{Job: j.clone()}, nil
}

// fence lets only the current attempt pass. An attempt that ended before in the way asked
// for again gets its answer again.
func (b *Book) fence(j *Job, token string, again ...AttemptOutcome) (any, error) {
	if j.End == nil && j.Open.State == StateRunning && j.Open.Token == token {
		return nil, nil
	}
	if past := b.pastAttempt(j.ID, token); past != nil {
		if slices.Contains(again, past.Outcome) {
			return Failed{Job: j.clone(), Replayed: true}, nil
		}
	}
	if j.End != nil {
		return nil, settled(j)
	}
	return nil, fenced(j)
}

// YieldJob gives a job back to the queue: to be tried again later, or at shutdown.
type YieldJob struct {
	JobID string
	Token string
	// After is the wait before the next attempt, counted from now; 0 means none, and more than
	// MaxYield counts as MaxYield: whatever a vendor asks for, the job ends in bounded time.
	After time.Duration
	// GiveBack marks a shutdown: the attempt is not counted.
	GiveBack bool
	Error    *JobError // nil for none
	// Word is what the vendor said of the job's call. Its verdict of failure raises n, also of
	// a vendor that was called without ClaimCall. A call without a verdict is waited for: that
	// uses up no attempt, and ends no job for the want of one.
	Word CallWord
}

// MaxYield is the longest wait before a job's next attempt.
const MaxYield = 24 * time.Hour

func (c *YieldJob) check() error {
	c.After = min(c.After, MaxYield)
	if c.After < 0 {
		return invalid("after", "is negative")
	}
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token), c.Word.check())
}
func (c *YieldJob) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *YieldJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *YieldJob) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	// A yield with no attempt left ended the job as failed: its replay is that attempt's.
	if replay, err := b.fence(j, c.Token, AttemptYielded, AttemptGivenBack, AttemptFailed); replay != nil || err != nil {
		return replay, err
	}
	o := j.Open
	if j.Call == nil && !c.GiveBack {
		b.count(j) // an attempt that never came to its call is one all the same
	}
	b.hear(j, c.Word, c.Error)
	verdict := c.Word == WordFailed || c.Word == WordCancelled
	waits := j.Call != nil && !verdict
	switch {
	case !waits && !o.CancelAt.IsZero():
		b.fail(j, EndCancelled, ActorWorker, c.Token, c.Error)
	case !waits && !c.GiveBack && o.Attempts >= j.MaxAttempts:
		b.fail(j, EndExhausted, ActorWorker, c.Token, c.Error)
	default:
		outcome, runAfter := AttemptYielded, time.Time{}
		if c.GiveBack {
			outcome = AttemptGivenBack
		}
		// What came while the attempt ran may be news to it: the vendor's call, or a cancel that
		// must be told to the vendor.
		news := waits && (j.Call.CalledAt.After(o.StartedAt) || o.CancelAt.After(o.StartedAt))
		if c.After > 0 && !news {
			runAfter = b.now.Add(c.After)
		}
		b.closeAttempt(j, outcome, c.Error, runAfter)
		if verdict {
			j.Call = nil
			o.N++
		}
		b.requeue(j, runAfter)
	}
	return Failed{Job: j.clone()}, nil
}

// CancelJob ends a queued job at once, refunded, and asks the worker of a running one to
// stop. One that a vendor has, or may have, is cancelled there first. A job that ended otherwise is ErrAlreadySettled.
type CancelJob struct {
	Tenant string
	JobID  string
}

// Cancelled answers CancelJob. The job is running still when its worker was asked to stop.
type Cancelled struct{ Job Job }

func (c *CancelJob) check() error {
	return firstError(checkName("tenant", c.Tenant), checkID("job_id", c.JobID))
}
func (c *CancelJob) names(n *Names)     { jobCommand{c.JobID}.names(n) }
func (c *CancelJob) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *CancelJob) decide(b *Book) (any, error) {
	j, err := b.job(c.Tenant, c.JobID)
	if err != nil {
		return nil, err
	}
	switch {
	case j.End != nil && j.End.Reason == EndCancelled: // the same cancel again
	case j.End != nil:
		return nil, settled(j)
	case j.Open.State == StateQueued && j.Call == nil:
		b.fail(j, EndCancelled, ActorClient, "", nil)
	case j.Open.CancelAt.IsZero():
		j.Open.CancelAt = b.now
		b.touch(j)
		b.wake(j) // to cancel it at the vendor
	}
	return Cancelled{Job: j.clone()}, nil
}

func settled(j *Job) *Error {
	return refuse(CodeSettled, "job %s has ended: %s (%s)", j.ID, j.End.State, j.End.Reason)
}

func fenced(j *Job) *Error {
	return refuse(CodeFenced, "this is not the current attempt of job %s", j.ID)
}
