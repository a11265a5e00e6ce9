package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
)

type migrateCmd struct {
	Up     migrateUpCmd     `cmd:"" help:"Apply what is missing."`
	Status migrateStatusCmd `cmd:"" help:"List the steps."`
}

type migrateUpCmd struct {
	AppRole string `help:"PostgreSQL role of the programs: may read and add entries, never change them."`
}

func (cmd *migrateUpCmd) Run(ctx context.Context, c *cli) error {
	if _, file := c.SQLiteFile(); file && cmd.AppRole != "" {
		return ledger.Invalid("app-role", "SQLite has no roles; leave it out")
	}
	waiting := c.progress("bringing the database up to date")
	applied, err := app.Migrate(ctx, c.Config)
	if err == nil && cmd.AppRole != "" {
		err = app.GrantAppRole(ctx, c.Config, cmd.AppRole)
	}
	waiting.stop()
	if err != nil {
		return err
	}
	return c.show(map[string]int{"applied": applied}, func() {
		fmt.Fprintf(c.out, "applied %d migration(s); the schema is up to date\n", applied)
	})
}

type migrateStatusCmd struct{}

func (*migrateStatusCmd) Run(ctx context.Context, c *cli) error {
	steps, err := app.MigrationStatus(ctx, c.Config)
	if err != nil {
		return err
	}
	type step struct {
		Version   int64      `json:"version"`
		Name      string     `json:"name"`
		Applied   bool       `json:"applied"`
		AppliedAt shape.Time `json:"applied_at"`
	}
	list := shape.List[step]{Data: []step{}}
	rows := make([][]string, 0, len(steps))
	for _, s := range steps {
		list.Data = append(list.Data, step{s.Version, s.Name, s.Applied, shape.Time(s.At)})
		rows = append(rows, []string{strconv.FormatInt(s.Version, 10), s.Name, strconv.FormatBool(s.Applied), shape.Clock(s.At)})
	}
	return c.show(list, func() { c.table([]string{"version", "step", "applied", "at (UTC)"}, rows) })
}

type reconcileCmd struct {
	DryRun bool `help:"Say what a sweep would do, and do nothing."`
}

func (cmd *reconcileCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		waiting := c.progress("looking at open jobs")
		report, err := a.Reconciler().Sweep(ctx, reconciler.SweepOptions{DryRun: cmd.DryRun, Progress: func(seen int) {
			waiting.set("%d open jobs seen", seen)
		}})
		waiting.stop()
		if err != nil {
			return err
		}
		return c.show(report, func() { c.printSweep(report) })
	})
}

func (c *cli) printSweep(r reconciler.Report) {
	rows := make([][]string, 0, len(r.Decisions))
	for _, d := range r.Decisions {
		rows = append(rows, []string{d.JobID, string(d.State), string(d.Action), string(d.Reason)})
	}
	refunded := "refunded"
	if r.DryRun {
		refunded = "would be refunded"
	}
	fmt.Fprintf(c.out, "sweep %s: %d open jobs seen, %d %s, %d left, %d errors\n", r.SweepID, r.Seen, r.Refunded, refunded, r.Left, r.Errors)
	c.table([]string{"job", "state", "action", "why"}, rows)
}

type verifyCmd struct {
	Account string `help:"Only this account."`
}

func (cmd *verifyCmd) Run(ctx context.Context, c *cli) error {
	report, err := c.verify(ctx, c.Config, cmd.Account)
	if err != nil {
		return err
	}
	_ = c.show(report, func() { c.printVerify(report) })
	if !report.OK {
		return exitError(app.ExitBroken)
	}
	return nil
}

func (c *cli) verify(ctx context.Context, cfg config.Config, account string) (reconciler.VerifyReport, error) {
	waiting := c.progress("verifying")
	defer waiting.stop()
	return app.Verify(ctx, cfg, account, func(rows int64) { waiting.set("%d rows verified", rows) })
}

func (c *cli) printVerify(r reconciler.VerifyReport) {
	rows := make([][]string, 0, len(r.Invariants))
	for _, i := range r.Invariants {
		state := "holds"
		if !i.OK {
			state = fmt.Sprintf("BROKEN: %d", i.Broken)
		}
		rows = append(rows, []string{i.ID, state})
	}
	c.table([]string{"invariant", "state"}, rows)
	for _, b := range r.Broken {
		fmt.Fprintf(c.out, "%s %s %s: %s (expected %v, found %v)\n", b.Invariant, b.Table, b.ID, b.Detail, b.Expected, b.Found)
	}
	x := r.Conservation
	fmt.Fprintf(c.out, "granted %s + adjusted %s = available %s + held %s + spent %s + expired %s + revoked %s  (difference %s)\n",
		c.credits(x.Granted), c.credits(x.Adjusted), c.credits(x.Available), c.credits(x.Held), c.credits(x.Spent),
		c.credits(x.Expired), c.credits(x.Revoked), c.credits(x.Difference))
	fmt.Fprintf(c.out, "%d accounts, %d entries, %d jobs\n", r.Counts.Accounts, r.Counts.Entries, r.Counts.Jobs)
}

// configCmd prints the settings.
type configCmd struct{}

func (*configCmd) Run(c *cli) error {
	cfg, err := c.For(config.Command)
	if err != nil {
		return err
	}
	type setting struct {
		Name   string     `json:"name"`
		Value  shape.Text `json:"value"` // secrets masked
		Source string     `json:"source"`
	}
	list := shape.List[setting]{Data: []setting{}}
	rows := [][]string{}
	for _, s := range cfg.Effective() {
		list.Data = append(list.Data, setting{s.Name, shape.Text(s.Value), s.Source})
		rows = append(rows, []string{s.Name, s.Value, s.Source})
	}
	return c.show(list, func() { c.table([]string{"setting", "value", "from"}, rows) })
}

// upCmd is the whole product in one process.
type upCmd struct{}

func (*upCmd) Run(ctx context.Context, c *cli) error {
	cfg, err := c.For(config.Up)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(c.err, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return err
	}
	if file, ok := cfg.SQLiteFile(); ok {
		unlock, err := lockFile(file)
		if err != nil {
			return err
		}
		defer unlock()
	}
	if _, err := app.Migrate(ctx, cfg); err != nil {
		return err
	}
	if cfg.RedisURL == config.Embedded {
		server, err := embeddedredis.Start()
		if err != nil {
			return err
		}
		defer server.Close()
		cfg.RedisURL = server.URL()
	}
	a, err := app.Open(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer a.Close()
	err = a.Serve(ctx, func(ctx context.Context) error {
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return a.Work(ctx) })
		g.Go(func() error { return a.Schedule(ctx) })
		return g.Wait()
	}, func(url string) { fmt.Fprintln(c.out, "ready", url) })
	if errors.Is(err, context.Canceled) {
		return nil // told to stop, and stopped
	}
	return err
}

// childWorkerCmd and childSchedulerCmd are what the demo runs as processes of their own.
type childWorkerCmd struct{}

func (*childWorkerCmd) Run(c *cli) error { return c.child(config.Worker, (*app.App).Work) }

type childSchedulerCmd struct{}

func (*childSchedulerCmd) Run(c *cli) error { return c.child(config.Scheduler, (*app.App).Schedule) }

func (c *cli) child(program config.Program, run func(*app.App, context.Context) error) error {
	return app.Serve(c.Config, program, run)
}
