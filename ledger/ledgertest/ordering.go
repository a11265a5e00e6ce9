package ledgertest

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var ordering = []scenario{
	{"BatchesNamingAccountsInOppositeOrder", oppositeOrder},
	{"CompletionsNamingJobsInOppositeOrder", oppositeCompletions},
	{"CreatedAtNeverContradictsSeq", createdAtFollowsSeq},
	{"MarkersKeepTheirOrderWhenTheClockIsSetBack", markersKeepOrder},
}

// Two processes whose batches name the same accounts and jobs in opposite order.
func oppositeOrder(t *testing.T, w *world) {
	const accounts, rounds = 12, 40
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	name := func(i int) ledger.AccountName {
		return ledger.AccountName{Tenant: "default", Name: fmt.Sprint("account ", i)}
	}
	ids := make([]string, accounts)
	for i := range accounts {
		w.fund(t, name(i), 1000)
		opened, err := w.Open(bg, job(name(i), 10))
		require.NoError(t, err)
		ids[i] = opened.Job.ID
	}
	for round := range rounds {
		got := race(4*accounts, func(n int) (err error) {
			l, i := ledgers[n%2], n/2%accounts
			if n%2 == 1 {
				i = accounts - 1 - i
			}
			switch {
			case n < 2*accounts:
				_, err = l.Open(bg, job(name(i), 1))
			default:
				_, err = l.Sight(bg, ledger.SightJob{JobID: ids[i], Epoch: 1, Sign: ledger.SignSeen})
			}
			return err
		})
		require.Equal(t, map[ledger.Code]int{"": 4 * accounts}, got, "round %d", round)
	}
	for i := range accounts {
		require.Equal(t, int64(990-2*rounds), w.balance(t, name(i)).Available)
		w.audit(t, name(i))
	}
}

// Two processes settle the same jobs of many accounts, one from the first to the last and the
// other backwards: all succeed, and each job is charged once.
func oppositeCompletions(t *testing.T, w *world) {
	const jobs = 40
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	ids := make([]string, jobs)
	for i := range ids {
		name := ledger.AccountName{Tenant: "default", Name: fmt.Sprint("account ", i%10)}
		_, err := w.Grant(bg, ledger.GrantCredits{AccountName: name, Amount: 10, Reason: "test"})
		require.NoError(t, err)
		opened, err := w.Open(bg, job(name, 10))
		require.NoError(t, err)
		ids[i] = opened.Job.ID
		w.begin(t, ids[i], "t1")
	}
	var first atomic.Int64
	require.Equal(t, map[ledger.Code]int{"": 2 * jobs}, race(2*jobs, func(n int) error {
		i := n / 2
		if n%2 == 1 {
			i = jobs - 1 - i
		}
		done, err := ledgers[n%2].Complete(bg, complete(ids[i], "t1"))
		if !done.Replayed {
			first.Add(1)
		}
		return err
	}))
	require.EqualValues(t, jobs, first.Load())
	for i := range 10 {
		name := ledger.AccountName{Tenant: "default", Name: fmt.Sprint("account ", i)}
		require.Equal(t, ledger.Balance{Available: 3 * jobs / 10}, w.balance(t, name))
		w.audit(t, name)
	}
}

// A free job leaves only markers. They are told in the order in which they were written, also
// by a clock that was set back.
func markersKeepOrder(t *testing.T, w *world) {
	w.fund(t, ada, 10)
	w.clock.Advance(-time.Hour)
	for range 10 {
		id := w.submit(t, 0)
		w.begin(t, id, "t1")
		_, err := w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Delivered: 1})
		require.NoError(t, err)
		entries, err := w.JobEntries(bg, id)
		require.NoError(t, err)
		var kinds []ledger.Kind
		for i, e := range entries {
			kinds = append(kinds, e.Kind)
			require.True(t, i == 0 || e.CreatedAt.After(entries[i-1].CreatedAt))
		}
		require.Equal(t, []ledger.Kind{ledger.KindDeduct, ledger.KindTaskStarted, ledger.KindTaskCompleted}, kinds)
	}
}

// The clock is read after the locks, so those who waited longest are not older than those who
// went before: on the store's own clock, from two processes. A clock set back changes nothing.
func createdAtFollowsSeq(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	for _, step := range []time.Duration{0, -time.Hour, time.Minute} {
		w.clock.Advance(step)
		for range 5 {
			w.submit(t, 1)
		}
	}
	w.audit(t, ada)

	own := &world{open: w.open, store: w.open(t, nil)}
	own.Ledger = own.another(t)
	ledgers := []*ledger.Ledger{own.Ledger, own.another(t)}
	own.fund(t, ada, 1000)
	require.Equal(t, map[ledger.Code]int{"": 100}, race(100, func(i int) error {
		_, err := ledgers[i%2].Open(bg, job(ada, 1))
		return err
	}))
	entries := own.audit(t, ada)
	for i := 1; i < len(entries); i++ {
		require.True(t, entries[i-1].CreatedAt.Before(entries[i].CreatedAt), "at least a microsecond apart")
	}
}
