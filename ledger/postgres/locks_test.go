package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
)

// Two stores on one account, as in two processes: the chain has every movement, once.
func TestOneAccountSerialises(t *testing.T) {
	t.Parallel()
	one, _, appURL := open(t)
	two, err := postgres.Open(t.Context(), appURL, postgres.Options{})
	require.NoError(t, err)
	defer two.Close()
	_, err = ledger.Direct(one).Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 1000, Reason: "test"})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		store := []ledger.Store{one, two}[i%2]
		wg.Go(func() {
			for range 15 {
				if _, err := ledger.Direct(store).Open(context.Background(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: int64(1 + i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	entries, err := one.Entries(t.Context(), ledger.EntryFilter{Account: ada}, ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, entries, 121)
	slices.Reverse(entries)
	balance := int64(0)
	for i, e := range entries {
		balance += e.Delta
		require.Equal(t, int64(i+1), e.Seq)
		require.Equal(t, balance, e.BalanceAfter)
	}
	require.Equal(t, int64(1000-15*36), balance)
}

// Whatever the order in which a batch names its rows, it locks them in one.
func TestOppositeOrdersDoNotDeadlock(t *testing.T) {
	t.Parallel()
	store, _, _ := open(t)
	names := &ledger.Names{}
	for _, who := range []string{"a", "b", "c", "d"} {
		account := ledger.AccountName{Tenant: "default", Name: who}
		_, err := ledger.Direct(store).Grant(t.Context(), ledger.GrantCredits{AccountName: account, Amount: 1, Reason: "test"})
		require.NoError(t, err)
		opened, err := ledger.Direct(store).Open(t.Context(), ledger.OpenJob{AccountName: account, Type: "image", Cost: 1})
		require.NoError(t, err)
		names.Accounts, names.Jobs = append(names.Accounts, account), append(names.Jobs, opened.Job.ID)
	}
	back := &ledger.Names{Accounts: slices.Clone(names.Accounts), Jobs: slices.Clone(names.Jobs)}
	slices.Reverse(back.Accounts)
	slices.Reverse(back.Jobs)
	// Some know the accounts, some only the jobs.
	orders := []*ledger.Names{names, back, {Accounts: names.Accounts}, {Jobs: back.Jobs}, {Accounts: back.Accounts}, {Jobs: names.Jobs}}
	var wg sync.WaitGroup
	for _, order := range orders {
		wg.Go(func() {
			for range 50 {
				if err := store.Transact(context.Background(), order, func(*ledger.Book) error { return nil }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Neither a refusal, nor a panic, nor a caller who goes leaves a lock behind.
func TestNothingStaysLocked(t *testing.T) {
	t.Parallel()
	_, _, appURL := open(t)
	store, err := postgres.Open(t.Context(), appURL, postgres.Options{MaxConns: 2})
	require.NoError(t, err)
	defer store.Close()
	_, err = ledger.Direct(store).Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 1, Reason: "test"})
	require.NoError(t, err)
	names := &ledger.Names{Accounts: []ledger.AccountName{ada}}
	free := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, store.Transact(ctx, names, func(*ledger.Book) error { return nil }))
	}

	refusal := errors.New("no")
	require.Equal(t, refusal, store.Transact(t.Context(), names, func(*ledger.Book) error { return refusal }), "as it is")
	free()
	require.PanicsWithValue(t, "oh", func() {
		_ = store.Transact(t.Context(), names, func(*ledger.Book) error { panic("oh") })
	})
	free()
	err = store.Transact(t.Context(), names, func(*ledger.Book) error {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		waits := store.Transact(ctx, names, func(*ledger.Book) error { return nil })
		require.Equal(t, ledger.FateUnreached, fateOf(t, waits))
		require.ErrorIs(t, waits, context.DeadlineExceeded)
		return nil
	})
	require.NoError(t, err)
	free()
}

// A process that freezes inside a transaction loses it; the others wait two seconds at most.
func TestAFrozenTransactionIsEnded(t *testing.T) {
	t.Parallel()
	store, _, _ := open(t)
	_, err := ledger.Direct(store).Grant(t.Context(), ledger.GrantCredits{AccountName: ada, Amount: 10, Reason: "test"})
	require.NoError(t, err)
	err = store.Transact(t.Context(), &ledger.Names{Accounts: []ledger.AccountName{ada}}, func(b *ledger.Book) error {
		_, err := ledger.Direct(store).Open(t.Context(), ledger.OpenJob{AccountName: ada, Type: "image", Cost: 4})
		require.NoError(t, err, "after two seconds its turn comes")
		b.Changes().Renewals["w"] = b.Now()
		return nil
	})
	require.Contains(t, []ledger.Fate{ledger.FateUnreached, ledger.FateUnknown}, fateOf(t, err))
	workers, err := store.Workers(t.Context())
	require.NoError(t, err)
	require.Empty(t, workers)
}

func TestWithTxNeedsReadCommitted(t *testing.T) {
	t.Parallel()
	store, _, appURL := open(t)
	conn, err := pgx.Connect(t.Context(), appURL)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	names := &ledger.Names{Accounts: []ledger.AccountName{ada}}
	refusal := errors.New("no")
	for level, want := range map[pgx.TxIsoLevel]string{pgx.ReadCommitted: "", pgx.RepeatableRead: "repeatable read", pgx.Serializable: "serializable"} {
		tx, err := conn.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: level})
		require.NoError(t, err)
		err = store.WithTx(tx).Transact(t.Context(), names, func(*ledger.Book) error { return refusal })
		if want == "" {
			require.Equal(t, refusal, err, "as it is")
		} else {
			require.ErrorContains(t, err, want)
			require.Equal(t, ledger.FateRejected, fateOf(t, err))
		}
		require.NoError(t, tx.Rollback(t.Context()))
	}
}

// A job that is committed while its transaction waits for other locks is seen by the reads,
// but its account was not locked: nothing may be decided on it in this try.
func TestAJobThatAppearsWhileLockingIsLeftForTheNextTry(t *testing.T) {
	t.Parallel()
	store, ownerURL, appURL := open(t)
	direct := ledger.Direct(store)
	bob := ledger.AccountName{Tenant: "default", Name: "bob"}
	for _, who := range []ledger.AccountName{ada, bob} {
		_, err := direct.Grant(t.Context(), ledger.GrantCredits{AccountName: who, Amount: 1, Reason: "test"})
		require.NoError(t, err)
	}
	job := ledger.OpenJob{AccountName: ada, ID: ledger.NewID(), Type: "image", Cost: 1}
	both := &ledger.Names{Accounts: []ledger.AccountName{bob}, Jobs: []string{job.ID}}
	decided := false
	try := func() error {
		return store.Transact(context.Background(), both, func(*ledger.Book) error { decided = true; return nil })
	}
	late := make(chan error, 1)
	err := store.Transact(t.Context(), &ledger.Names{Accounts: both.Accounts}, func(*ledger.Book) error {
		go func() { late <- try() }()
		untilOneWaits(t, ownerURL, appURL)
		_, err := direct.Open(t.Context(), job)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, ledger.FateContended, fateOf(t, <-late))
	require.False(t, decided)
	require.NoError(t, try())
	require.True(t, decided)
}

// untilOneWaits returns when a connection of the application's role waits for a row's lock.
func untilOneWaits(t *testing.T, ownerURL, appURL string) {
	t.Helper()
	app, err := pgx.ParseConfig(appURL)
	require.NoError(t, err)
	owner, err := pgx.Connect(t.Context(), ownerURL)
	require.NoError(t, err)
	defer owner.Close(context.Background())
	require.Eventually(t, func() bool {
		var waiting int
		err := owner.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event_type = 'Lock'", app.User).Scan(&waiting)
		return err == nil && waiting > 0
	}, 1500*time.Millisecond, 10*time.Millisecond)
}
