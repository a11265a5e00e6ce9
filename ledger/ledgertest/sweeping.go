package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var sweeping = []scenario{
	{"SweepRefundsWithEvidence", sweepRefunds},
	{"SweepRacesCompletion", sweepRacesCompletion},
	{"ThreeFailuresAtOnceGiveTheCreditsBackOnce", threeFailuresAtOnce},
	{"SweepRacesStart", sweepRacesStart},
	{"SweepDecidesOnTheJobUnderLock", sweepDecidesUnderLock},
}

func sweepRefunds(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submit(t, 30)
	w.begin(t, id, "t1")
	swept, err := w.Sweep(bg, refund(id))
	require.NoError(t, err)
	require.Equal(t, ledger.StateRefunded, swept.Job.State())
	j := w.job(t, id)
	require.Equal(t, []any{ledger.EndOrphaned, int64(0)}, []any{j.End.Reason, j.End.Charged})
	require.JSONEq(t, `{"attempt":1}`, string(j.End.Evidence))
	list, err := w.JobEntries(bg, id)
	require.NoError(t, err)
	last := list[len(list)-1]
	require.Equal(t, []any{ledger.KindReconcilerRefund, int64(30), ledger.ActorReconciler}, []any{last.Kind, last.Delta, last.Actor})
	require.JSONEq(t, `{"attempt":1}`, string(last.Evidence))
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
	// Late deliveries and late results change nothing.
	_, err = w.Complete(bg, complete(id, "t1"))
	require.ErrorIs(t, err, ledger.ErrAlreadySettled)
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t2", Worker: "w"})
	require.NoError(t, err)
	require.Equal(t, ledger.VerdictDrop, s.Verdict)
	require.Nil(t, w.job(t, id).End.Result)
	at, err := w.Attempts(bg, id)
	require.NoError(t, err)
	require.Equal(t, ledger.AttemptReplaced, at[0].Outcome)
	open, err := w.OpenJobs(bg, "", 10)
	require.NoError(t, err)
	require.Empty(t, open)
}

func sweepRacesCompletion(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	other := w.another(t)
	var delivered int64
	for range 30 {
		id := w.submit(t, 10)
		w.begin(t, id, "t1")
		race(4, func(i int) (err error) {
			switch i {
			case 0:
				_, err = w.Complete(bg, complete(id, "t1"))
			case 1:
				_, err = other.Sweep(bg, refund(id))
			case 2:
				_, err = w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
			case 3:
				_, err = other.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
			}
			return err
		})
		j := w.job(t, id)
		require.NotNil(t, j.End)
		w.check(t, id)
		if j.End.State == ledger.StateCompleted {
			delivered++
		}
	}
	require.Equal(t, ledger.Balance{Available: 1000 - 7*delivered}, w.balance(t, ada))
	w.audit(t, ada)
}

// The worker, its replay and the sweep learn of the same failure at once, in two processes.
func threeFailuresAtOnce(t *testing.T, w *world) {
	w.fund(t, ada, 30)
	other := w.another(t)
	for round := range 20 {
		id := w.submit(t, 30)
		w.begin(t, id, "t1")
		race(3, func(i int) (err error) {
			switch i {
			case 0:
				_, err = w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
			case 1:
				_, err = other.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
			case 2:
				_, err = other.Sweep(bg, refund(id))
			}
			return err
		})
		require.Equal(t, ledger.Balance{Available: 30}, w.balance(t, ada), "round %d", round)
		kinds, sum := w.kinds(t, id)
		require.Zero(t, sum)
		returns := 0
		for _, k := range kinds {
			if k == ledger.KindRefund || k == ledger.KindReconcilerRefund {
				returns++
			}
		}
		require.Equal(t, 1, returns, kinds)
	}
	w.audit(t, ada)
}

func sweepRacesStart(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	other := w.another(t)
	// The policy refunds only what nobody runs, so a Start that came first is left alone.
	orphans := func(id string) ledger.SweepJob {
		return ledger.SweepJob{JobID: id, Policy: func(j ledger.Job, _ time.Time) ledger.SweepDecision {
			if j.State() == ledger.StateQueued {
				return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndOrphaned}
			}
			return ledger.SweepDecision{Action: ledger.SweepWait, Reason: "running"}
		}}
	}
	for range 30 {
		id := w.submit(t, 10)
		var verdict ledger.Verdict
		var action ledger.SweepAction
		require.Equal(t, map[ledger.Code]int{"": 2}, race(2, func(i int) error {
			if i == 0 {
				s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t1", Worker: "w"})
				verdict = s.Verdict
				return err
			}
			s, err := other.Sweep(bg, orphans(id))
			action = s.Decision.Action
			return err
		}))
		require.Equal(t, verdict == ledger.VerdictRun, action == ledger.SweepWait, "exactly one of them wins: %s, %s", verdict, action)
	}
	w.audit(t, ada)
}

func sweepDecidesUnderLock(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submit(t, 30)
	var seen ledger.Job
	var at time.Time
	_, err := w.Sweep(bg, ledger.SweepJob{JobID: id, Policy: func(j ledger.Job, now time.Time) ledger.SweepDecision {
		seen, at = j, now
		j.Open.Held = 1_000_000 // a policy has a copy
		return ledger.SweepDecision{Action: ledger.SweepFail, Reason: ledger.EndMaxWait}
	}})
	require.NoError(t, err)
	require.Equal(t, id, seen.ID)
	require.False(t, at.IsZero())
	j := w.job(t, id)
	require.Equal(t, []any{ledger.StateFailed, ledger.EndMaxWait}, []any{j.End.State, j.End.Reason})
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
	// A policy that panics is an error of that sweep and moves nothing.
	id = w.submit(t, 30)
	_, err = w.Sweep(bg, ledger.SweepJob{JobID: id, Policy: func(ledger.Job, time.Time) ledger.SweepDecision { panic("bad row") }})
	require.ErrorIs(t, err, ledger.ErrInternal)
	require.Equal(t, ledger.Balance{Available: 70, Held: 30}, w.balance(t, ada))
}
