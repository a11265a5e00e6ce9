package app_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/ledger"
)

// open makes a ledger of the test's own.
func open(t *testing.T) *app.App {
	t.Helper()
	c := config.Default()
	c.DatabaseURL = "sqlite:" + filepath.Join(t.TempDir(), "ledger.db")
	cfg, err := c.For(config.Command)
	require.NoError(t, err)
	_, err = app.Migrate(t.Context(), cfg)
	require.NoError(t, err)
	a, err := app.Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

func name(account string) ledger.AccountName {
	return ledger.AccountName{Tenant: "default", Name: account}
}

// grant gives n credits to each account, many at once.
func grant(t *testing.T, a *app.App, n int64, accounts ...string) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, account := range accounts {
		wg.Go(func() {
			_, err := a.Ledger.Grant(t.Context(), ledger.GrantCredits{AccountName: name(account), Amount: n, Reason: "welcome"})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestThePageThatIsFullMayBeTheLast(t *testing.T) {
	t.Parallel()
	a := open(t)
	accounts := make([]string, 201)
	for n := range accounts {
		accounts[n] = fmt.Sprint("account-", n)
	}
	grant(t, a, 1, accounts[:200]...)
	list, err := a.Accounts(t.Context(), "default", ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, list.Data, 200)
	require.Nil(t, list.NextCursor)

	grant(t, a, 1, accounts[200])
	list, err = a.Accounts(t.Context(), "default", ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, list.Data, 200)
	require.NotNil(t, list.NextCursor)
}

func TestOpenJobsAreCountedBeyondOnePage(t *testing.T) {
	t.Parallel()
	a := open(t)
	grant(t, a, 1000, "ada")
	const jobs = 203
	var wg sync.WaitGroup
	for range jobs {
		wg.Go(func() {
			if _, err := a.Ledger.Open(t.Context(), ledger.OpenJob{AccountName: name("ada"), Type: "image", Cost: 2}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	account, err := a.Account(t.Context(), name("ada"))
	require.NoError(t, err)
	require.Equal(t, jobs, account.OpenJobs)

	// and a statement has all its entries, however many pages these are
	s, err := a.Statement(t.Context(), name("ada"), app.Period{}, "")
	require.NoError(t, err)
	require.Len(t, s.Entries, jobs+1)
	require.EqualValues(t, 0, s.Opening)
	require.EqualValues(t, 1000-2*jobs, s.Closing)
	require.EqualValues(t, -2*jobs, s.ByKind["deduct"])
	for n, e := range s.Entries {
		require.EqualValues(t, n+1, *e.Seq)
	}

	past, err := a.AccountAt(t.Context(), name("ada"), time.Time(s.Entries[100].CreatedAt))
	require.NoError(t, err)
	require.Equal(t, 100, past.OpenJobs)
	require.EqualValues(t, 200, past.Balance.Held)
	require.EqualValues(t, 800, past.Balance.Available)
}
