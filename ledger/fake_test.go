package ledger

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"
)

// fakeStore is a Store of maps, for tests of the group commit. Its hooks say what a database
// would do to a transaction.
type fakeStore struct {
	Reader
	Bookkeeping

	mu       sync.Mutex
	now      time.Time
	accounts map[string]Account
	jobs     map[string]Job
	attempts []Attempt
	grants   map[string]Grant
	commits  int

	before func(*Names) error   // instead of the transaction, when it returns an error
	reject func(*Changes) error // instead of the commit
	after  func() error         // after the commit
}

func newFakeStore() *fakeStore {
	return &fakeStore{now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), accounts: map[string]Account{}, jobs: map[string]Job{}, grants: map[string]Grant{}}
}

func (s *fakeStore) Close() error { return nil }

// book loads everything, which any set of names is part of.
func (s *fakeStore) book() *Book {
	s.now = s.now.Add(time.Millisecond)
	b := NewBook(s.now)
	for _, a := range s.accounts {
		b.LoadAccount(&a)
	}
	for _, j := range s.jobs {
		c := j.clone()
		b.LoadJob(&c)
	}
	for _, j := range s.jobs {
		if j.Open != nil {
			b.held[j.AccountID] += j.Open.Held
		}
	}
	for _, at := range s.attempts {
		b.LoadAttempt(at)
	}
	for _, g := range s.grants {
		b.LoadGrant(&g)
	}
	return b
}

func (s *fakeStore) Transact(_ context.Context, n *Names, decide func(*Book) error) error {
	if s.before != nil {
		if err := s.before(n); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.book()
	if err := decide(b); err != nil {
		return err
	}
	if s.reject != nil {
		if err := s.reject(b.Changes()); err != nil {
			return err
		}
	}
	for _, a := range b.accountByID {
		s.accounts[a.ID] = *a
	}
	for _, j := range b.jobs {
		s.jobs[j.ID] = j.clone()
	}
	for _, g := range b.grants {
		s.grants[g.ID] = *g
	}
	s.attempts = append(s.attempts, b.changes.Attempts...)
	s.commits++
	if s.after != nil {
		return s.after()
	}
	return nil
}

func (s *fakeStore) balance(name AccountName) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.accounts {
		if a.Name == name.Name {
			return a.Balance
		}
	}
	return 0
}

var (
	bg  = context.Background()
	ada = AccountName{Tenant: "default", Name: "ada"}
)

func account(name string) AccountName { return AccountName{Tenant: "default", Name: name} }

// testLedger is a ledger whose group a test can look into.
type testLedger struct {
	*Ledger
	group *group
}

// ledgerOn is a ledger with one lane, so that what waits together runs together.
func ledgerOn(t *testing.T, s Store, o Options) *testLedger {
	t.Helper()
	o.Lanes = max(o.Lanes, 1)
	if o.BatchSize == 0 {
		o.BatchSize = 100
	}
	if o.GiveUp == 0 {
		o.GiveUp = 10 * time.Second
	}
	o.Logger = slog.New(slog.DiscardHandler)
	g := newGroup(s, o)
	l := &testLedger{&Ledger{Reader: s, Bookkeeping: s, do: g.do, load: g.load, close: g.close, answer: o.Observe.answer}, g}
	t.Cleanup(l.Close)
	return l
}

func give(name AccountName, amount int64) GrantCredits {
	return GrantCredits{AccountName: name, Amount: amount, Reason: "test"}
}
