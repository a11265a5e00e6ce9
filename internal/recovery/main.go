package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Exit codes.
const (
	exitMet         = 0
	exitMissed      = 1 // a target is missed, or the run could not be finished
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if freezing() {
		os.Exit(freeze())
	}
	os.Exit(command(os.Args[1:], os.Stdout, os.Stderr))
}

// flags of the command.
type flags struct {
	only    string
	asJSON  bool
	results string
	logs    string
}

func command(args []string, stdout, stderr io.Writer) int {
	var f flags
	set := flag.NewFlagSet("recovery", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&f.only, "only", "", "some scenarios, with commas: "+strings.Join(names(scenarios), ", "))
	set.BoolVar(&f.asJSON, "json", false, "the results as JSON on stdout in place of the table")
	set.StringVar(&f.results, "results", "bench/results.json", "`file` whose rows of these scenarios are replaced; \"\" for none")
	set.StringVar(&f.logs, "logs", "", "keep the logs of the processes in this new `directory`")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitMet
	case err != nil:
		return exitUsage
	}
	chosen, err := choose(f.only)
	if err == nil && set.NArg() > 0 {
		err = fmt.Errorf("no argument is expected beside the flags, and there is %q", set.Args())
	}
	if err != nil {
		fmt.Fprintln(stderr, "recovery:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	began, head := time.Now(), commit(ctx)
	all, err := run(ctx, installed(), chosen, f.logs, stderr)
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "recovery: interrupted; everything is cleaned up")
		return exitInterrupted
	}
	if err != nil {
		fmt.Fprintf(stderr, "recovery: FAIL: %v\n", err)
		return exitMissed
	}
	fmt.Fprintf(stderr, "recovery: done after %s\n", time.Since(began).Round(time.Second))
	if err := f.report(all, head, stdout); err != nil {
		fmt.Fprintf(stderr, "recovery: %v\n", err)
		return exitMissed
	}
	if slices.ContainsFunc(all, func(f finding) bool { return !f.ok() }) {
		return exitMissed
	}
	return exitMet
}

// report prints what was found at a commit and keeps it.
func (f flags) report(all []finding, commit string, stdout io.Writer) error {
	rows := resultsOf(all, commit, time.Now())
	if f.results != "" {
		if err := saveResults(f.results, rows); err != nil {
			return err
		}
	}
	if !f.asJSON {
		return printTable(stdout, all)
	}
	enc := json.NewEncoder(stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(rows)
}

// commit is what was measured, "" when it cannot be told. Changes that are in no commit are
// marked with a plus.
func commit(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(head))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", "*.go", "*.sql", "go.mod").Run() != nil {
		name += "+"
	}
	return name
}

// choose finds scenarios by their names; "" is all.
func choose(only string) ([]scenario, error) {
	if only == "" {
		return scenarios, nil
	}
	var chosen []scenario
	for name := range strings.SplitSeq(only, ",") {
		i := slices.Index(names(scenarios), strings.TrimSpace(name))
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names(scenarios), ", "))
		}
		chosen = append(chosen, scenarios[i])
	}
	return chosen, nil
}

func names(all []scenario) []string {
	var list []string
	for _, s := range all {
		list = append(list, s.name)
	}
	return list
}
