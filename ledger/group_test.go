package ledger

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gate holds the first transaction until it is opened, so that everything after it waits and
// then makes one batch.
type gate struct {
	entered, open chan struct{}
	once          sync.Once
}

func newGate() *gate { return &gate{entered: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) before(*Names) error {
	first := false
	g.once.Do(func() { first = true })
	if first {
		close(g.entered)
		<-g.open
	}
	return nil
}

// held is a ledger whose only lane is busy, and what lets it go on.
func held(t *testing.T, s *fakeStore, o Options) (*testLedger, func()) {
	t.Helper()
	g := newGate()
	s.before = g.before
	l := ledgerOn(t, s, o)
	done := make(chan error, 1)
	go func() {
		_, err := l.CreateAccount(bg, CreateAccount{AccountName: account("first")})
		done <- err
	}()
	<-g.entered
	return l, func() {
		close(g.open)
		require.NoError(t, <-done)
	}
}

// inLine hands commands in one after the other and returns their answers' errors later.
func inLine(ctx context.Context, l *testLedger, cmds ...Command) func() []error {
	g := l.group
	errs := make([]error, len(cmds))
	var wg sync.WaitGroup
	for i, cmd := range cmds {
		if err := cmd.check(); err != nil {
			errs[i] = err
			continue
		}
		g.mu.Lock()
		before := len(g.waiting)
		g.mu.Unlock()
		wg.Go(func() { _, errs[i] = l.do(ctx, cmd) })
		for { // the line is the only signal that there is; it is yielded to, never slept for
			g.mu.Lock()
			now := len(g.waiting)
			g.mu.Unlock()
			if now > before {
				break
			}
			runtime.Gosched()
		}
	}
	return func() []error { wg.Wait(); return errs }
}

func TestRefusalIsAnsweredOnlyAfterTheCommit(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	var sizes []int
	l, release := held(t, s, Options{Observe: Observer{Batch: func(n int) { sizes = append(sizes, n) }}})
	committing, commit := make(chan struct{}), make(chan struct{})
	s.after = func() error {
		if s.commits == 2 {
			close(committing)
			<-commit
		}
		return nil
	}
	refused := make(chan error, 1)
	cmds := []Command{&GrantCredits{AccountName: ada, Amount: 5, Reason: "r"}, &OpenJob{AccountName: ada, Type: "image", Cost: 9}}
	wait := inLine(bg, l, cmds...)
	go func() { refused <- wait()[1] }()
	release()
	<-committing
	select {
	case err := <-refused:
		t.Fatalf("answered %v before the commit was over", err)
	default:
	}
	close(commit)
	require.ErrorIs(t, <-refused, ErrInsufficientCredits)
	require.Equal(t, []int{1, 2}, sizes)
}

func TestPoisonedBatchIsBisected(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l, release := held(t, s, Options{})
	s.reject = func(c *Changes) error {
		for _, e := range c.Entries {
			if e.Delta == 13 {
				return &StoreError{Fate: FateRejected, Err: errors.New("CHECK violated")}
			}
		}
		return nil
	}
	var cmds []Command
	for i := range 20 {
		cmds = append(cmds, &GrantCredits{AccountName: ada, Amount: int64(i + 1), Reason: "r"})
	}
	wait := inLine(bg, l, cmds...)
	release()
	for i, err := range wait() {
		if i == 12 {
			require.ErrorIs(t, err, ErrInternal)
		} else {
			require.NoError(t, err, i)
		}
	}
	require.Equal(t, int64(20*21/2-13), s.balance(ada))
}

// A command that is in another's way for good (a unique key that nobody can see, say) must not
// take its batch along, however little patience there is.
func TestContentionOfOneCommandIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, patience := range []time.Duration{time.Nanosecond, 50 * time.Millisecond} {
		s := newFakeStore()
		l, release := held(t, s, Options{GiveUp: patience})
		s.reject = func(c *Changes) error {
			for _, e := range c.Entries {
				if e.Delta == 13 {
					return &StoreError{Fate: FateContended, Err: errors.New("duplicate key")}
				}
			}
			return nil
		}
		var cmds []Command
		for i := range 20 {
			cmds = append(cmds, &GrantCredits{AccountName: ada, Amount: int64(i + 1), Reason: "r"})
		}
		wait := inLine(bg, l, cmds...)
		release()
		for i, err := range wait() {
			if i == 12 {
				require.ErrorIs(t, err, ErrUnavailable)
			} else {
				require.NoError(t, err, i)
			}
		}
		require.Equal(t, int64(20*21/2-13), s.balance(ada))
	}
}

func TestPanicOfOneCommandIsItsError(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l, release := held(t, s, Options{})
	cmds := []Command{&GrantCredits{AccountName: ada, Amount: 1, Reason: "r"}, panicking{ada}, panicking{ada},
		&GrantCredits{AccountName: ada, Amount: 2, Reason: "r"}}
	wait := inLine(bg, l, cmds...)
	release()
	errs := wait()
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[1], ErrInternal)
	require.ErrorContains(t, errs[2], "half done")
	require.NoError(t, errs[3])
	require.Equal(t, int64(3), s.balance(ada))
}

// panicking changes the Book and then fails.
type panicking struct{ AccountName }

func (panicking) check() error         { return nil }
func (panicking) names(*Names)         {}
func (p panicking) lockKeys() []string { return []string{accountLock(p.AccountName)} }
func (p panicking) decide(b *Book) (any, error) {
	b.accounts[p.AccountName].Balance = 1000
	panic("half done")
}

func TestCallerGoneBeforeItsBatch(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l, release := held(t, s, Options{})
	ctx, leave := context.WithCancel(bg)
	wait := inLine(ctx, l, &GrantCredits{AccountName: ada, Amount: 5, Reason: "r"})
	leave()
	require.ErrorIs(t, wait()[0], context.Canceled)
	release()
	_, err := l.Grant(bg, give(ada, 1))
	require.NoError(t, err)
	require.Equal(t, int64(1), s.balance(ada), "it was dropped")
}

func TestCallerGoneInsideItsBatchCounts(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	g := newGate()
	s.before = g.before
	l := ledgerOn(t, s, Options{})
	ctx, leave := context.WithCancel(bg)
	c := give(ada, 5)
	c.Key = "K"
	gone := make(chan error, 1)
	go func() { _, err := l.Grant(ctx, c); gone <- err }()
	<-g.entered
	leave()
	require.ErrorIs(t, <-gone, context.Canceled)
	close(g.open)
	again, err := l.Grant(bg, c)
	require.NoError(t, err)
	require.True(t, again.Replayed, "the same key tells its caller so later")
	require.Equal(t, int64(5), s.balance(ada))
}

func TestUnknownCommitIsRunAgain(t *testing.T) {
	t.Parallel()
	for _, fate := range []Fate{FateUnknown, FateContended, FateUnreached} {
		s := newFakeStore()
		lost := 3
		fail := func() error {
			if lost--; lost >= 0 {
				return &StoreError{Fate: fate, Err: errors.New("cut")}
			}
			return nil
		}
		if fate == FateUnknown {
			s.after = fail // committed each time
		} else {
			s.reject = func(*Changes) error { return fail() }
		}
		a, err := ledgerOn(t, s, Options{}).Grant(bg, give(ada, 5))
		require.NoError(t, err, fate)
		require.Equal(t, []any{int64(5), false}, []any{a.Balance, a.Replayed}, fate)
		require.Equal(t, int64(5), s.balance(ada), fate)
	}
}

// What a commit of unknown fate had decided is answered only if it happened. Here it did not,
// and meanwhile somebody else decided otherwise.
func TestTheAnswersOfALostCommitAreForgottenWhenItDidNotHappen(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l := ledgerOn(t, s, Options{})
	_, err := l.Grant(bg, give(ada, 10))
	require.NoError(t, err)
	opened, err := l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 10})
	require.NoError(t, err)
	_, err = l.Start(bg, StartJob{JobID: opened.Job.ID, Token: "t1", Worker: "w"})
	require.NoError(t, err)
	rival := Direct(s)
	s.reject = func(*Changes) error { // nothing was written
		s.reject = nil
		s.before = func(*Names) error {
			s.before = nil
			_, err := rival.Complete(bg, CompleteJob{JobID: opened.Job.ID, Token: "t1", Actual: 10, Delivered: 1})
			require.NoError(t, err)
			return nil
		}
		return &StoreError{Fate: FateUnknown, Err: errors.New("cut")}
	}
	swept, err := l.Sweep(bg, SweepJob{JobID: opened.Job.ID, Policy: func(Job, time.Time) SweepDecision {
		return SweepDecision{Action: SweepRefund, Reason: EndOrphaned}
	}})
	require.NoError(t, err)
	require.Equal(t, []any{StateCompleted, SweepWait, SweepEnded}, []any{swept.Job.State(), swept.Decision.Action, swept.Decision.Reason})
}

func TestOutageIsAnsweredUnavailable(t *testing.T) {
	t.Parallel()
	for _, fate := range []Fate{FateUnreached, FateUnknown, FateContended} {
		s := newFakeStore()
		s.reject = func(*Changes) error { return &StoreError{Fate: fate, Err: errors.New("away")} }
		_, err := ledgerOn(t, s, Options{GiveUp: time.Millisecond}).Grant(bg, give(ada, 5))
		require.ErrorIs(t, err, ErrUnavailable, fate)
		require.Zero(t, s.balance(ada))
	}
}

func TestOrderIsKeptPerLockKey(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l, release := held(t, s, Options{Lanes: 1, BatchSize: 3})
	var cmds []Command
	for i := range 30 {
		cmds = append(cmds, &note{key: fmt.Sprint(i % 4), n: i})
	}
	said := map[string][]int{}
	for _, c := range cmds {
		c.(*note).said = said //nolint:errcheck // made above
	}
	wait := inLine(bg, l, cmds...)
	release()
	for _, err := range wait() {
		require.NoError(t, err)
	}
	for key, list := range said {
		require.IsIncreasing(t, list, key)
	}
}

// note writes down when it was run.
type note struct {
	key  string
	n    int
	said map[string][]int
}

func (*note) check() error         { return nil }
func (*note) names(*Names)         {}
func (c *note) lockKeys() []string { return []string{c.key} }
func (c *note) decide(*Book) (any, error) {
	c.said[c.key] = append(c.said[c.key], c.n)
	return nil, nil
}

func TestLanesNeverShareALockKey(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	var mu sync.Mutex
	inside := map[AccountName]bool{}
	clash := false
	s.before = func(n *Names) error {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range n.Accounts {
			clash = clash || inside[a]
		}
		for _, a := range n.Accounts {
			inside[a] = true
		}
		return nil
	}
	s.after = func() error { return nil }
	store := &leaving{s, func(n *Names) {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range n.Accounts {
			delete(inside, a)
		}
	}}
	l := ledgerOn(t, store, Options{Lanes: 4, BatchSize: 5})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if _, err := l.Grant(bg, give(account(fmt.Sprint(i%7)), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.False(t, clash)
}

type leaving struct {
	*fakeStore
	left func(*Names)
}

func (s *leaving) Transact(ctx context.Context, n *Names, decide func(*Book) error) error {
	defer s.left(n)
	return s.fakeStore.Transact(ctx, n, decide)
}

func TestCloseFinishesWhatWaits(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l, release := held(t, s, Options{})
	wait := inLine(bg, l, &GrantCredits{AccountName: ada, Amount: 5, Reason: "r"})
	closed := make(chan struct{})
	go func() { l.Close(); close(closed) }()
	release()
	<-closed
	require.NoError(t, wait()[0])
	require.Equal(t, int64(5), s.balance(ada))
	_, err := l.Grant(bg, give(ada, 1))
	require.ErrorIs(t, err, ErrUnavailable)
}
