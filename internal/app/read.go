package app

import (
	"context"
	"slices"
	"time"

	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

// pageSize is how many rows are read at once where all are wanted.
const pageSize = 200

// Account gathers what an account looks like now.
func (a *App) Account(ctx context.Context, name ledger.AccountName) (shape.Account, error) {
	account, err := a.Ledger.Account(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	balance, err := a.Ledger.Balance(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	grants, err := a.Ledger.Grants(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	open, err := a.openJobs(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	return shape.AccountOf(account, balance, grants, open), nil
}

// openJobs counts an account's open jobs, at the cost of their number.
func (a *App) openJobs(ctx context.Context, name ledger.AccountName) (open int, err error) {
	for _, state := range []ledger.State{ledger.StateQueued, ledger.StateRunning} {
		page := ledger.Page{Limit: pageSize}
		for full := true; full; {
			jobs, err := a.Ledger.Jobs(ctx, ledger.JobFilter{Tenant: name.Tenant, Account: name.Name, State: state}, page)
			if err != nil {
				return 0, err
			}
			open += len(jobs)
			if full = len(jobs) == page.Limit; full {
				page.AfterAt, page.AfterID = jobs[len(jobs)-1].CreatedAt, jobs[len(jobs)-1].ID
			}
		}
	}
	return open, nil
}

// pageOf reads the rows of one page that are wanted, reading on until it is full. next is nil
// when it was the last.
func pageOf[T any](page ledger.Page, read func(ledger.Page) ([]T, error), key func(T) (time.Time, string), wanted func(T) bool) (rows []T, next *string, err error) {
	limit := page.Limit
	page.Limit = min(limit+1, pageSize) // one more tells whether there is a next page
	for {
		batch, err := read(page)
		if err != nil {
			return nil, nil, err
		}
		for _, row := range batch {
			page.AfterAt, page.AfterID = key(row)
			if !wanted(row) {
				continue
			}
			if len(rows) == limit {
				return rows, shape.Cursor(key(rows[limit-1])), nil
			}
			rows = append(rows, row)
		}
		if len(batch) < page.Limit {
			return rows, nil, nil
		}
	}
}

// Accounts gathers one page of a tenant's accounts, newest first.
func (a *App) Accounts(ctx context.Context, tenant string, page ledger.Page) (shape.List[shape.Account], error) {
	list := shape.List[shape.Account]{Data: []shape.Account{}}
	accounts, next, err := pageOf(page,
		func(page ledger.Page) ([]ledger.Account, error) { return a.Ledger.Accounts(ctx, tenant, page) },
		func(account ledger.Account) (time.Time, string) { return account.CreatedAt, account.ID },
		func(ledger.Account) bool { return true })
	if err != nil {
		return list, err
	}
	for _, account := range accounts {
		s, err := a.Account(ctx, ledger.AccountName{Tenant: tenant, Name: account.Name})
		if err != nil {
			return list, err
		}
		list.Data = append(list.Data, s)
	}
	list.NextCursor = next
	return list, nil
}

// Grant gathers what one grant of an account looks like now.
func (a *App) Grant(ctx context.Context, name ledger.AccountName, id string) (shape.Grant, error) {
	balance, err := a.Ledger.Balance(ctx, name)
	if err != nil {
		return shape.Grant{}, err
	}
	grants, err := a.Ledger.Grants(ctx, name) // all, since what is left of one depends on the others
	if err != nil {
		return shape.Grant{}, err
	}
	i := slices.IndexFunc(grants, func(g ledger.Grant) bool { return g.ID == id })
	if i < 0 {
		return shape.Grant{}, ledger.NotFound("grant", id)
	}
	return shape.GrantOf(grants[i], balance), nil
}

// AccountAt gathers what an account had at a past time: what the entries up to then say. It
// costs the number of these entries. Grants show what was given by then, with nothing said
// about what was left of each.
func (a *App) AccountAt(ctx context.Context, name ledger.AccountName, at time.Time) (shape.Account, error) {
	account, err := a.Ledger.Account(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	var balance ledger.Balance
	open, moved, ended := 0, false, map[string]bool{}
	err = a.entries(ctx, ledger.EntryFilter{Account: name, To: at.Add(time.Microsecond)}, func(e ledger.Entry) {
		if e.Movement() && !moved {
			balance.Available, moved = e.BalanceAfter, true // the newest comes first
		}
		switch {
		case e.Kind.Outcome():
			ended[e.JobID] = true
		case e.Kind == ledger.KindDeduct && !ended[e.JobID]: // its outcome would have come before it
			balance.Held -= e.Delta
			open++
		}
	})
	if err != nil {
		return shape.Account{}, err
	}
	grants, err := a.Ledger.Grants(ctx, name)
	if err != nil {
		return shape.Account{}, err
	}
	grants = slices.DeleteFunc(grants, func(g ledger.Grant) bool { return g.CreatedAt.After(at) })
	ledger.FillRemaining(grants, balance.Available)
	return shape.AccountOf(account, balance, grants, open), nil
}

// entries visits all entries of a filter, newest first.
func (a *App) entries(ctx context.Context, f ledger.EntryFilter, visit func(ledger.Entry)) error {
	page := ledger.Page{Limit: pageSize}
	for {
		entries, err := a.Ledger.Entries(ctx, f, page)
		if err != nil {
			return err
		}
		for _, e := range entries {
			visit(e)
		}
		if len(entries) < page.Limit {
			return nil
		}
		last := entries[len(entries)-1]
		page.AfterAt, page.AfterID = last.CreatedAt, last.ID
	}
}

// Period is what a statement covers: From ≤ created_at < To. A zero From is the account's
// beginning, a zero To is now.
type Period struct{ From, To time.Time }

// Statement gathers what happened to an account, oldest first. With a jobID only what belongs
// to that job is listed and added up; opening and closing stay the account's.
func (a *App) Statement(ctx context.Context, name ledger.AccountName, p Period, jobID string) (shape.Statement, error) {
	account, err := a.Ledger.Account(ctx, name)
	if err != nil {
		return shape.Statement{}, err
	}
	if p.From.IsZero() {
		p.From = account.CreatedAt
	}
	if p.To.IsZero() {
		if p.To, err = a.Ledger.Now(ctx); err != nil {
			return shape.Statement{}, err
		}
	}
	if p.To.Before(p.From) {
		return shape.Statement{}, ledger.Invalid("to", "lies before from")
	}
	if jobID != "" {
		if err := a.checkJob(ctx, name, jobID); err != nil {
			return shape.Statement{}, err
		}
	}
	s := shape.Statement{Account: name.Name, From: shape.Time(p.From), To: shape.Time(p.To), ByKind: map[string]int64{}, Entries: []shape.Entry{}}
	moved := false
	err = a.entries(ctx, ledger.EntryFilter{Account: name, From: p.From, To: p.To, JobID: jobID}, func(e ledger.Entry) {
		s.Entries = append(s.Entries, shape.EntryOf(e))
		if !e.Movement() {
			return
		}
		s.ByKind[string(e.Kind)] += e.Delta
		if !moved {
			s.Closing, moved = e.BalanceAfter, true
		}
		s.Opening = e.BalanceAfter - e.Delta
	})
	if err != nil {
		return s, err
	}
	slices.Reverse(s.Entries)
	if moved && jobID == "" {
		return s, nil // read off the entries, so that a commit under way cannot come between
	}
	if s.Opening, err = a.Ledger.BalanceAt(ctx, name, p.From.Add(-time.Microsecond)); err != nil {
		return s, err
	}
	s.Closing, err = a.Ledger.BalanceAt(ctx, name, p.To.Add(-time.Microsecond))
	return s, err
}

// checkJob refuses a job that is not the account's.
func (a *App) checkJob(ctx context.Context, name ledger.AccountName, jobID string) error {
	j, err := a.Ledger.Job(ctx, name.Tenant, jobID)
	if err == nil && j.Account != name.Name {
		err = ledger.NotFound("job", jobID)
	}
	return err
}

// Job gathers what a job looks like.
func (a *App) Job(ctx context.Context, j ledger.Job) (shape.Job, error) {
	balance, err := a.Ledger.Balance(ctx, ledger.AccountName{Tenant: j.Tenant, Name: j.Account})
	if err != nil {
		return shape.Job{}, err
	}
	credited, err := a.Ledger.Credited(ctx, j.ID)
	if err != nil {
		return shape.Job{}, err
	}
	dir := a.Config.ArtifactsDir()
	return shape.JobOf(j, balance, credited, func(key string) string { return dir + "/" + key }), nil
}

// JobStory gathers a job with everything that happened to it.
func (a *App) JobStory(ctx context.Context, tenant, id string) (shape.JobStory, error) {
	j, err := a.Ledger.Job(ctx, tenant, id)
	if err != nil {
		return shape.JobStory{}, err
	}
	s, err := a.Job(ctx, j)
	if err != nil {
		return shape.JobStory{}, err
	}
	entries, err := a.Ledger.JobEntries(ctx, j.ID)
	if err != nil {
		return shape.JobStory{}, err
	}
	attempts, err := a.Ledger.Attempts(ctx, j.ID)
	if err != nil {
		return shape.JobStory{}, err
	}
	calls, err := a.Ledger.Calls(ctx, j.ID)
	if err != nil {
		return shape.JobStory{}, err
	}
	return shape.StoryOf(s, j, entries, attempts, calls), nil
}

// Jobs gathers one page of jobs, newest first; flagged asks for those with a flag alone.
func (a *App) Jobs(ctx context.Context, f ledger.JobFilter, flagged bool, page ledger.Page) (shape.List[shape.Job], error) {
	list := shape.List[shape.Job]{Data: []shape.Job{}}
	jobs, next, err := pageOf(page,
		func(page ledger.Page) ([]ledger.Job, error) { return a.Ledger.Jobs(ctx, f, page) },
		func(j ledger.Job) (time.Time, string) { return j.CreatedAt, j.ID },
		func(j ledger.Job) bool { return !flagged || len(shape.FlagsOf(j)) > 0 })
	if err != nil {
		return list, err
	}
	for _, j := range jobs {
		s, err := a.Job(ctx, j)
		if err != nil {
			return list, err
		}
		list.Data = append(list.Data, s)
	}
	list.NextCursor = next
	return list, nil
}
