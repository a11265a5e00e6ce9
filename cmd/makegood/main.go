// Command makegood runs and operates a ledger of credits: start everything in one process,
// open accounts, grant, submit jobs, answer disputes, reconcile, verify.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	_ "time/tzdata" // zones on machines that have none
	"unicode/utf8"

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

	Up         upCmd         `cmd:"" help:"Run everything in one process: relay, sweep and a worker."`
	Demo       demoCmd       `cmd:"" help:"Charge, run, kill, refund: a tour that checks itself."`
	Migrate    migrateCmd    `cmd:"" help:"Bring the database up to this program's version."`
	Account    accountCmd    `cmd:"" help:"Accounts, grants, adjustments, statements."`
	Job        jobCmd        `cmd:"" help:"Submit, show, watch, cancel and list jobs."`
	Reconcile  reconcileCmd  `cmd:"" help:"Sweep once: end what no one else will end."`
	Verify     verifyCmd     `cmd:"" help:"Check the invariants over the whole ledger."`
	Settings   configCmd     `cmd:"" name:"config" help:"Print the effective settings, secrets masked."`
	Completion completionCmd `cmd:"" help:"Print a script that completes this command line in a shell."`

	Worker    childWorkerCmd    `cmd:"" hidden:""`
	Scheduler childSchedulerCmd `cmd:"" hidden:""`

	streams
}

// streams is where a command reads and writes: results on out, all else on err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// exitError ends the program with a code, having said all there was to say.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

var version = "0.1.0-dev"

func main() { os.Exit(start()) }

func start() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
}

// run is the whole program but for the process around it. It returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	if len(args) == 0 {
		args = []string{"--help"}
	}
	c := cli{streams: s}
	if i := slices.IndexFunc(args, func(arg string) bool { return !utf8.ValidString(arg) }); i >= 0 {
		c.JSON = slices.Contains(args, "--json")
		return c.report(ctx, ledger.Invalid("", fmt.Sprintf("argument %d, %.40q, is not valid UTF-8", i+1, args[i]))) // kong would alter it silently
	}
	finished := -1 // the exit code of --help and --version, which end the parsing
	parser := newParser(&c, func(code int) { finished = code })
	parsed, err := parser.Parse(negatives(parser.Model.Node, args))
	if finished >= 0 {
		return finished
	}
	if err != nil {
		c.JSON = c.JSON || slices.Contains(args, "--json") // it may stand behind the mistake
		return c.report(ctx, err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return c.report(ctx, parsed.Run(&c))
}

func newParser(c *cli, exit func(int)) *kong.Kong {
	parser := kong.Must(c, kong.Name("makegood"), kong.Vars{"version": version}, kong.Writers(c.out, c.err), kong.Exit(exit),
		kong.Description("Credits for generation jobs: every charged job is delivered or made good."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true}), kong.Help(printHelp))
	showExamples(parser.Model.Node)
	return parser
}

// report prints an error once and chooses the exit code.
func (c *cli) report(ctx context.Context, err error) int {
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if err != nil && ctx.Err() != nil {
		return app.ExitInterrupted // whoever pressed Ctrl-C knows
	}
	switch {
	case err == nil:
	case c.JSON:
		printJSON(c.err, shape.ProblemOf(app.Coded(err)))
	default:
		fmt.Fprintln(c.err, "makegood:", c.told(err))
	}
	return app.ExitCode(err)
}

// told is an error as a person reads it: with decimals, and where to look after a slip of the
// command line.
func (c *cli) told(err error) string {
	if e, ok := errors.AsType[*ledger.Error](err); ok && e.Code == ledger.CodeInsufficient {
		return fmt.Sprintf("insufficient credits: needs %s, has %s", c.credits(e.Required), c.credits(e.Available))
	}
	if e, ok := errors.AsType[*kong.ParseError](err); ok {
		if _, setting := errors.AsType[*config.Error](err); !setting {
			command := e.Context.Model.Name
			if selected := e.Context.Selected(); selected != nil {
				command = selected.FullPath()
			}
			return fmt.Sprintf("%v; see %s --help", err, command)
		}
	}
	return err.Error()
}

// open connects as an ordinary command, which logs only what needs somebody's attention.
func (c *cli) open(ctx context.Context) (*app.App, error) {
	cfg, err := c.For(config.Command)
	if err != nil {
		return nil, err
	}
	if cfg.LogLevel == "info" {
		cfg.LogLevel = "warn"
	}
	log, err := telemetry.Logger(c.err, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return nil, err
	}
	return app.Open(ctx, cfg, log)
}

// with opens the ledger for as long as do takes.
func (c *cli) with(ctx context.Context, do func(*app.App) error) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return do(a)
}

func (c *cli) name(account string) ledger.AccountName {
	return ledger.AccountName{Tenant: c.Tenant, Name: account}
}
