package ledger

import (
	"strconv"
	"time"
)

// Call is one submission of a job to a vendor, which knows it by its Key. While the vendor has
// given no verdict, Job.Call holds it: then nothing else may be submitted for the job, and only
// the vendor's word, a cancel or the sweep's patience ends it.
type Call struct {
	JobID    string
	N        int // 1 for the first; raised only after the vendor's own verdict of failure
	Provider string
	Status   CallStatus
	Ref      string // the vendor's name for it; "" until its answer is stored
	Token    string // of the attempt that was last permitted to send it
	Error    *JobError

	ClaimedAt  time.Time // n was stored first
	SentAt     time.Time // the newest permit to send it
	AcceptedAt time.Time // the reference was stored; zero for never
	HeardAt    time.Time // the vendor's newest answer; zero for never
	CalledAt   time.Time // the vendor's newest callback; zero for never
	EndedAt    time.Time // the verdict; zero for none
}

// CallStatus is what is known of a call.
type CallStatus string

// Statuses of a call. The first two have no verdict yet.
const (
	CallClaimed   CallStatus = "claimed"   // it may have been sent; no answer is stored
	CallAccepted  CallStatus = "accepted"  // the vendor has it; its reference is stored
	CallSucceeded CallStatus = "succeeded" // delivered
	CallFailed    CallStatus = "failed"    // by the vendor's word it has failed, or it never had it
	CallCancelled CallStatus = "cancelled" // by the vendor's word
	CallLate      CallStatus = "late"      // it succeeded when the job had ended otherwise; nothing was delivered
)

// Key is the idempotency key at the vendor, job_id:n.
func (c *Call) Key() string { return CallKey(c.JobID, c.N) }

// CallKey is the idempotency key of a job's n-th call.
func CallKey(jobID string, n int) string { return jobID + ":" + strconv.Itoa(n) }

// VendorUnknown reports whether nobody knows if the vendor has the job: it may have been
// submitted, no answer is stored, and the attempt that sent it is over.
func (j *Job) VendorUnknown() bool {
	return j.Call != nil && j.Call.Status == CallClaimed && (j.Open == nil || j.Open.Token != j.Call.Token)
}

// CallWord is what an attempt that ends has learned from the vendor.
type CallWord string

// Words of a vendor. All but the first two are verdicts.
const (
	WordNone      CallWord = ""          // the vendor was not asked, or did not answer
	WordWorking   CallWord = "working"   // it has the job and goes on
	WordFailed    CallWord = "failed"    // it has failed, or never had it
	WordCancelled CallWord = "cancelled" // it has stopped
)

func (w CallWord) check() error {
	switch w {
	case WordNone, WordWorking, WordFailed, WordCancelled:
		return nil
	}
	return invalid("word", "%s is unknown", quoteShort(string(w)))
}

// hear writes the vendor's word on the job's call down.
func (b *Book) hear(j *Job, word CallWord, err *JobError) {
	call := j.Call
	if call == nil || word == WordNone {
		return
	}
	call.HeardAt = b.now
	switch word {
	case WordFailed:
		call.Status, call.Error, call.EndedAt = CallFailed, err, b.now
	case WordCancelled:
		call.Status, call.EndedAt = CallCancelled, b.now
	case WordNone, WordWorking:
	}
	b.touchCall(call)
}

// touchCall marks a call as changed.
func (b *Book) touchCall(c *Call) { b.changes.Calls[CallKey(c.JobID, c.N)] = c }

// ClaimCall permits an attempt to submit its job to a vendor. It stores the call's number
// before anything is sent, in one commit with the check that the job is open, uncancelled and
// this attempt's. A new call uses up one of the job's attempts; sending one again does not,
// so that an outage between here and the vendor uses up none.
type ClaimCall struct {
	JobID    string
	Token    string
	Provider string
	// Resend permits sending a call again that may have been sent before, under its own
	// number: right where the vendor makes the same key one job.
	Resend bool
}

// Claimed answers ClaimCall.
type Claimed struct {
	Permit bool
	Why    string // of a refusal: cancelled, accepted, unknown, exhausted, too_late
	Job    Job    // its Call is what may be sent
}

func (c *ClaimCall) check() error {
	return firstError(checkID("job_id", c.JobID), checkName("token", c.Token), checkName("provider", c.Provider))
}
func (c *ClaimCall) names(n *Names)     { attemptNames(n, c.JobID, c.Token) }
func (c *ClaimCall) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *ClaimCall) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	if j.End != nil {
		return nil, settled(j)
	}
	o, call := j.Open, j.Call
	if o.State != StateRunning || o.Token != c.Token {
		return nil, fenced(j)
	}
	why := ""
	switch {
	case call != nil && call.Status == CallClaimed && call.Token == c.Token && call.Provider == c.Provider:
		return Claimed{Permit: true, Job: j.clone()}, nil // the same claim again
	case !o.CancelAt.IsZero():
		why = "cancelled"
	case call != nil && call.Status == CallAccepted:
		why = "accepted"
	case call != nil && (!c.Resend || call.Provider != c.Provider):
		why = "unknown"
	case call == nil && !o.Counted && o.Attempts >= j.MaxAttempts:
		why = "exhausted"
	case b.now.After(o.Deadline):
		why = "too_late"
	}
	if why != "" {
		return Claimed{Why: why, Job: j.clone()}, nil
	}
	if call == nil {
		call = &Call{JobID: j.ID, N: o.N, Provider: c.Provider, Status: CallClaimed, ClaimedAt: b.now}
		j.Call = call
		b.calls[j.ID] = append(b.calls[j.ID], call)
		b.count(j)
	}
	call.Token, call.SentAt = c.Token, b.now
	b.touchCall(call)
	b.touch(j)
	return Claimed{Permit: true, Job: j.clone()}, nil
}

// count makes the current attempt use up one of the job's attempts, once.
func (b *Book) count(j *Job) {
	if o := j.Open; !o.Counted {
		o.Counted = true
		o.Attempts++
	}
}

// HearCall records what a vendor said of a call while no attempt ends by it: its answer to a
// submit, which names the reference, or a callback. It moves no credits.
type HearCall struct {
	JobID    string
	N        int
	Provider string // whose word it is
	Ref      string // "" when it was not named
	// Callback says that the vendor called by itself: a job that waits is due at once.
	Callback bool
	// Succeeded is the vendor's word. For a job that has ended otherwise, or with another
	// call, it is recorded as late; nothing is delivered and a refund is kept.
	Succeeded bool
}

// Heard answers HearCall.
type Heard struct {
	Job      Job
	Late     bool // the call succeeded and its job had ended without it
	Replayed bool // and that was known before
}

func (c *HearCall) check() error {
	if c.N < 1 {
		return invalid("n", "calls count from 1")
	}
	if c.Ref != "" {
		if err := checkName("ref", c.Ref); err != nil {
			return err
		}
	}
	return firstError(checkID("job_id", c.JobID), checkName("provider", c.Provider))
}

func (c *HearCall) names(n *Names) {
	jobCommand{c.JobID}.names(n)
	n.Calls = append(n.Calls, c.JobID)
}
func (c *HearCall) lockKeys() []string { return []string{jobLock(c.JobID)} }

func (c *HearCall) decide(b *Book) (any, error) {
	j, err := b.job("", c.JobID)
	if err != nil {
		return nil, err
	}
	call := b.call(c.JobID, c.N)
	if call == nil || call.Provider != c.Provider {
		return nil, NotFound("call", CallKey(c.JobID, c.N))
	}
	if c.Ref != "" && call.Ref != "" && call.Ref != c.Ref {
		return nil, refuse(CodeConflict, "the vendor named call %s %s before, and now %s", call.Key(), quoteShort(call.Ref), quoteShort(c.Ref))
	}
	if c.Ref != "" && call.Ref == "" {
		call.Ref, call.AcceptedAt = c.Ref, b.now
		if call.Status == CallClaimed {
			call.Status = CallAccepted
		}
	}
	call.HeardAt = b.now
	heard := Heard{}
	switch current := j.Open != nil && j.Call == call; {
	case !current && c.Succeeded && call.Status != CallSucceeded:
		heard.Late, heard.Replayed = true, call.Status == CallLate
		if !heard.Replayed {
			call.Status, call.EndedAt = CallLate, b.now
		}
	case current && c.Callback:
		call.CalledAt = b.now
		b.wake(j)
	}
	b.touchCall(call)
	heard.Job = j.clone()
	return heard, nil
}

// wake makes a job that waits due at once, under the next epoch: the queue may hold the
// current one for later.
func (b *Book) wake(j *Job) {
	o := j.Open
	if o.State != StateQueued || o.RunAfter.IsZero() {
		return
	}
	o.Epoch++
	o.RunAfter, o.CheckAt = time.Time{}, b.now
	b.touch(j)
}

// call finds a call of a job.
func (b *Book) call(jobID string, n int) *Call {
	for _, c := range b.calls[jobID] {
		if c.N == n {
			return c
		}
	}
	return nil
}
