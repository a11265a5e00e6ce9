package ledgertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var bounds = []scenario{
	{"BalanceWithinTheRangeOfJSONNumbers", balanceWithinRange},
	{"ARefundAlwaysFits", refundAlwaysFits},
	{"BadAmountsMoveNothing", badAmounts},
	{"UnknownAccountAndOneWithoutEntries", unknownAndEmptyAccount},
	{"OddNamesAreKeptOrRefused", oddNames},
	{"OddIDsAreRefusedBeforeAnythingMoves", oddIDs},
	{"FreeJobAtBalanceZero", freeJob},
}

func balanceWithinRange(t *testing.T, w *world) {
	give := func(n int64) error {
		_, err := w.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: n, Reason: "much"})
		return err
	}
	adjust := func(n int64) error {
		_, err := w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: n, Reason: "much", Actor: "ann"})
		return err
	}
	require.NoError(t, give(ledger.MaxAmount))
	require.ErrorIs(t, give(1), ledger.ErrInvalid)
	require.ErrorIs(t, adjust(1), ledger.ErrInvalid)
	require.Equal(t, int64(ledger.MaxAmount), w.balance(t, ada).Available)
	w.submit(t, ledger.MaxAmount)
	require.Zero(t, w.balance(t, ada).Available)
	require.NoError(t, adjust(-ledger.MaxAmount))
	require.ErrorIs(t, adjust(-1), ledger.ErrInvalid)
	require.Equal(t, int64(-ledger.MaxAmount), w.balance(t, ada).Available)
	w.audit(t, ada)
}

// What open jobs hold may come back: credits that would leave no room for it are refused.
func refundAlwaysFits(t *testing.T, w *world) {
	w.fund(t, ada, ledger.MaxAmount)
	id := w.submit(t, 10)
	_, err := w.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: 1, Reason: "much"})
	require.ErrorIs(t, err, ledger.ErrInvalid)
	_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: 1, Reason: "much", Actor: "ann"})
	require.ErrorIs(t, err, ledger.ErrInvalid)
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: ledger.MaxAmount}, w.balance(t, ada))
	w.audit(t, ada)
}

func badAmounts(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submit(t, 10)
	w.begin(t, id, "t1")
	for _, n := range []int64{-1, -ledger.MaxAmount, ledger.MaxAmount + 1, 1<<63 - 1, -1 << 63} {
		_, err := w.Grant(bg, ledger.GrantCredits{AccountName: ada, Amount: n, Reason: "test"})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = w.Open(bg, job(ada, n))
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Actual: n})
		require.ErrorIs(t, err, ledger.ErrInvalid)
		_, err = w.CreateAccount(bg, ledger.CreateAccount{AccountName: bob, Overdraft: n})
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
	_, err := w.Grant(bg, ledger.GrantCredits{AccountName: ada, Reason: "nothing"})
	require.ErrorIs(t, err, ledger.ErrInvalid)
	_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Reason: "nothing", Actor: "ann"})
	require.ErrorIs(t, err, ledger.ErrInvalid)
	require.Equal(t, ledger.Balance{Available: 90, Held: 10}, w.balance(t, ada))
	require.Len(t, w.audit(t, ada), 3)
}

func unknownAndEmptyAccount(t *testing.T, w *world) {
	_, err := w.Balance(bg, ada)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Entries(bg, ledger.EntryFilter{Account: ada}, ledger.Page{Limit: 10})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.BalanceAt(bg, ada, w.clock.Now())
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Account(bg, ada)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Grants(bg, ada)
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Grant(bg, ledger.GrantCredits{AccountName: bob, Amount: 1, Reason: "another account of the tenant"})
	require.NoError(t, err)
	_, err = w.Jobs(bg, ledger.JobFilter{Tenant: ada.Tenant, Account: ada.Name}, ledger.Page{Limit: 10})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Jobs(bg, ledger.JobFilter{Tenant: "other", Account: bob.Name}, ledger.Page{Limit: 10})
	require.ErrorIs(t, err, ledger.ErrNotFound, "another tenant learns nothing of it")
	_, err = w.Open(bg, job(ada, 1))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Open(bg, job(ada, 0))
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: 1, Reason: "r", Actor: "ann"})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	_, err = w.Job(bg, "default", ledger.NewID())
	require.ErrorIs(t, err, ledger.ErrNotFound)
	for _, row := range rows {
		if row.name != "open again" {
			require.Equal(t, string(ledger.CodeNotFound), w.try(ledger.NewID(), "t1", row.do), row.name)
		}
	}

	w.fund(t, ada, 0)
	require.Zero(t, w.balance(t, ada))
	require.Empty(t, w.audit(t, ada))
	at, err := w.BalanceAt(bg, ada, w.clock.Now())
	require.NoError(t, err)
	require.Zero(t, at)
	grants, err := w.Grants(bg, ada)
	require.NoError(t, err)
	require.Equal(t, []ledger.Grant{}, grants)
	jobs, err := w.Jobs(bg, ledger.JobFilter{Tenant: ada.Tenant, Account: ada.Name}, ledger.Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, []ledger.Job{}, jobs)
	_, err = w.Open(bg, job(ada, 1))
	require.ErrorIs(t, err, ledger.ErrInsufficientCredits)
	// The same name at another tenant is somebody else.
	_, err = w.Balance(bg, ledger.AccountName{Tenant: "other", Name: ada.Name})
	require.ErrorIs(t, err, ledger.ErrNotFound)
	again, err := w.CreateAccount(bg, ledger.CreateAccount{AccountName: ada})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	_, err = w.CreateAccount(bg, ledger.CreateAccount{AccountName: ada, Overdraft: 5})
	require.ErrorIs(t, err, ledger.ErrConflict)
}

func oddNames(t *testing.T, w *world) {
	kept := []string{"a", strings.Repeat("x", 255), strings.Repeat("é", 255), "🦊🎨", "caf\u00e9", "cafe\u0301", "a/b", "100%",
		"a b", "A", "ß", "'; DROP TABLE jobs; --", `back\slash`, `{"json":1}`, "a\u200bb", "NULL", "%00"}
	for i, name := range kept {
		account := ledger.AccountName{Tenant: "default", Name: name}
		c := job(account, 1)
		c.Key = name
		_, err := w.Grant(bg, ledger.GrantCredits{AccountName: account, Amount: int64(10 + i), Reason: name, Key: name})
		require.NoError(t, err, name)
		opened, err := w.Open(bg, c)
		require.NoError(t, err, name)
		read := w.job(t, opened.Job.ID)
		require.Equal(t, []string{name, name}, []string{read.Account, read.Key})
		require.Equal(t, ledger.Balance{Available: int64(9 + i), Held: 1}, w.balance(t, account), "its twin is another account")
	}
	for _, name := range []string{"", strings.Repeat("x", 256), strings.Repeat("x", 10_000), "a\x00b", "trailing ", " leading",
		"new\nline", "\xff\xfe", "tab\tbed", "\u00a0nbsp", "del\x7f"} {
		account := ledger.AccountName{Tenant: "default", Name: name}
		_, err := w.Grant(bg, ledger.GrantCredits{AccountName: account, Amount: 1, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrInvalid, "%q", name)
		if name == "" {
			continue // as a key it means none
		}
		c := job(ledger.AccountName{Tenant: "default", Name: "a"}, 1)
		c.Key = name
		_, err = w.Open(bg, c)
		require.ErrorIs(t, err, ledger.ErrInvalid, "%q", name)
	}
	accounts, err := w.Accounts(bg, "default", ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, accounts, len(kept))
	// To read, a name that nobody can have is one that nobody has.
	for _, name := range []string{"", "a\x00b", "\xff\xfe", "trailing ", strings.Repeat("x", 10_000)} {
		account := ledger.AccountName{Tenant: "default", Name: name}
		_, err := w.Balance(bg, account)
		require.ErrorIs(t, err, ledger.ErrNotFound, "%.20q", name)
		_, err = w.Entries(bg, ledger.EntryFilter{Account: account}, ledger.Page{Limit: 10})
		require.ErrorIs(t, err, ledger.ErrNotFound, "%.20q", name)
		_, err = w.Balance(bg, ledger.AccountName{Tenant: name, Name: "a"})
		require.ErrorIs(t, err, ledger.ErrNotFound, "%.20q", name)
		_, err = w.CallByRef(bg, "vendor", name)
		require.ErrorIs(t, err, ledger.ErrNotFound, "%.20q", name)
		_, err = w.Grant(bg, ledger.GrantCredits{AccountName: ledger.AccountName{Tenant: "default", Name: "a"}, Amount: 1, Reason: "a", Key: name})
		if name != "" {
			require.ErrorIs(t, err, ledger.ErrInvalid, "%.20q", name)
		}
		_, err = w.Start(bg, ledger.StartJob{JobID: ledger.NewID(), Token: name, Worker: "w"})
		require.ErrorIs(t, err, ledger.ErrInvalid, "%.20q", name)
	}
}

// Ids are ULIDs, also those that a caller mints; anything else is refused before anything moves.
func oddIDs(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	spelled := strings.ToLower(ledger.NewID())
	for _, id := range []string{"a", "A", spelled, strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 10_000), "🦊🎨", "a\x00b",
		"trailing ", "/", "%", "\xff\xfe", ledger.NewID() + " ", "\x00" + ledger.NewID(), ledger.NewID()[1:], "8ZZZZZZZZZZZZZZZZZZZZZZZZZ"} {
		c := job(ada, 1)
		c.ID = id
		_, err := w.Open(bg, c)
		require.ErrorIs(t, err, ledger.ErrInvalid, "job %.40q", id)
		c = job(ada, 1)
		c.RetryOf = id
		_, err = w.Open(bg, c)
		require.ErrorIs(t, err, ledger.ErrInvalid, "retry of %.40q", id)
		_, err = w.Grant(bg, ledger.GrantCredits{AccountName: ada, ID: id, Amount: 2, Reason: "r"})
		require.ErrorIs(t, err, ledger.ErrInvalid, "grant %.40q", id)
		_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, ID: id, Amount: 3, Reason: "r", Actor: "ann"})
		require.ErrorIs(t, err, ledger.ErrInvalid, "adjustment %.40q", id)
		_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, AboutJob: id, Amount: 3, Reason: "r", Actor: "ann"})
		require.ErrorIs(t, err, ledger.ErrInvalid, "about job %.40q", id)
		for _, row := range rows {
			if row.name != "open again" {
				require.Equal(t, string(ledger.CodeInvalid), w.try(id, "t1", row.do), "%s of %.40q", row.name, id)
			}
		}
		_, err = w.Job(bg, ada.Tenant, id)
		require.ErrorIs(t, err, ledger.ErrNotFound, "read job %.40q", id)
		for what, read := range map[string]func() (int, error){
			"entries":  func() (int, error) { list, err := w.JobEntries(bg, id); return len(list), err },
			"attempts": func() (int, error) { list, err := w.Attempts(bg, id); return len(list), err },
			"calls":    func() (int, error) { list, err := w.Calls(bg, id); return len(list), err },
		} {
			n, err := read()
			require.NoError(t, err, "%s of %.40q", what, id)
			require.Zero(t, n)
		}
	}
	require.Equal(t, ledger.Balance{Available: 100}, w.balance(t, ada))
	require.Len(t, w.audit(t, ada), 1)
}

func freeJob(t *testing.T, w *world) {
	w.fund(t, ada, 0)
	id := w.submit(t, 0)
	w.begin(t, id, "t1")
	done, err := w.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t1", Delivered: 1})
	require.NoError(t, err)
	require.Equal(t, ledger.StateCompleted, done.Job.State())
	kinds, sum := w.kinds(t, id)
	require.Equal(t, []ledger.Kind{ledger.KindDeduct, ledger.KindTaskStarted, ledger.KindTaskCompleted}, kinds)
	require.Zero(t, sum)
	for _, e := range w.audit(t, ada) {
		require.Zero(t, e.Seq, "markers take no place in the chain")
	}
	// Free also for somebody in debt, and refunded without a movement.
	_, err = w.Adjust(bg, ledger.AdjustCredits{AccountName: ada, Amount: -5, Reason: "owed", Actor: "ann"})
	require.NoError(t, err)
	id = w.submit(t, 0)
	_, err = w.Sweep(bg, refund(id))
	require.NoError(t, err)
	require.Equal(t, int64(-5), w.balance(t, ada).Available)
}
