package ledgertest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var spending = []scenario{
	{"OnlyTheAccountLockStopsTwoJobs", onlyTheAccountLockStopsTwoJobs},
	{"OneJobIDRacedFiftyTimes", oneJobIDRacedFiftyTimes},
	{"OneKeyRacedFiftyTimes", oneKeyRacedFiftyTimes},
	{"FiveDebitsUnderOneKeyAndUnderFive", fiveDebits},
	{"BalanceOneAndTwentySubmits", balanceOneAndTwentySubmits},
	{"SixthHoldOfFiveIsRefused", sixthHoldIsRefused},
	{"FiftyGrantsAgainstFiftyDebits", fiftyGrantsAgainstFiftyDebits},
	{"OverdraftIsTheFloor", overdraftIsTheFloor},
}

// Two jobs with ids and keys of their own: UNIQUE (job_id, kind) cannot tell them apart. Two
// ledgers, as in two processes: nothing but the account's lock in the database is between them.
func onlyTheAccountLockStopsTwoJobs(t *testing.T, w *world) {
	const rounds = 25
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	for i := range rounds {
		name := ledger.AccountName{Tenant: "default", Name: fmt.Sprint("account ", i)}
		w.fund(t, name, 10)
		got := race(2, func(i int) error {
			_, err := ledgers[i].Open(bg, job(name, 10))
			return err
		})
		require.Equal(t, map[ledger.Code]int{"": 1, ledger.CodeInsufficient: 1}, got)
		require.Equal(t, ledger.Balance{Held: 10}, w.balance(t, name))
		w.audit(t, name)
	}
}

func oneJobIDRacedFiftyTimes(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	same := job(ada, 10)
	same.ID = ledger.NewID()
	require.Equal(t, map[ledger.Code]int{"": 50}, race(50, func(i int) error {
		_, err := ledgers[i%2].Open(bg, same)
		return err
	}))
	require.Equal(t, ledger.Balance{Available: 990, Held: 10}, w.balance(t, ada))
	require.Len(t, w.audit(t, ada), 2)
}

func oneKeyRacedFiftyTimes(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	ids := make([]string, 50)
	fresh := make([]bool, 50)
	require.Equal(t, map[ledger.Code]int{"": 50}, race(50, func(i int) error {
		c := job(ada, 10)
		c.Key = "order-1"
		opened, err := ledgers[i%2].Open(bg, c)
		ids[i], fresh[i] = opened.Job.ID, !opened.Replayed
		return err
	}))
	first := 0
	for i := range ids {
		require.Equal(t, ids[0], ids[i])
		if fresh[i] {
			first++
		}
	}
	require.Equal(t, 1, first, "one caller opened it, the others were told of it")
	require.Equal(t, ledger.Balance{Available: 990, Held: 10}, w.balance(t, ada))
}

func fiveDebits(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	w.fund(t, bob, 100)
	debit := func(name ledger.AccountName, key func(i int) string) map[ledger.Code]int {
		return race(5, func(i int) error {
			c := job(name, 10)
			c.Key = key(i)
			_, err := w.Open(bg, c)
			return err
		})
	}
	require.Equal(t, map[ledger.Code]int{"": 5}, debit(ada, func(int) string { return "one" }))
	require.Equal(t, map[ledger.Code]int{"": 5}, debit(bob, func(i int) string { return fmt.Sprint("key ", i) }))
	require.Equal(t, int64(90), w.balance(t, ada).Available)
	require.Equal(t, int64(50), w.balance(t, bob).Available)
}

func balanceOneAndTwentySubmits(t *testing.T, w *world) {
	w.fund(t, ada, 1)
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	got := race(20, func(i int) error {
		_, err := ledgers[i%2].Open(bg, job(ada, 1))
		return err
	})
	require.Equal(t, map[ledger.Code]int{"": 1, ledger.CodeInsufficient: 19}, got)
	require.Equal(t, ledger.Balance{Held: 1}, w.balance(t, ada))
	require.Len(t, w.audit(t, ada), 2, "a refusal stores nothing")
	open, err := w.OpenJobs(bg, "", 100)
	require.NoError(t, err)
	require.Len(t, open, 1)
}

func sixthHoldIsRefused(t *testing.T, w *world) {
	w.fund(t, ada, 5000)
	for range 5 {
		w.submit(t, 1000)
	}
	c := job(ada, 1000)
	c.Key = "sixth"
	_, err := w.Open(bg, c)
	require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
	var refusal *ledger.Error
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, []int64{1000, 0}, []int64{refusal.Required, refusal.Available})
	// Nothing was stored, so the same key may try again, even for something else.
	_, err = w.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 500, Reason: "more"})
	require.NoError(t, err)
	c.Cost = 500
	opened, err := w.Open(bg, c)
	require.NoError(t, err)
	require.False(t, opened.Replayed)
}

func fiftyGrantsAgainstFiftyDebits(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	ledgers := []*ledger.Ledger{w.Ledger, w.another(t)}
	require.Equal(t, map[ledger.Code]int{"": 100}, race(100, func(i int) (err error) {
		l := ledgers[i/2%2]
		if i%2 == 0 {
			_, err = l.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 1, Reason: "one"})
		} else {
			_, err = l.Open(bg, job(ada, 1))
		}
		return err
	}))
	require.Len(t, w.audit(t, ada), 101, "100 rows and the first grant, each balance_after = previous + delta")
	require.Equal(t, ledger.Balance{Available: 100, Held: 50}, w.balance(t, ada))
}

func overdraftIsTheFloor(t *testing.T, w *world) {
	_, err := w.CreateAccount(bg, ledger.CreateAccount{AccountName: ada, Overdraft: 30})
	require.NoError(t, err)
	got := race(7, func(int) error {
		_, err := w.Open(bg, job(ada, 10))
		return err
	})
	require.Equal(t, map[ledger.Code]int{"": 3, ledger.CodeInsufficient: 4}, got)
	require.Equal(t, ledger.Balance{Available: -30, Held: 30}, w.balance(t, ada))
	for _, e := range w.audit(t, ada) {
		require.Equal(t, int64(-30), e.Floor)
	}
}
