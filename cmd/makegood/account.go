package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

type accountCmd struct {
	Create    accountCreateCmd    `cmd:"" help:"Open an account."`
	Show      accountShowCmd      `cmd:"" help:"Show an account, now or at a past time."`
	List      accountListCmd      `cmd:"" help:"List accounts, newest first."`
	Grant     accountGrantCmd     `cmd:"" help:"Give credits; opens the account if it is new."`
	Adjust    accountAdjustCmd    `cmd:"" help:"Correct a balance by hand."`
	Statement accountStatementCmd `cmd:"" help:"Every movement with its reason, job and running balance."`
}

type accountCreateCmd struct {
	ID        string        `arg:"" help:"Your own id for it."`
	Overdraft ledger.Amount `help:"How far below zero jobs may take it, in credits." default:"0"`
}

func (cmd *accountCreateCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if _, err := a.Ledger.CreateAccount(ctx, ledger.CreateAccount{AccountName: c.name(cmd.ID), Overdraft: int64(cmd.Overdraft)}); err != nil {
		return err
	}
	return showAccount(ctx, c, a, cmd.ID)
}

type accountShowCmd struct {
	ID string    `arg:""`
	At time.Time `help:"The balance at a past time (RFC 3339)."`
}

func (cmd *accountShowCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if cmd.At.IsZero() {
		return showAccount(ctx, c, a, cmd.ID)
	}
	balance, err := a.Ledger.BalanceAt(ctx, c.name(cmd.ID), cmd.At)
	if err != nil {
		return err
	}
	if c.JSON {
		printJSON(os.Stdout, map[string]any{"account": cmd.ID, "at": shape.Time(cmd.At), "balance": map[string]int64{"available": balance}})
		return nil
	}
	fmt.Printf("%s had %s at %s\n", cmd.ID, c.credits(balance), shape.Clock(cmd.At))
	return nil
}

func showAccount(ctx context.Context, c *cli, a *app.App, id string) error {
	name := c.name(id)
	account, err := a.Ledger.Account(ctx, name)
	if err != nil {
		return err
	}
	balance, err := a.Ledger.Balance(ctx, name)
	if err != nil {
		return err
	}
	grants, err := a.Ledger.Grants(ctx, name)
	if err != nil {
		return err
	}
	open := 0
	for _, state := range []ledger.State{ledger.StateQueued, ledger.StateRunning} {
		jobs, err := a.Ledger.Jobs(ctx, ledger.JobFilter{Tenant: c.Tenant, Account: id, State: state}, ledger.Page{Limit: 200})
		if err != nil {
			return err
		}
		open += len(jobs)
	}
	s := shape.AccountOf(account, balance, grants, open)
	if c.JSON {
		printJSON(os.Stdout, s)
		return nil
	}
	table(os.Stdout, []string{"account", "available", "held", "overdraft", "open jobs", "status"},
		[][]string{{s.Account, c.credits(balance.Available), c.credits(balance.Held), c.credits(s.Overdraft), strconv.Itoa(open), s.Status}})
	return nil
}

type accountListCmd struct {
	Limit  int    `default:"50" help:"Rows, 1 to 200."`
	Cursor string `help:"The next_cursor of the page before."`
}

func (cmd *accountListCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	page, err := pageOf(cmd.Limit, cmd.Cursor)
	if err != nil {
		return err
	}
	accounts, err := a.Ledger.Accounts(ctx, c.Tenant, page)
	if err != nil {
		return err
	}
	list := shape.List[shape.Account]{Data: []shape.Account{}}
	rows := make([][]string, 0, len(accounts))
	for _, account := range accounts {
		balance, err := a.Ledger.Balance(ctx, c.name(account.Name))
		if err != nil {
			return err
		}
		list.Data = append(list.Data, shape.AccountOf(account, balance, nil, 0))
		rows = append(rows, []string{account.Name, c.credits(balance.Available), c.credits(balance.Held), account.Status, shape.Clock(account.CreatedAt)})
	}
	if n := len(accounts); n == page.Limit {
		list.NextCursor = cursorOf(accounts[n-1].CreatedAt, accounts[n-1].ID)
	}
	if c.JSON {
		printJSON(os.Stdout, list)
		return nil
	}
	table(os.Stdout, []string{"account", "available", "held", "status", "created"}, rows)
	return nil
}

type accountGrantCmd struct {
	ID     string        `arg:""`
	Amount ledger.Amount `arg:"" help:"Credits, more than 0."`
	Reason string        `required:"" help:"Why, in a few words."`
	Key    string        `help:"Your own name for this grant: the same again gives nothing."`
	Actor  string        `default:"operator" help:"Who gives it."`
}

func (cmd *accountGrantCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	granted, err := a.Ledger.Grant(ctx, ledger.GrantCredits{AccountName: c.name(cmd.ID), Key: cmd.Key, Amount: int64(cmd.Amount),
		Reason: cmd.Reason, Actor: cmd.Actor})
	if err != nil {
		return err
	}
	balance, err := a.Ledger.Balance(ctx, c.name(cmd.ID))
	if err != nil {
		return err
	}
	if c.JSON {
		granted.Grant.Remaining = min(granted.Grant.Amount, max(balance.Available, 0))
		printJSON(os.Stdout, shape.GrantOf(granted.Grant, balance))
		return nil
	}
	said := "granted"
	if granted.Replayed {
		said = "had been granted before under this key:"
	}
	fmt.Printf("%s %s to %s; available %s\n", said, c.credits(granted.Grant.Amount), cmd.ID, c.credits(balance.Available))
	return nil
}

type accountAdjustCmd struct {
	ID     string        `arg:""`
	Amount ledger.Amount `arg:"" help:"Credits, + or −; write -- before a negative one."`
	Reason string        `required:"" help:"Why, in a few words."`
	Actor  string        `required:"" help:"Who answers for it."`
	Key    string        `help:"Your own name for this adjustment."`
	Job    string        `help:"The job it is about."`
}

func (cmd *accountAdjustCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	adjusted, err := a.Ledger.Adjust(ctx, ledger.AdjustCredits{AccountName: c.name(cmd.ID), Key: cmd.Key, Amount: int64(cmd.Amount),
		AboutJob: cmd.Job, Reason: cmd.Reason, Actor: cmd.Actor})
	if err != nil {
		return err
	}
	return c.printAdjusted(adjusted)
}

func (c *cli) printAdjusted(adjusted ledger.Adjusted) error {
	x := adjusted.Adjustment
	if c.JSON {
		printJSON(os.Stdout, map[string]any{"id": x.ID, "key": shape.Text(x.Key), "account": x.Account, "amount": x.Amount,
			"about_job": shape.Text(x.AboutJob), "reason": x.Reason, "actor": x.Actor, "balance_after": adjusted.Balance,
			"created_at": shape.Time(x.CreatedAt)})
		return nil
	}
	fmt.Printf("adjusted %s by %s; available %s\n", x.Account, c.credits(x.Amount), c.credits(adjusted.Balance))
	return nil
}

type accountStatementCmd struct {
	ID     string    `arg:""`
	From   time.Time `help:"From this moment on (RFC 3339)."`
	To     time.Time `help:"Before this moment (RFC 3339)."`
	Month  string    `help:"A month, YYYY-MM, in UTC."`
	Job    string    `help:"Only what belongs to one job: the answer to a dispute."`
	Format string    `enum:"table,json,csv" default:"table" help:"table, json or csv."`
}

func (cmd *accountStatementCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	if cmd.Month != "" {
		if cmd.From, err = time.Parse("2006-01", cmd.Month); err != nil {
			return ledger.Invalid("month", "write it as 2006-01")
		}
		cmd.To = cmd.From.AddDate(0, 1, 0)
	}
	s, err := statement(ctx, a, c.name(cmd.ID), cmd.From, cmd.To, cmd.Job)
	if err != nil {
		return err
	}
	switch {
	case c.JSON || cmd.Format == "json":
		printJSON(os.Stdout, s)
	case cmd.Format == "csv":
		return statementCSV(s)
	default:
		c.printStatement(s)
	}
	return nil
}

// statement gathers all entries of the time asked for, oldest first.
func statement(ctx context.Context, a *app.App, name ledger.AccountName, from, to time.Time, job string) (shape.Statement, error) {
	now, err := a.Ledger.Now(ctx)
	if err != nil {
		return shape.Statement{}, err
	}
	if to.IsZero() {
		to = now
	}
	account, err := a.Ledger.Account(ctx, name)
	if err != nil {
		return shape.Statement{}, err
	}
	if from.IsZero() {
		from = account.CreatedAt
	}
	s := shape.Statement{Account: name.Name, From: shape.Time(from), To: shape.Time(to), ByKind: map[string]int64{}, Entries: []shape.Entry{}}
	page := ledger.Page{Limit: 200}
	for {
		entries, err := a.Ledger.Entries(ctx, ledger.EntryFilter{Account: name, From: from, To: to, JobID: job}, page)
		if err != nil {
			return s, err
		}
		for _, e := range entries {
			s.Entries = append(s.Entries, shape.EntryOf(e))
			if e.Movement() {
				s.ByKind[string(e.Kind)] += e.Delta
			}
		}
		if len(entries) < page.Limit {
			break
		}
		last := entries[len(entries)-1]
		page.AfterAt, page.AfterID = last.CreatedAt, last.ID
	}
	reverse(s.Entries)
	if s.Opening, err = a.Ledger.BalanceAt(ctx, name, from.Add(-time.Microsecond)); err != nil {
		return s, err
	}
	s.Closing, err = a.Ledger.BalanceAt(ctx, name, to.Add(-time.Microsecond))
	return s, err
}

func reverse[T any](list []T) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

func (c *cli) printStatement(s shape.Statement) {
	rows := make([][]string, 0, len(s.Entries))
	for _, e := range s.Entries {
		after, delta := "", ""
		if e.BalanceAfter != nil {
			after, delta = c.credits(*e.BalanceAfter), fmt.Sprintf("%+d", e.Delta)
		}
		rows = append(rows, []string{shape.Clock(time.Time(e.CreatedAt)), string(e.Kind), delta, after, e.JobID, e.Reason})
	}
	fmt.Printf("%s   opening %s   closing %s\n", s.Account, c.credits(s.Opening), c.credits(s.Closing))
	table(os.Stdout, []string{"time (UTC)", "kind", "credits", "balance", "job", "reason"}, rows)
}

func statementCSV(s shape.Statement) error {
	w := csv.NewWriter(os.Stdout)
	_ = w.Write([]string{"created_at", "id", "seq", "kind", "delta", "balance_after", "job_id", "reason", "actor"})
	for _, e := range s.Entries {
		seq, after := "", ""
		if e.Seq != nil {
			seq, after = strconv.FormatInt(*e.Seq, 10), strconv.FormatInt(*e.BalanceAfter, 10)
		}
		_ = w.Write([]string{time.Time(e.CreatedAt).UTC().Format(time.RFC3339Nano), e.ID, seq, string(e.Kind),
			strconv.FormatInt(e.Delta, 10), after, e.JobID, plain(e.Reason), plain(e.Actor)})
	}
	w.Flush()
	return w.Error()
}

// plain keeps a spreadsheet from taking text for a formula.
func plain(s string) string {
	if s != "" && (s[0] == '=' || s[0] == '+' || s[0] == '-' || s[0] == '@') {
		return "'" + s
	}
	return s
}
