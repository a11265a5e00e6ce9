package ledger

import "time"

// Command is one change of the books, as a function on a Book. The commands are OpenJob,
// StartJob, YieldJob, CompleteJob, FailJob, CancelJob, SweepJob, SightJob, PutBackJob,
// ClaimCall, HearCall, GrantCredits, AdjustCredits and CreateAccount.
//
// decide validates completely before it changes anything, so a refused command leaves the
// Book as it was. Run again on what it left behind, it gives the same answer and changes
// nothing (I8): every id that it writes is minted before it is run.
type Command interface {
	// check judges the command alone, before any lock is taken, and fills in defaults.
	check() error
	// names adds the rows that decide needs.
	names(*Names)
	// lockKeys says which commands must not run at the same time in one process.
	lockKeys() []string
	// decide answers and changes the Book, or refuses.
	decide(*Book) (any, error)
}

func accountLock(n AccountName) string { return "a:" + n.Tenant + "\x00" + n.Name }
func jobLock(id string) string         { return "j:" + id }

// jobCommand is what commands on an existing job share.
type jobCommand struct{ id string }

func (c jobCommand) names(n *Names) { n.Jobs = append(n.Jobs, c.id) }

// attemptNames are what a command of one attempt needs.
func attemptNames(n *Names, jobID, token string) {
	jobCommand{jobID}.names(n)
	n.Attempts = append(n.Attempts, AttemptRef{jobID, token})
}

// ending describes how a job ends.
type ending struct {
	state     State
	reason    EndReason
	actor     string
	charged   int64 // credits to stay taken, ≤ what the account can pay
	shortfall int64
	delivered int
	token     string // the attempt that ended it; "" for none
	result    *Result
	err       *JobError
	evidence  []byte
}

// end ends an open job in one commit: the outcome, the movement that goes with it, the
// attempt that was running, and the job's last row (I3, I5, I6).
func (b *Book) end(j *Job, how ending) {
	a, open := b.accountByID[j.AccountID], j.Open
	back := open.Held - how.charged
	entry := func(kind Kind, delta int64, evidence []byte) {
		b.record(a, Entry{Kind: kind, Delta: delta, JobID: j.ID, Reason: string(how.reason), Actor: how.actor, Evidence: evidence})
	}
	switch how.state {
	case StateCompleted:
		entry(KindTaskCompleted, 0, nil)
		if back != 0 {
			entry(KindSettle, back, nil)
		}
	case StateRefunded:
		entry(KindReconcilerRefund, back, how.evidence)
	default:
		entry(KindTaskFailed, 0, how.evidence)
		if back > 0 {
			entry(KindRefund, back, nil)
		}
	}
	if open.State == StateRunning {
		outcome := AttemptReplaced
		switch {
		case open.Token == how.token && how.state == StateCompleted:
			outcome = AttemptCompleted
		case open.Token == how.token:
			outcome = AttemptFailed
		}
		b.closeAttempt(j, outcome, how.err, time.Time{})
	}
	percent := open.Percent
	if how.state == StateCompleted {
		percent = 100
		if j.Call != nil {
			j.Call.Status, j.Call.HeardAt, j.Call.EndedAt = CallSucceeded, b.now, b.now
			b.touchCall(j.Call)
		}
	}
	j.End = &EndState{State: how.state, Reason: how.reason, Held: open.Held, Charged: how.charged,
		Shortfall: how.shortfall, Delivered: how.delivered, Attempts: open.Attempts, Starts: open.Starts,
		Epoch: open.Epoch, N: open.N, Token: how.token, Result: how.result, Error: how.err, Evidence: how.evidence,
		Percent: percent, Progress: open.Progress, StartedAt: open.FirstStartedAt, EndedAt: b.now}
	b.held[j.AccountID] -= open.Held
	j.Open = nil
	delete(b.changes.Touched, j.ID)
	b.changes.Ended = append(b.changes.Ended, j)
}

// closeAttempt writes the running attempt to the log. One that was given back uses up none of
// the job's attempts; one whose worker never came back counts as lost.
func (b *Book) closeAttempt(j *Job, outcome AttemptOutcome, err *JobError, runAfter time.Time) {
	o := j.Open
	switch {
	case outcome == AttemptGivenBack && o.Counted:
		o.Attempts--
		o.Counted = false
	case outcome == AttemptLost, outcome == AttemptTimedOut:
		o.Lost++
	}
	at := Attempt{JobID: j.ID, N: o.Starts, Token: o.Token, Epoch: o.Epoch, Worker: o.Worker, Counted: o.Counted,
		Outcome: outcome, Error: err, RunAfter: runAfter, StartedAt: o.StartedAt, EndedAt: b.now}
	if j.Call != nil {
		at.VendorRef = j.Call.Ref
	}
	b.LoadAttempt(at)
	b.changes.Attempts = append(b.changes.Attempts, at)
}

// requeue puts a running job back into the queue as a new epoch, due for the relay at
// runAfter, or at once when it is zero. The attempt must be closed first.
func (b *Book) requeue(j *Job, runAfter time.Time) {
	o := j.Open
	o.State, o.Worker, o.Token, o.StartedAt, o.Deadline, o.Counted = StateQueued, "", "", time.Time{}, time.Time{}, false
	o.WorkerRenewedAt, o.WorkerAliveUntil = time.Time{}, time.Time{}
	o.Epoch++
	o.QueuedAt, o.RunAfter, o.CheckAt = b.now, runAfter, b.now
	if runAfter.After(b.now) {
		o.CheckAt = runAfter
	}
	b.touch(j)
}

// fail ends a job as not delivered and gives everything back.
func (b *Book) fail(j *Job, reason EndReason, actor, token string, err *JobError) {
	b.end(j, ending{state: StateFailed, reason: reason, actor: actor, token: token, err: err})
}

// pastAttempt finds an attempt of the job that is over.
func (b *Book) pastAttempt(jobID, token string) *Attempt {
	for i := range b.attempts[jobID] {
		if at := &b.attempts[jobID][i]; at.Token == token {
			return at
		}
	}
	return nil
}

// spendable is what a deduct may still take, in credits.
func spendable(a *Account) int64 { return a.Balance + a.Overdraft }
