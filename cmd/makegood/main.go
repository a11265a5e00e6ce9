// Command makegood runs and operates a ledger of credits: start everything in one process,
// open accounts, grant, submit jobs, answer disputes, reconcile, verify.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // zones on machines that have none

	"github.com/alecthomas/kong"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
)

// cli is the command line.
type cli struct {
	config.Config
	JSON    bool             `name:"json" help:"Print one JSON document on stdout; errors as one problem object on stderr."`
	Version kong.VersionFlag `help:"Print the version."`

	Up        upCmd        `cmd:"" help:"Run everything in one process: relay, sweep and a worker."`
	Demo      demoCmd      `cmd:"" help:"Charge, run, kill, refund: a tour that checks itself."`
	Migrate   migrateCmd   `cmd:"" help:"Bring the database up to this program's version."`
	Account   accountCmd   `cmd:"" help:"Accounts, grants, adjustments, statements."`
	Job       jobCmd       `cmd:"" help:"Submit, show, watch, cancel and list jobs."`
	Reconcile reconcileCmd `cmd:"" help:"Sweep once: end what no one else will end."`
	Verify    verifyCmd    `cmd:"" help:"Check the invariants over the whole ledger."`
	Settings  configCmd    `cmd:"" name:"config" help:"Print the effective settings, secrets masked."`

	Worker    childWorkerCmd    `cmd:"" hidden:""`
	Scheduler childSchedulerCmd `cmd:"" hidden:""`
}

// Exit codes, as CONTRACT has them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNoCredit    = 3
	exitNotFound    = 4
	exitBroken      = 5
	exitUnavailable = 6
)

// exitError ends the program with a code, having said all there was to say.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

var version = "0.1.0-dev"

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) (code int) {
	var c cli
	parser := kong.Must(&c, kong.Name("makegood"), kong.UsageOnError(), kong.Vars{"version": version},
		kong.Description("Credits for generation jobs: every charged job is delivered or made good."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parsed, err := parser.Parse(args)
	if err != nil {
		return c.report(ledger.Invalid("", err.Error()))
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return c.report(parsed.Run(&c))
}

// report prints an error once and chooses the exit code.
func (c *cli) report(err error) int {
	if err == nil {
		return exitDone
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if c.JSON {
		printJSON(os.Stderr, shape.ProblemOf(err))
	} else {
		fmt.Fprintln(os.Stderr, "makegood:", err)
	}
	switch {
	case errors.Is(err, ledger.ErrInvalid), errors.Is(err, ledger.ErrKeyReused):
		return exitUsage
	case errors.Is(err, ledger.ErrInsufficientCredits):
		return exitNoCredit
	case errors.Is(err, ledger.ErrNotFound):
		return exitNotFound
	case errors.Is(err, ledger.ErrUnavailable):
		return exitUnavailable
	}
	return exitFailed
}

// open connects as an ordinary command.
func (c *cli) open(ctx context.Context) (*app.App, error) {
	cfg, err := c.For(config.Command)
	if err != nil {
		return nil, err
	}
	log, err := telemetry.Logger(os.Stderr, max(cfg.LogLevel, "warn"), cfg.LogFormat)
	if err != nil {
		return nil, err
	}
	return app.Open(ctx, cfg, log)
}

func (c *cli) name(account string) ledger.AccountName {
	return ledger.AccountName{Tenant: c.Tenant, Name: account}
}
