package ledgertest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var settling = []scenario{
	{"SettleBelowAndAboveTheHold", settleBelowAndAbove},
	{"DebtIsNotDeepenedBySettle", debtIsNotDeepened},
	{"CompletionWithOtherContentIsAnError", otherCompletion},
}

// The same completion again is a replay; another one under the same token is an error, and
// moves nothing.
func otherCompletion(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submit(t, 10)
	w.begin(t, id, "t1")
	text := "a cat"
	done := ledger.CompleteJob{JobID: id, Token: "t1", Actual: 15, Delivered: 1, Result: ledger.Result{Text: &text}}
	_, err := w.Complete(bg, done)
	require.NoError(t, err)
	again, err := w.Complete(bg, done)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	other := "a dog"
	for _, c := range []ledger.CompleteJob{
		{JobID: id, Token: "t1", Actual: 14, Delivered: 1, Result: ledger.Result{Text: &text}},
		{JobID: id, Token: "t1", Actual: 15, Delivered: 0, Result: ledger.Result{Text: &text}},
		{JobID: id, Token: "t1", Actual: 15, Delivered: 1, Result: ledger.Result{Text: &other}},
	} {
		_, err := w.Complete(bg, c)
		require.ErrorIs(t, err, ledger.ErrConflict)
	}
	require.Equal(t, ledger.Balance{Available: 85}, w.balance(t, ada))
	w.audit(t, ada)
}

func settleBelowAndAbove(t *testing.T, w *world) {
	for _, c := range []struct {
		balance, held, actual                int64
		charged, shortfall, left, settlement int64
	}{
		{100, 10, 10, 10, 0, 90, 0},
		{100, 10, 4, 4, 0, 96, 6},
		{100, 10, 0, 0, 0, 100, 10},
		{100, 10, 25, 25, 0, 75, -15},
		{12, 10, 25, 12, 13, 0, -2}, // what there is, and 13 recorded
		{10, 10, 25, 10, 15, 0, 0},
		{25, 10, 25, 25, 0, 0, -15},
		{5, 0, 3, 3, 0, 2, -3},
		{0, 0, 3, 0, 3, 0, 0},
		{ledger.MaxAmount, 1, ledger.MaxAmount, ledger.MaxAmount, 0, 0, 1 - ledger.MaxAmount},
	} {
		name := ledger.AccountName{Tenant: "default", Name: ledger.NewID()}
		w.fund(t, name, c.balance)
		opened, err := w.Open(bg, job(name, c.held))
		require.NoError(t, err)
		id := opened.Job.ID
		w.begin(t, id, "t1")
		done, err := w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Actual: c.actual, Delivered: 1})
		require.NoError(t, err)
		require.Equal(t, ledger.StateCompleted, done.Job.State())
		require.Equal(t, []int64{c.held, c.charged, c.shortfall}, []int64{done.Job.End.Held, done.Job.End.Charged, done.Job.End.Shortfall}, "%+v", c)
		require.Equal(t, ledger.Balance{Available: c.left}, w.balance(t, name))
		w.check(t, id)
		var settlement int64
		for _, e := range w.audit(t, name) {
			if e.Kind == ledger.KindSettle {
				settlement = e.Delta
			}
		}
		require.Equal(t, c.settlement, settlement, "%+v", c)
		if c.left == 0 {
			_, err = w.Open(bg, job(name, 1))
			require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
		}
	}
}

func debtIsNotDeepened(t *testing.T, w *world) {
	w.fund(t, ada, 10)
	id := w.submit(t, 10)
	_, err := w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: -50, Reason: "owed", Actor: "ann"})
	require.NoError(t, err)
	w.begin(t, id, "t1")
	done, err := w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Actual: 25, Delivered: 1})
	require.NoError(t, err)
	require.Equal(t, []int64{10, 15}, []int64{done.Job.End.Charged, done.Job.End.Shortfall})
	require.Equal(t, ledger.Balance{Available: -50}, w.balance(t, ada))
	// A partial delivery says so.
	_, err = w.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 70, Reason: "paid"})
	require.NoError(t, err)
	c := job(ada, 20)
	c.Units = 4
	opened, err := w.Open(bg, c)
	require.NoError(t, err)
	w.begin(t, opened.Job.ID, "t1")
	done, err = w.Complete(bg, ledger.CompleteJob{JobID: opened.Job.ID, Token: "t1", Actual: 15, Delivered: 3})
	require.NoError(t, err)
	require.Equal(t, ledger.EndPartial, done.Job.End.Reason)
	require.Equal(t, int64(5), w.balance(t, ada).Available)
}
