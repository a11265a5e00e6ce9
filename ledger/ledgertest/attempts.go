package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var attempts = []scenario{
	{"YieldWithAttemptsUsedUpFailsAndRefunds", yieldWithAttemptsUsedUp},
	{"GiveBackUsesUpNoAttempt", giveBackUsesUpNoAttempt},
	{"CancelQueuedAndRunning", cancelQueuedAndRunning},
	{"PutBackOfADeadWorkersJob", putBack},
	{"PutBackPastTheDeadline", putBackPastTheDeadline},
	{"NoFreeRunAfterRefund", noFreeRunAfterRefund},
	{"RefundOnlyWhatWasTaken", refundOnlyWhatWasTaken},
	{"MaxStartsEndsAJobThatKillsItsWorkers", maxStarts},
	{"FirstSuccessWins", firstSuccessWins},
}

func (w *world) submitWith(t *testing.T, cost int64, maxAttempts int) string {
	t.Helper()
	c := job(ada, cost)
	c.MaxAttempts = maxAttempts
	opened, err := w.Open(bg, c)
	require.NoError(t, err)
	return opened.Job.ID
}

func yieldWithAttemptsUsedUp(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 30, 2)
	w.begin(t, id, "t1")
	y, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1", After: 5 * time.Second, Error: &ledger.JobError{Code: "busy"}})
	require.NoError(t, err)
	require.Equal(t, ledger.StateQueued, y.Job.State())
	require.Equal(t, 2, y.Job.Open.Epoch)
	require.Equal(t, y.Job.Open.RunAfter, y.Job.Open.CheckAt)
	due, err := w.Due(bg, 10)
	require.NoError(t, err)
	require.Empty(t, due, "not before run_after")
	w.clock.Advance(6 * time.Second)
	due, err = w.Due(bg, 10)
	require.NoError(t, err)
	require.Len(t, due, 1)
	w.begin(t, id, "t2")
	y, err = w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t2", After: time.Second})
	require.NoError(t, err)
	require.Equal(t, ledger.StateFailed, y.Job.State())
	require.Equal(t, ledger.EndExhausted, y.Job.End.Reason)
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
	// Each attempt gets its first answer again.
	again, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t2", After: time.Second})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	list, err := w.Attempts(bg, id)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []ledger.AttemptOutcome{ledger.AttemptYielded, ledger.AttemptFailed}, []ledger.AttemptOutcome{list[0].Outcome, list[1].Outcome})
	require.Equal(t, "busy", list[0].Error.Code)
}

func giveBackUsesUpNoAttempt(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 30, 1)
	for _, token := range []string{"t1", "t2", "t3"} {
		w.begin(t, id, token)
		y, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: token, GiveBack: true})
		require.NoError(t, err)
		require.Equal(t, ledger.StateQueued, y.Job.State())
		require.Zero(t, y.Job.Open.Attempts)
	}
	w.begin(t, id, "t4")
	_, err := w.Complete(bg, complete(id, "t4"))
	require.NoError(t, err)
	j := w.job(t, id)
	require.Equal(t, []int{1, 4}, []int{j.End.Attempts, j.End.Starts})
	require.Equal(t, int64(93), w.balance(t, ada).Available)
}

func cancelQueuedAndRunning(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submit(t, 30)
	_, err := w.Cancel(bg, ledger.CancelJob{Tenant: "other", JobID: id})
	require.ErrorIs(t, err, ledger.ErrNotFound, "another tenant learns nothing of it")
	c, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.Equal(t, ledger.EndCancelled, c.Job.End.Reason)
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))

	id = w.submit(t, 30)
	w.begin(t, id, "t1")
	c, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.Equal(t, ledger.StateRunning, c.Job.State())
	require.Equal(t, int64(30), w.balance(t, ada).Held, "not before the worker stops")
	asked, err := w.RenewWorker(bg, ledger.WorkerLease{ID: "worker-t1"}, time.Minute)
	require.NoError(t, err)
	require.Equal(t, []string{id}, asked, "the worker hears of it with its lease")
	_, err = w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1", Reason: ledger.EndCancelled})
	require.NoError(t, err)
	require.Equal(t, ledger.EndCancelled, w.job(t, id).End.Reason)
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
	// The one who asked hears the same again.
	c, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.Equal(t, ledger.StateFailed, c.Job.State())

	// A cancelled job whose worker died is not run again by the next delivery.
	id = w.submit(t, 30)
	w.begin(t, id, "t1")
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	renewed := w.clock.Now()
	w.clock.Advance(time.Hour)
	_, err = w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: renewed})
	require.NoError(t, err)
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t2", Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, ledger.VerdictDrop, s.Verdict)
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
}

func putBack(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 30, 2)
	w.begin(t, id, "t1")
	seen := w.job(t, id).Open.WorkerRenewedAt
	w.clock.Advance(time.Minute) // the lease has lapsed
	_, err := w.RenewWorker(bg, ledger.WorkerLease{ID: "worker-t1"}, 10*time.Second)
	require.NoError(t, err)
	p, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: seen})
	require.NoError(t, err)
	require.False(t, p.Changed, "it renewed in time after all")
	w.clock.Advance(time.Minute)
	p, err = w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: seen})
	require.NoError(t, err)
	require.False(t, p.Changed, "a newer renewal than the one seen saves it")
	seen = w.job(t, id).Open.WorkerRenewedAt
	p, err = w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: seen})
	require.NoError(t, err)
	require.True(t, p.Changed)
	require.Equal(t, []any{ledger.StateQueued, 2, 1}, []any{p.Job.State(), p.Job.Open.Epoch, p.Job.Open.Attempts})
	list, err := w.Attempts(bg, id)
	require.NoError(t, err)
	require.Equal(t, ledger.AttemptLost, list[0].Outcome)
	_, err = w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1"})
	require.ErrorIs(t, err, ledger.ErrFenced)
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Epoch: 1, Token: "t9", Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, "stale_epoch", s.Why)
	w.begin(t, id, "t2")
	w.clock.Advance(time.Minute)
	p, err = w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t2", Renewed: w.clock.Now()})
	require.NoError(t, err)
	require.False(t, p.Changed, "no attempt is left: the sweep's")
	s, err = w.Start(bg, ledger.StartJob{JobID: id, Token: "t3", Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, "exhausted", s.Why)
	require.Equal(t, ledger.StateRunning, s.Job.State())
	require.Equal(t, int64(30), w.balance(t, ada).Held)
}

func putBackPastTheDeadline(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 30, 2)
	_, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t1", Worker: "w", LeaseTTL: time.Hour, AttemptTimeout: time.Minute})
	require.NoError(t, err)
	try := func() ledger.PutBack {
		p, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Grace: 10 * time.Second})
		require.NoError(t, err)
		return p
	}
	w.clock.Advance(65 * time.Second)
	require.False(t, try().Changed, "within the grace")
	w.clock.Advance(6 * time.Second)
	require.True(t, try().Changed, "however live its worker")
	list, err := w.Attempts(bg, id)
	require.NoError(t, err)
	require.Equal(t, ledger.AttemptTimedOut, list[0].Outcome)
	// Its late success still wins while the job is open.
	_, err = w.Complete(bg, complete(id, "t1"))
	require.NoError(t, err)
	require.Equal(t, int64(93), w.balance(t, ada).Available)
}

// The deduct of a failed job is not a ticket for another run.
func noFreeRunAfterRefund(t *testing.T, w *world) {
	w.fund(t, ada, 10)
	id := w.submit(t, 10)
	w.begin(t, id, "t1")
	_, err := w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
	require.NoError(t, err)
	require.Equal(t, int64(10), w.balance(t, ada).Available)
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Epoch: 1, Token: "t2", Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.VerdictDrop, "ended"}, []any{s.Verdict, s.Why})
	// The customer's retry is a new job and a new charge.
	retry := job(ada, 10)
	retry.RetryOf = id
	opened, err := w.Open(bg, retry)
	require.NoError(t, err)
	_, err = w.Open(bg, retry)
	require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
	w.begin(t, opened.Job.ID, "t3")
	_, err = w.Fail(bg, ledger.FailJob{JobID: id, Token: "t3"})
	require.ErrorIs(t, err, ledger.ErrAlreadySettled, "a refund touches only the live job")
	_, err = w.Complete(bg, ledger.CompleteJob{JobID: opened.Job.ID, Token: "t3", Actual: 10, Delivered: 1})
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{}, w.balance(t, ada))
	again := retry
	again.RetryOf = ledger.NewID()
	_, err = w.Open(bg, again)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	w.audit(t, ada)
}

// No refund without a charge, and never more than the charge.
func refundOnlyWhatWasTaken(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	refused := job(ada, 101)
	refused.ID = ledger.NewID()
	_, err := w.Open(bg, refused)
	require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
	_, err = w.Fail(bg, ledger.FailJob{JobID: refused.ID, Token: "t1"})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: refused.ID})
	require.ErrorIs(t, err, ledger.ErrNotFound)

	id := w.submit(t, 100)
	credit := func(n int64) error {
		_, err := w.CreditJob(bg, ledger.AdjustCredits{AccountName: ada, Amount: n, AboutJob: id, Reason: "blurred", Actor: "ann"})
		return err
	}
	require.ErrorIs(t, credit(1), ledger.ErrConflict, "it has not ended")
	w.begin(t, id, "t1")
	_, err = w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Actual: 100, Delivered: 1})
	require.NoError(t, err)
	require.NoError(t, credit(99))
	require.ErrorIs(t, credit(50), ledger.ErrInvalid)
	require.Equal(t, map[ledger.Code]int{"": 1, ledger.CodeInvalid: 9}, race(10, func(int) error { return credit(1) }))
	require.Equal(t, int64(100), w.balance(t, ada).Available)
	sum, err := w.Credited(bg, id)
	require.NoError(t, err)
	require.Equal(t, int64(100), sum)
	w.audit(t, ada)
}

func maxStarts(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 30, 9)
	for _, token := range []string{"t1", "t2", "t3"} {
		s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: token, Worker: "w-" + token, MaxStarts: 3})
		require.NoError(t, err)
		require.Equal(t, ledger.VerdictRun, s.Verdict)
		renewed := w.clock.Now()
		w.clock.Advance(time.Minute)
		_, err = w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: token, Renewed: renewed})
		require.NoError(t, err)
	}
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t4", Worker: "w4", MaxStarts: 3})
	require.NoError(t, err)
	require.Equal(t, "exhausted", s.Why)
	require.Equal(t, ledger.EndExhausted, s.Job.End.Reason)
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
}

func firstSuccessWins(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	for range 10 {
		id := w.submit(t, 10)
		w.begin(t, id, "t1")
		renewed := w.clock.Now()
		w.clock.Advance(time.Minute)
		_, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: renewed})
		require.NoError(t, err)
		w.begin(t, id, "t2")
		got := race(2, func(i int) error {
			_, err := w.Complete(bg, complete(id, []string{"t1", "t2"}[i]))
			return err
		})
		require.Equal(t, map[ledger.Code]int{"": 1, ledger.CodeSettled: 1}, got)
		w.check(t, id)
	}
	require.Equal(t, ledger.Balance{Available: 930}, w.balance(t, ada))
	w.audit(t, ada)
}
