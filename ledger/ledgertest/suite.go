// Package ledgertest is the suite that every ledger.Store passes: scenarios (Run) and random
// sequences of commands against a plain model (Model).
package ledgertest

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// Open makes an empty store of its own for one test and closes it when the test is over.
// Decisions are taken by clock; nil means the clock that the store uses in production.
type Open = func(t *testing.T, clock func() time.Time) ledger.Store

type scenario struct {
	name string
	run  func(*testing.T, *world)
}

// Run runs every scenario in parallel, each on a store of its own.
func Run(t *testing.T, open Open) {
	for _, list := range [][]scenario{spending, bounds, table, attempts, settling, calls, sweeping, keys, ordering, unknown, history} {
		for _, s := range list {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				s.run(t, newWorld(t, open))
			})
		}
	}
}

// Clock is a clock that a test moves. It also moves by itself, a microsecond a look.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock starts a clock on an arbitrary day.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is what a scenario plays in.
type world struct {
	*ledger.Ledger
	open  Open
	store ledger.Store
	clock *Clock
}

var (
	bg  = context.Background()
	ada = ledger.AccountName{Tenant: "default", Name: "ada"}
	bob = ledger.AccountName{Tenant: "default", Name: "bob"}
)

func newWorld(t *testing.T, open Open) *world {
	t.Helper()
	w := &world{clock: NewClock(), open: open}
	w.store = open(t, w.clock.Now)
	w.Ledger = w.another(t)
	return w
}

// patience outlasts what a test does to a store.
const patience = 20 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// another puts one more group commit on the store, as another process has.
func (w *world) another(t *testing.T) *ledger.Ledger { return newLedger(t, w.store) }

func newLedger(t *testing.T, store ledger.Store) *ledger.Ledger {
	l := ledger.New(store, ledger.Options{GiveUp: patience, Logger: quiet})
	t.Cleanup(l.Close)
	return l
}

// fund opens an account with credits; 0 opens it without.
func (w *world) fund(t *testing.T, name ledger.AccountName, amount int64) {
	t.Helper()
	_, err := w.CreateAccount(bg, ledger.CreateAccount{AccountName: name})
	require.NoError(t, err)
	if amount > 0 {
		_, err = w.Grant(bg, ledger.GrantCredits{AccountName: name, Amount: amount, Reason: "test"})
		require.NoError(t, err)
	}
}

func job(name ledger.AccountName, cost int64) ledger.OpenJob {
	return ledger.OpenJob{AccountName: name, Type: "image", Cost: cost, Input: []byte(`{"prompt":"a cat"}`)}
}

// submit opens a job on ada's account.
func (w *world) submit(t *testing.T, cost int64) string {
	t.Helper()
	opened, err := w.Open(bg, job(ada, cost))
	require.NoError(t, err)
	return opened.Job.ID
}

// begin starts a job as the attempt of that token, on a worker of the same name.
func (w *world) begin(t *testing.T, id, token string) {
	t.Helper()
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: token, Worker: "worker-" + token})
	require.NoError(t, err)
	require.Equal(t, ledger.VerdictRun, s.Verdict, s.Why)
}

func (w *world) job(t *testing.T, id string) ledger.Job {
	t.Helper()
	j, err := w.Job(bg, ada.Tenant, id)
	require.NoError(t, err)
	return j
}

func (w *world) balance(t *testing.T, name ledger.AccountName) ledger.Balance {
	t.Helper()
	b, err := w.Balance(bg, name)
	require.NoError(t, err)
	return b
}

// entries lists all of an account's, oldest first.
func (w *world) entries(t require.TestingT, name ledger.AccountName) []ledger.Entry {
	var all []ledger.Entry
	page := ledger.Page{Limit: 200}
	for {
		list, err := w.Entries(bg, ledger.EntryFilter{Account: name}, page)
		require.NoError(t, err)
		for _, e := range list {
			all = append([]ledger.Entry{e}, all...)
		}
		if len(list) < page.Limit {
			return all
		}
		page.AfterAt, page.AfterID = list[len(list)-1].CreatedAt, list[len(list)-1].ID
	}
}

// kinds of a job's entries, oldest first, and the sum of their deltas.
func (w *world) kinds(t require.TestingT, id string) (kinds []ledger.Kind, sum int64) {
	list, err := w.JobEntries(bg, id)
	require.NoError(t, err)
	for _, e := range list {
		kinds = append(kinds, e.Kind)
		sum += e.Delta
	}
	return kinds, sum
}

// audit checks the invariants of one account's history (I2–I4, I6) and of its order.
func (w *world) audit(t require.TestingT, name ledger.AccountName) []ledger.Entry {
	entries := w.entries(t, name)
	var seq, balance int64
	var at time.Time
	once := map[string]bool{}
	outcomes, taken := map[string]int{}, map[string]int64{}
	for _, e := range entries {
		require.False(t, e.CreatedAt.Before(at), "created_at goes back at %v", e)
		at = e.CreatedAt
		require.False(t, once[e.JobID+string(e.Kind)], "%s twice for %s", e.Kind, e.JobID)
		once[e.JobID+string(e.Kind)] = true
		taken[e.JobID] -= e.Delta
		if e.Kind.Outcome() {
			outcomes[e.JobID]++
			require.Equal(t, 1, outcomes[e.JobID], "outcomes of %s", e.JobID)
		}
		if e.Movement() {
			seq++
			balance += e.Delta
			require.Equal(t, seq, e.Seq, "seq of %v", e)
			require.Equal(t, balance, e.BalanceAfter, "balance_after of %v", e)
		}
		if once[e.JobID+string(ledger.KindDeduct)] {
			require.GreaterOrEqual(t, taken[e.JobID], int64(0), "more returned than taken for %s", e.JobID)
		}
	}
	b, err := w.Balance(bg, name)
	require.NoError(t, err)
	require.Equal(t, balance, b.Available)
	return entries
}

// race calls f from n goroutines at once and counts the answers by code; "" is success.
func race(n int, f func(i int) error) map[ledger.Code]int {
	var wg sync.WaitGroup
	codes := make([]ledger.Code, n)
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			codes[i] = codeOf(f(i))
		})
	}
	close(begin)
	wg.Wait()
	count := map[ledger.Code]int{}
	for _, c := range codes {
		count[c]++
	}
	return count
}

// codeOf is the code of an error of the ledger, "" for none.
func codeOf(err error) ledger.Code {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*ledger.Error](err); ok {
		return e.Code
	}
	return ledger.Code("not one of ours: " + err.Error())
}
