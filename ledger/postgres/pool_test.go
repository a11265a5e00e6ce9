package postgres_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
)

// More lanes and more readers than connections: each waits for its turn, and none for one that
// it would need in addition to the one it has.
func TestFourLanesShareOneConnection(t *testing.T) {
	t.Parallel()
	_, _, appURL := open(t)
	store, err := postgres.Open(t.Context(), appURL, postgres.Options{MaxConns: 1})
	require.NoError(t, err)
	defer store.Close()
	l := ledger.New(store, ledger.Options{Lanes: 4})
	defer l.Close()
	ctx := context.Background()
	const each = 25
	names := []ledger.AccountName{ada, {Tenant: "default", Name: "bob"}, {Tenant: "default", Name: "eve"}, {Tenant: "other", Name: "ada"}}
	for _, name := range names {
		_, err := l.Grant(ctx, ledger.GrantCredits{AccountName: name, Amount: each, Reason: "test"})
		require.NoError(t, err)
	}
	life := func(name ledger.AccountName) error {
		opened, err := l.Open(ctx, ledger.OpenJob{AccountName: name, Type: "image", Cost: 1})
		if err != nil {
			return err
		}
		if _, err = l.Balance(ctx, name); err != nil {
			return err
		}
		if _, err = l.Start(ctx, ledger.StartJob{JobID: opened.Job.ID, Token: "t1", Worker: name.Name}); err != nil {
			return err
		}
		if _, err = l.RenewWorker(ctx, ledger.WorkerLease{ID: name.Name}, ledger.DefaultLeaseTTL); err != nil {
			return err
		}
		if _, err = l.Complete(ctx, ledger.CompleteJob{JobID: opened.Job.ID, Token: "t1", Actual: 1, Delivered: 1}); err != nil {
			return err
		}
		_, err = l.CreditJob(ctx, ledger.AdjustCredits{AccountName: name, Amount: 1, AboutJob: opened.Job.ID, Reason: "blurred", Actor: "ann"})
		return err
	}
	var wg sync.WaitGroup
	for _, name := range names {
		for range each {
			wg.Go(func() {
				if err := life(name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, name := range names {
		balance, err := l.Balance(ctx, name)
		require.NoError(t, err)
		require.Equal(t, ledger.Balance{Available: each}, balance)
	}
}
