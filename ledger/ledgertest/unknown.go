package ledgertest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// Broken is a store whose connection can be cut right after a COMMIT.
type Broken struct {
	ledger.Store
	armed atomic.Bool
	// Cuts counts the commits whose result got lost.
	Cuts atomic.Int64
}

// Breaking wraps a store.
func Breaking(store ledger.Store) *Broken { return &Broken{Store: store} }

// Cut lets the next transaction commit and its caller not learn of it.
func (b *Broken) Cut() { b.armed.Store(true) }

// Transact runs the transaction, and loses its result if asked to.
func (b *Broken) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	err := b.Store.Transact(ctx, names, decide)
	if err == nil && b.armed.CompareAndSwap(true, false) {
		b.Cuts.Add(1)
		return &ledger.StoreError{Fate: ledger.FateUnknown, Err: errors.New("the connection broke after COMMIT was sent")}
	}
	return err
}

var unknown = []scenario{{"UnknownCommitOfEachCommand", unknownCommit}}

// Each command's commit happens and its result gets lost; run again, it gives the answer that
// it would have given, to the last flag, and leaves one set of rows.
func unknownCommit(t *testing.T, w *world) {
	broken := Breaking(w.store)
	lossy := &world{open: w.open, store: broken, clock: w.clock}
	lossy.Ledger = newLedger(t, broken)
	cut := func() *ledger.Ledger { broken.Cut(); return lossy.Ledger }

	created, err := cut().CreateAccount(bg, ledger.CreateAccount{AccountName: ada})
	require.NoError(t, err)
	require.False(t, created.Replayed, "create")
	granted, err := cut().Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "r"})
	require.NoError(t, err)
	require.Equal(t, []any{false, int64(100)}, []any{granted.Replayed, granted.Balance})
	_, err = cut().Grant(bg, ledger.GrantCredits{AccountName: bob, Amount: 5, Reason: "opens the account", Key: "k"})
	require.NoError(t, err)
	adjusted, err := cut().Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: -1, Reason: "r", Actor: "ann", Key: "k"})
	require.NoError(t, err)
	require.Equal(t, []any{false, int64(99)}, []any{adjusted.Replayed, adjusted.Balance})

	open := func() string {
		t.Helper()
		opened, err := cut().Open(bg, job(ada, 10))
		require.NoError(t, err)
		require.False(t, opened.Replayed)
		return opened.Job.ID
	}
	start := func(id, token string) {
		t.Helper()
		s, err := cut().Start(bg, ledger.StartJob{JobID: id, Token: token, Worker: "w"})
		require.NoError(t, err)
		require.Equal(t, []any{ledger.VerdictRun, ledger.StateRunning}, []any{s.Verdict, s.Job.State()})
	}
	completed := open()
	start(completed, "t1")
	y, err := cut().Yield(bg, ledger.YieldJob{JobID: completed, Token: "t1"})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateQueued, 2, false}, []any{y.Job.State(), y.Job.Open.Epoch, y.Replayed})
	lost, err := cut().Sight(bg, ledger.SightJob{JobID: completed, Epoch: 2, Sign: ledger.SignLost})
	require.NoError(t, err)
	require.True(t, lost.Changed)
	require.Equal(t, 3, w.job(t, completed).Open.Epoch)
	start(completed, "t2")
	done, err := cut().Complete(bg, complete(completed, "t2"))
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateCompleted, int64(7), false}, []any{done.Job.State(), done.Job.End.Charged, done.Replayed})

	failed := open()
	start(failed, "t1")
	f, err := cut().Fail(bg, ledger.FailJob{JobID: failed, Token: "t1"})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateFailed, false}, []any{f.Job.State(), f.Replayed})
	cancelled := open()
	c, err := cut().Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: cancelled})
	require.NoError(t, err)
	require.Equal(t, ledger.EndCancelled, c.Job.End.Reason)
	swept := open()
	start(swept, "t1")
	lose := func(id string) {
		t.Helper()
		renewed := w.clock.Now()
		w.clock.Advance(time.Minute)
		p, err := cut().PutBack(bg, ledger.PutBackJob{JobID: id, Token: "t1", Renewed: renewed})
		require.NoError(t, err)
		require.Equal(t, []any{ledger.StateQueued, true}, []any{p.Job.State(), p.Changed})
	}
	lose(swept)
	s, err := cut().Sweep(bg, refund(swept))
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateRefunded, ledger.SweepRefund, ledger.EndOrphaned}, []any{s.Job.State(), s.Decision.Action, s.Decision.Reason})

	exhausted := open()
	start(exhausted, "t1")
	lose(exhausted)
	st, err := cut().Start(bg, ledger.StartJob{JobID: exhausted, Token: "t2", Worker: "w", MaxStarts: 1})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.VerdictDrop, "exhausted"}, []any{st.Verdict, st.Why})

	require.Equal(t, int64(23), broken.Cuts.Load(), "commits whose result got lost")
	require.Equal(t, ledger.Balance{Available: 92}, w.balance(t, ada))
	require.Equal(t, ledger.Balance{Available: 5}, w.balance(t, bob))
	for _, id := range []string{completed, failed, cancelled, swept, exhausted} {
		w.check(t, id)
	}
	w.audit(t, ada)
	w.audit(t, bob)
}
