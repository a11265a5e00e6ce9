package main

import (
	"context"
	"fmt"
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
	return c.with(ctx, func(a *app.App) error {
		order := ledger.CreateAccount{AccountName: c.name(cmd.ID), Overdraft: int64(cmd.Overdraft)}
		if _, err := a.Ledger.CreateAccount(ctx, order); err != nil {
			return err
		}
		s, err := a.Account(ctx, order.AccountName)
		if err != nil {
			return err
		}
		return c.showAccounts(s, s)
	})
}

type accountShowCmd struct {
	ID string    `arg:"" help:"The account."`
	At time.Time `help:"As it stood at a past time (RFC 3339)."`
}

func (cmd *accountShowCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) (err error) {
		var s shape.Account
		if cmd.At.IsZero() {
			s, err = a.Account(ctx, c.name(cmd.ID))
		} else {
			s, err = a.AccountAt(ctx, c.name(cmd.ID), cmd.At)
		}
		if err != nil {
			return err
		}
		return c.showAccounts(s, s)
	})
}

// showAccounts prints accounts as a table, or document as JSON.
func (c *cli) showAccounts(document any, accounts ...shape.Account) error {
	return c.show(document, func() {
		rows := make([][]string, 0, len(accounts))
		for _, s := range accounts {
			rows = append(rows, []string{s.Account, c.credits(s.Balance.Available), c.credits(s.Balance.Held), c.credits(s.Overdraft),
				strconv.Itoa(s.OpenJobs), s.Status, shape.Clock(time.Time(s.CreatedAt))})
		}
		c.table([]string{"account", "available", "held", "overdraft", "open jobs", "status", "created (UTC)"}, rows)
	})
}

// pageFlags choose one page of a list.
type pageFlags struct {
	Limit  int    `default:"50" help:"Rows, 1 to 200."`
	Cursor string `help:"The next_cursor of the page before."`
}

type accountListCmd struct{ pageFlags }

func (cmd *accountListCmd) Run(ctx context.Context, c *cli) error {
	page, err := shape.PageOf(cmd.Limit, cmd.Cursor)
	if err != nil {
		return err
	}
	return c.with(ctx, func(a *app.App) error {
		list, err := a.Accounts(ctx, c.Tenant, page)
		if err != nil {
			return err
		}
		defer c.more(list.NextCursor)
		return c.showAccounts(list, list.Data...)
	})
}

type accountGrantCmd struct {
	ID     string        `arg:"" help:"The account."`
	Amount ledger.Amount `arg:"" help:"Credits, more than 0."`
	Reason string        `required:"" help:"Why, in a few words."`
	Key    string        `help:"Your own name for this grant: the same again gives nothing."`
	Actor  string        `default:"operator" help:"Who gives it."`
}

func (cmd *accountGrantCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		name := c.name(cmd.ID)
		granted, err := a.Ledger.Grant(ctx, ledger.GrantCredits{AccountName: name, Key: cmd.Key, Amount: int64(cmd.Amount),
			Reason: cmd.Reason, Actor: cmd.Actor})
		if err != nil {
			return err
		}
		s, err := a.Grant(ctx, name, granted.Grant.ID)
		if err != nil {
			return err
		}
		return c.show(s, func() {
			said := "granted"
			if granted.Replayed {
				said = "had been granted before under this key:"
			}
			fmt.Fprintf(c.out, "%s %s to %s; available %s\n", said, c.credits(s.Amount), s.Account, c.credits(s.Balance.Available))
		})
	})
}

type accountAdjustCmd struct {
	ID     string        `arg:"" help:"The account."`
	Amount ledger.Amount `arg:"" help:"Credits, + or −."`
	Reason string        `required:"" help:"Why, in a few words."`
	Actor  string        `required:"" help:"Who answers for it."`
	Key    string        `help:"Your own name for this adjustment: the same again moves nothing."`
	Job    string        `help:"The job it is about."`
}

func (cmd *accountAdjustCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		adjusted, err := a.Ledger.Adjust(ctx, ledger.AdjustCredits{AccountName: c.name(cmd.ID), Key: cmd.Key, Amount: int64(cmd.Amount),
			AboutJob: cmd.Job, Reason: cmd.Reason, Actor: cmd.Actor})
		if err != nil {
			return err
		}
		return c.showAdjusted(ctx, a, adjusted)
	})
}

func (c *cli) showAdjusted(ctx context.Context, a *app.App, adjusted ledger.Adjusted) error {
	x := adjusted.Adjustment
	balance, err := a.Ledger.Balance(ctx, c.name(x.Account))
	if err != nil {
		return err
	}
	s := shape.AdjustmentOf(x, balance)
	return c.show(s, func() {
		said := "adjusted"
		if adjusted.Replayed {
			said = "had been adjusted before under this key:"
		}
		fmt.Fprintf(c.out, "%s %s by %s; available %s\n", said, x.Account, shape.Signed(x.Amount, c.CreditScale), c.credits(balance.Available))
	})
}

type accountStatementCmd struct {
	ID     string    `arg:"" help:"The account."`
	From   time.Time `xor:"from" help:"From this moment on (RFC 3339)."`
	To     time.Time `xor:"to" help:"Before this moment (RFC 3339)."`
	Month  month     `xor:"from,to" help:"A month, YYYY-MM, in UTC."`
	Job    string    `help:"Only what belongs to one job: the answer to a dispute."`
	Format string    `enum:"table,json,csv,html" default:"table" help:"table, json, csv or html."`
}

// month is a calendar month in UTC, by its first moment.
type month struct{ time.Time }

// UnmarshalText reads YYYY-MM.
func (m *month) UnmarshalText(text []byte) (err error) {
	if m.Time, err = time.Parse("2006-01", string(text)); err != nil {
		return fmt.Errorf("%q is no month; write it as YYYY-MM, such as 2026-03", text)
	}
	return nil
}

func (cmd *accountStatementCmd) Run(ctx context.Context, c *cli) error {
	period := app.Period{From: cmd.From, To: cmd.To}
	if !cmd.Month.IsZero() {
		period = app.Period{From: cmd.Month.Time, To: cmd.Month.AddDate(0, 1, 0)}
	}
	return c.with(ctx, func(a *app.App) error {
		waiting := c.progress("reading the entries of " + cmd.ID)
		s, err := a.Statement(ctx, c.name(cmd.ID), period, cmd.Job)
		waiting.stop()
		if err != nil {
			return err
		}
		switch {
		case c.JSON || cmd.Format == "json":
			printJSON(c.out, s)
		case cmd.Format == "csv":
			return s.CSV(c.out)
		case cmd.Format == "html":
			return s.HTML(c.out, c.CreditScale)
		default:
			c.printStatement(s)
		}
		return nil
	})
}

func (c *cli) printStatement(s shape.Statement) {
	rows := make([][]string, 0, len(s.Entries))
	for _, e := range s.Entries {
		after, delta := "", ""
		if e.BalanceAfter != nil {
			after, delta = c.credits(*e.BalanceAfter), shape.Signed(e.Delta, c.CreditScale)
		}
		rows = append(rows, []string{shape.Clock(time.Time(e.CreatedAt)), string(e.Kind), delta, after, e.JobID, e.Reason})
	}
	fmt.Fprintf(c.out, "%s   opening %s   closing %s\n", s.Account, c.credits(s.Opening), c.credits(s.Closing))
	c.table([]string{"time (UTC)", "kind", "credits", "balance", "job", "reason"}, rows)
}
