package ledger

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// notes are what an Observer was told.
type notes struct {
	mu      sync.Mutex
	sizes   []int
	fates   []Fate
	halved  []int
	ended   []Job
	answers []Answer
}

func (n *notes) observer() Observer {
	noted := func(note func()) {
		n.mu.Lock()
		defer n.mu.Unlock()
		note()
	}
	return Observer{
		Batch:  func(size int) { noted(func() { n.sizes = append(n.sizes, size) }) },
		Commit: func(c Commit) { noted(func() { n.fates = append(n.fates, c.Fate) }) },
		Halve:  func(size int) { noted(func() { n.halved = append(n.halved, size) }) },
		Ended:  func(j Job) { noted(func() { n.ended = append(n.ended, j) }) },
		Answer: func(a Answer) { noted(func() { n.answers = append(n.answers, a) }) },
	}
}

func (n *notes) last() Answer { return n.answers[len(n.answers)-1] }

func TestObserverIsToldEachAnswer(t *testing.T) {
	t.Parallel()
	var seen notes
	l := ledgerOn(t, newFakeStore(), Options{Observe: seen.observer()})
	_, err := l.CreateAccount(bg, CreateAccount{AccountName: ada})
	require.NoError(t, err)
	require.IsType(t, &CreateAccount{}, seen.last().Command)
	require.IsType(t, AccountCreated{}, seen.last().Value)
	require.Positive(t, seen.last().Took)

	_, err = l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 5})
	require.ErrorIs(t, err, ErrInsufficientCredits)
	require.Equal(t, err, seen.last().Err)
	require.Nil(t, seen.last().Value)

	_, err = l.Open(bg, OpenJob{AccountName: ada, Type: "no type", Cost: 5})
	require.ErrorIs(t, err, ErrInvalid)
	require.ErrorIs(t, seen.last().Err, ErrInvalid)
	require.Zero(t, seen.last().Took, "it never waited")

	require.Equal(t, []Fate{"", ""}, seen.fates)
	require.Len(t, seen.answers, 3)
	l.Close()
	_, err = l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 5})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, seen.last().Err, ErrUnavailable)
}

func TestObserverIsToldWhoLeftBeforeTheBatch(t *testing.T) {
	t.Parallel()
	var seen notes
	l, release := held(t, newFakeStore(), Options{Observe: seen.observer()})
	ctx, leave := context.WithCancel(bg)
	wait := inLine(ctx, l, &GrantCredits{AccountName: ada, Amount: 5, Reason: "r"})
	require.Equal(t, Load{Waiting: 1, Batches: 1}, l.Load())
	leave()
	require.ErrorIs(t, wait()[0], context.Canceled)
	release()
	l.Close()
	require.Len(t, seen.answers, 2)
	require.ErrorIs(t, seen.last().Err, context.Canceled)
	require.Equal(t, Load{}, l.Load())
}

// A commit whose result is unknown is run again and ends nothing then: the job has ended once
// all the same.
func TestObserverIsToldOnceOfAJobThatEnds(t *testing.T) {
	t.Parallel()
	for name, happened := range map[string]bool{"and had happened": true, "and had not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen notes
			s := newFakeStore()
			l := ledgerOn(t, s, Options{Observe: seen.observer()})
			_, err := l.Grant(bg, give(ada, 10))
			require.NoError(t, err)
			opened, err := l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 5})
			require.NoError(t, err)
			_, err = l.Start(bg, StartJob{JobID: opened.Job.ID, Token: "t", Worker: "w"})
			require.NoError(t, err)

			unknown := 2 // times in a row
			lost := func() error {
				if unknown--; unknown >= 0 {
					return &StoreError{Fate: FateUnknown, Err: errors.New("the connection broke")}
				}
				return nil
			}
			if happened {
				s.after = lost
			} else {
				s.reject = func(*Changes) error { return lost() }
			}
			fail := FailJob{JobID: opened.Job.ID, Token: "t"}
			_, err = l.Fail(bg, fail)
			require.NoError(t, err)
			again, err := l.Fail(bg, fail)
			require.NoError(t, err)
			require.True(t, again.Replayed)

			require.Equal(t, []Fate{"", "", "", FateUnknown, FateUnknown, "", ""}, seen.fates)
			require.Len(t, seen.ended, 1)
			require.Equal(t, opened.Job.ID, seen.ended[0].ID)
			require.Equal(t, EndVendor, seen.ended[0].End.Reason)
			require.Equal(t, int64(5), seen.ended[0].End.Held)
		})
	}
}

func TestObserverIsToldOfHalves(t *testing.T) {
	t.Parallel()
	var seen notes
	s := newFakeStore()
	l, release := held(t, s, Options{Observe: seen.observer()})
	s.reject = func(c *Changes) error {
		for _, e := range c.Entries {
			if e.Delta == 13 {
				return &StoreError{Fate: FateRejected, Err: errors.New("CHECK violated")}
			}
		}
		return nil
	}
	var cmds []Command
	for _, amount := range []int64{1, 13, 2, 3} {
		cmds = append(cmds, &GrantCredits{AccountName: ada, Amount: amount, Reason: "r"})
	}
	wait := inLine(bg, l, cmds...)
	release()
	wait()
	require.Equal(t, []int{1, 4}, seen.sizes)
	require.Equal(t, []int{4, 2}, seen.halved)
	require.Equal(t, []Fate{"", FateRejected, FateRejected, "", FateRejected, ""}, seen.fates)
	require.Len(t, seen.answers, 5)
}

// A late success whose commit is unknown is told as news once it is known, and not as a
// repetition: it has one warning and one count.
func TestLateSuccessOfAnUnknownCommitIsNews(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l := ledgerOn(t, s, Options{})
	_, err := l.Grant(bg, give(ada, 10))
	require.NoError(t, err)
	opened, err := l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 5})
	require.NoError(t, err)
	id := opened.Job.ID
	_, err = l.Start(bg, StartJob{JobID: id, Token: "t", Worker: "w"})
	require.NoError(t, err)
	_, err = l.ClaimCall(bg, ClaimCall{JobID: id, Token: "t", Provider: "studio"})
	require.NoError(t, err)
	_, err = l.Fail(bg, FailJob{JobID: id, Token: "t", Reason: EndCancelled})
	require.NoError(t, err)

	lost := 1
	s.after = func() error {
		if lost--; lost >= 0 {
			return &StoreError{Fate: FateUnknown, Err: errors.New("the connection broke")}
		}
		return nil
	}
	hear := HearCall{JobID: id, N: 1, Provider: "studio", Succeeded: true}
	heard, err := l.HearCall(bg, hear)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, []bool{heard.Late, heard.Replayed})
	heard, err = l.HearCall(bg, hear)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true}, []bool{heard.Late, heard.Replayed})
}
