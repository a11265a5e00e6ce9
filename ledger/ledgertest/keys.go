package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var keys = []scenario{
	{"KeyOfAJobIsKeptForEver", keyOfAJob},
	{"KeysOfGrantsAndAdjustments", keysOfGrants},
	{"OneGrantKeyRaced", oneGrantKeyRaced},
}

// Cases 16 and 17.
func keyOfAJob(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	w.fund(t, bob, 100)
	elsewhere := ledger.AccountName{Tenant: "other", Name: "ada"}
	w.fund(t, elsewhere, 100)
	first := job(ada, 10)
	first.Key = "K"
	opened, err := w.Open(bg, first)
	require.NoError(t, err)
	require.False(t, opened.Replayed)
	for _, change := range []func(*ledger.OpenJob){
		func(c *ledger.OpenJob) { c.Cost = 9 },
		func(c *ledger.OpenJob) { c.AccountName = bob },
		func(c *ledger.OpenJob) { c.Input = []byte(`{"prompt":"A cat"}`) },
		func(c *ledger.OpenJob) { c.Metadata = []byte(`{"a":1}`) },
		func(c *ledger.OpenJob) { c.AccountName.Name = "nobody" },
	} {
		c := first
		change(&c)
		_, err := w.Open(bg, c)
		require.ErrorIs(t, err, ledger.ErrKeyReused)
		require.NotContains(t, err.Error(), opened.Job.ID, "learns nothing of the other")
	}
	same := first
	same.Input = []byte("{ \"prompt\" :\n\"a \\u0063at\" }")
	again, err := w.Open(bg, same)
	require.NoError(t, err)
	require.True(t, again.Replayed)
	require.Equal(t, opened.Job.ID, again.Job.ID)
	theirs := first
	theirs.AccountName = elsewhere
	other, err := w.Open(bg, theirs)
	require.NoError(t, err)
	require.NotEqual(t, opened.Job.ID, other.Job.ID)

	w.begin(t, opened.Job.ID, "t1")
	_, err = w.Complete(bg, complete(opened.Job.ID, "t1"))
	require.NoError(t, err)
	w.clock.Advance(48 * time.Hour)
	again, err = w.Open(bg, first)
	require.NoError(t, err)
	require.Equal(t, []any{true, ledger.StateCompleted}, []any{again.Replayed, again.Job.State()})
	byID := first
	byID.ID = opened.Job.ID
	_, err = w.Open(bg, byID)
	require.NoError(t, err)
	// With its key forgotten, the id still stops a second charge.
	byID.Key = ""
	_, err = w.Open(bg, byID)
	require.ErrorIs(t, err, ledger.ErrConflict)
	require.Equal(t, ledger.Balance{Available: 93}, w.balance(t, ada))
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, bob))
	w.audit(t, ada)
}

func keysOfGrants(t *testing.T, w *world) {
	g := ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "order 7", Source: "purchase", Key: "K"}
	first, err := w.Grant(bg, g)
	require.NoError(t, err)
	require.Equal(t, []any{int64(100), false}, []any{first.Balance, first.Replayed})
	again, err := w.Grant(bg, g)
	require.NoError(t, err)
	require.Equal(t, []any{first.Grant.ID, true}, []any{again.Grant.ID, again.Replayed})
	for _, change := range []func(*ledger.GrantCredits){
		func(c *ledger.GrantCredits) { c.Amount = 9 },
		func(c *ledger.GrantCredits) { c.AccountName = bob },
		func(c *ledger.GrantCredits) { c.Source = "plan" },
		func(c *ledger.GrantCredits) { c.Reason = "order 8" },
	} {
		c := g
		change(&c)
		_, err := w.Grant(bg, c)
		require.ErrorIs(t, err, ledger.ErrKeyReused)
	}
	_, err = w.Balance(bg, bob)
	require.ErrorIs(t, err, ledger.ErrNotFound, "a refused grant opens no account")
	byID := g
	byID.ID, byID.Key = first.Grant.ID, ""
	_, err = w.Grant(bg, byID)
	require.ErrorIs(t, err, ledger.ErrConflict)

	a := ledger.AdjustCredits{AccountName: ada, Amount: -30, Reason: "mistake", Actor: "ann", Key: "K"} // a key belongs to its operation
	adjusted, err := w.Adjust(bg, a)
	require.NoError(t, err)
	require.Equal(t, int64(70), adjusted.Balance)
	replay, err := w.Adjust(bg, a)
	require.NoError(t, err)
	require.Equal(t, []any{adjusted.Adjustment.ID, true}, []any{replay.Adjustment.ID, replay.Replayed})
	a.Amount = 30
	_, err = w.Adjust(bg, a)
	require.ErrorIs(t, err, ledger.ErrKeyReused)
	j := job(ada, 10)
	j.Key = "K"
	_, err = w.Open(bg, j)
	require.NoError(t, err)
	require.Len(t, w.audit(t, ada), 3)
	grants, err := w.Grants(bg, ada)
	require.NoError(t, err)
	require.Len(t, grants, 1)
	require.Equal(t, int64(60), grants[0].Remaining)
}

func oneGrantKeyRaced(t *testing.T, w *world) {
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	require.Equal(t, map[ledger.Code]int{"": 20}, race(20, func(i int) error {
		_, err := ledgers[i%2].Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 7, Reason: "gift", Key: "one"})
		return err
	}))
	require.Equal(t, int64(7), w.balance(t, ada).Available)
	// Without keys each one counts, and the account is opened once.
	require.Equal(t, map[ledger.Code]int{"": 20}, race(20, func(i int) error {
		_, err := ledgers[i%2].Grant(bg, ledger.GrantCredits{AccountName: bob, Amount: 7, Reason: "gift"})
		return err
	}))
	require.Equal(t, int64(140), w.balance(t, bob).Available)
	w.audit(t, ada)
	w.audit(t, bob)
}
