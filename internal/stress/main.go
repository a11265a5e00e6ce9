package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/makegood/makegood/internal/testenv"
)

// Exit codes.
const (
	exitHolds       = 0
	exitBroken      = 1 // something does not hold, or the run could not be finished
	exitUsage       = 2
	exitInterrupted = 130
)

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

func command(args []string, stdout, stderr io.Writer) int {
	var o options
	asJSON, logs := false, ""
	flags := o.flags(&asJSON, &logs)
	flags.SetOutput(stderr)
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitHolds
	case err != nil:
		return exitUsage
	}
	if err := o.check(flags.Args()); err != nil {
		fmt.Fprintln(stderr, "stress:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	fmt.Fprintf(stderr, "stress: seed %d; the same again: %s\n", o.seed, o.command())
	fmt.Fprintf(stderr, "stress: orphans after %s, leases of %s, a job takes %s; the rest as installed\n", orphanThreshold, leaseTTL, jobDuration)
	e, err := runInPlace(ctx, o, logs, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "stress: interrupted; everything is cleaned up")
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "stress: FAIL: %v\nstress: seed %d; repeat with: %s\n", err, o.seed, o.command())
		return exitBroken
	}
	r := newReport(o, e)
	if asJSON {
		err = r.printJSON(stdout)
	} else {
		r.print(stdout)
	}
	if err != nil || !r.OK {
		return exitBroken
	}
	return exitHolds
}

// flags reads the options; without -seed, each run is another one.
func (o *options) flags(asJSON *bool, logs *string) *flag.FlagSet {
	f := flag.NewFlagSet("stress", flag.ContinueOnError)
	f.Uint64Var(&o.seed, "seed", rand.Uint64N(1_000_000), "decides accounts, costs, prompts, times and victims; a new one each run if not given")
	f.IntVar(&o.jobs, "jobs", 2000, "orders; those that an account cannot pay are refused")
	f.IntVar(&o.accounts, "accounts", 50, "accounts; some run out of credits")
	f.IntVar(&o.workers, "workers", 3, "worker processes")
	f.IntVar(&o.schedulers, "schedulers", 2, "scheduler processes")
	f.IntVar(&o.kills, "kills", 20, "workers killed with SIGKILL")
	f.DurationVar(&o.interval, "interval", time.Second, "between kills; the load lasts until after the last one")
	f.BoolVar(asJSON, "json", false, "the report as one JSON document on stdout")
	f.StringVar(logs, "logs", "", "keep the logs of the processes in this `directory`")
	return f
}

func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("no argument is expected beside the flags, and there is %q", rest[0])
	case min(o.jobs, o.accounts, o.workers, o.schedulers) < 1:
		return errors.New("-jobs, -accounts, -workers and -schedulers must be 1 or more")
	case o.kills < 0 || o.interval < time.Millisecond:
		return errors.New("-kills must not be negative, -interval at least 1ms")
	}
	return nil
}

// command is what repeats a run.
func (o options) command() string {
	return fmt.Sprintf("make stress ARGS='-seed %d -jobs %d -accounts %d -workers %d -schedulers %d -kills %d -interval %s'",
		o.seed, o.jobs, o.accounts, o.workers, o.schedulers, o.kills, o.interval)
}

// runInPlace gives a run servers and a directory, and removes them.
func runInPlace(ctx context.Context, o options, logs string, out io.Writer) (e *evidence, err error) {
	place, err := testenv.OpenPlace(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, place.Close()) }()
	dir, err := os.MkdirTemp("", "makegood-stress-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, keepLogs(dir, logs), os.RemoveAll(dir)) }()
	return run(ctx, o, place.DatabaseURL, place.RedisURL, dir, out)
}

// keepLogs moves the logs in dir to where the user wants them; "" wants none.
func keepLogs(dir, to string) error {
	if to == "" {
		return nil
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return err
	}
	errs := []error{os.MkdirAll(to, 0o755)}
	for _, name := range names {
		text, err := os.ReadFile(name)
		errs = append(errs, err, os.WriteFile(filepath.Join(to, filepath.Base(name)), text, 0o644))
	}
	return errors.Join(errs...)
}
