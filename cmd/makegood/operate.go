package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/migrations"
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
	db, dialect, err := app.OwnerDB(c.Config)
	if err != nil {
		return err
	}
	defer db.Close()
	applied, err := migrations.Up(ctx, db, dialect)
	if err != nil {
		return ledger.Unavailable(err)
	}
	if cmd.AppRole != "" {
		if dialect != migrations.Postgres {
			return ledger.Invalid("app-role", "SQLite has no roles; leave it out")
		}
		if err := migrations.GrantAppRole(ctx, db, cmd.AppRole); err != nil {
			return err
		}
	}
	if c.JSON {
		printJSON(os.Stdout, map[string]int{"applied": applied})
		return nil
	}
	fmt.Printf("applied %d migration(s); the schema is up to date\n", applied)
	return nil
}

type migrateStatusCmd struct{}

func (*migrateStatusCmd) Run(ctx context.Context, c *cli) error {
	db, dialect, err := app.OwnerDB(c.Config)
	if err != nil {
		return err
	}
	defer db.Close()
	steps, err := migrations.Status(ctx, db, dialect)
	if err != nil {
		return ledger.Unavailable(err)
	}
	if c.JSON {
		printJSON(os.Stdout, steps)
		return nil
	}
	rows := make([][]string, 0, len(steps))
	for _, s := range steps {
		rows = append(rows, []string{strconv.FormatInt(s.Version, 10), s.Name, strconv.FormatBool(s.Applied), shape.Clock(s.At)})
	}
	table(os.Stdout, []string{"version", "step", "applied", "at"}, rows)
	return nil
}

type reconcileCmd struct {
	DryRun bool `help:"Say what a sweep would do, and do nothing."`
}

func (cmd *reconcileCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	report, err := a.Reconciler().Sweep(ctx, reconciler.SweepOptions{DryRun: cmd.DryRun})
	if err != nil {
		return err
	}
	if c.JSON {
		printJSON(os.Stdout, report)
		return nil
	}
	rows := make([][]string, 0, len(report.Decisions))
	for _, d := range report.Decisions {
		rows = append(rows, []string{d.JobID, string(d.State), string(d.Action), string(d.Reason)})
	}
	fmt.Printf("sweep %s: %d open jobs seen, %d refunded, %d left, %d errors\n", report.SweepID, report.Seen, report.Refunded, report.Left, report.Errors)
	table(os.Stdout, []string{"job", "state", "action", "why"}, rows)
	return nil
}

type verifyCmd struct {
	Account string `help:"Only this account."`
}

func (cmd *verifyCmd) Run(ctx context.Context, c *cli) error {
	report, err := verify(ctx, c.Config, cmd.Account)
	if err != nil {
		return err
	}
	if c.JSON {
		printJSON(os.Stdout, report)
	} else {
		printVerify(report)
	}
	if !report.OK {
		return exitError(exitBroken)
	}
	return nil
}

func verify(ctx context.Context, cfg config.Config, account string) (reconciler.VerifyReport, error) {
	cfg.MigrateDatabaseURL = "" // reading is the application role's work
	db, dialect, err := app.OwnerDB(cfg)
	if err != nil {
		return reconciler.VerifyReport{}, err
	}
	defer db.Close()
	if err := migrations.Check(ctx, db, dialect); err != nil {
		return reconciler.VerifyReport{}, err
	}
	o := reconciler.VerifyOptions{DB: db, Dialect: reconciler.Dialect(dialect), Account: account, Tenant: cfg.Tenant}
	return reconciler.Verify(ctx, o)
}

func printVerify(r reconciler.VerifyReport) {
	rows := make([][]string, 0, len(r.Invariants))
	for _, i := range r.Invariants {
		state := "holds"
		if !i.OK {
			state = fmt.Sprintf("BROKEN: %d", i.Broken)
		}
		rows = append(rows, []string{i.ID, state})
	}
	table(os.Stdout, []string{"invariant", "state"}, rows)
	for _, b := range r.Broken {
		fmt.Printf("%s %s %s: %s\n", b.Invariant, b.Table, b.ID, b.Detail)
	}
	x := r.Conservation
	fmt.Printf("granted %d + adjusted %d = available %d + held %d + spent %d + expired %d + revoked %d  (difference %d)\n",
		x.Granted, x.Adjusted, x.Available, x.Held, x.Spent, x.Expired, x.Revoked, x.Difference)
	fmt.Printf("%d accounts, %d entries, %d jobs\n", r.Counts.Accounts, r.Counts.Entries, r.Counts.Jobs)
}

// upCmd is the whole product in one process.
type upCmd struct{}

func (*upCmd) Run(ctx context.Context, c *cli) error {
	cfg, err := c.For(config.Up)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
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
	}, func(url string) { fmt.Println("ready", url) })
	if errors.Is(err, context.Canceled) {
		return nil
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

// pollEvery is how often the demo looks.
const pollEvery = 100 * time.Millisecond
