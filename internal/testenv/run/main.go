// Command run starts a private PostgreSQL and Redis, runs a command with
// TEST_DATABASE_URL and TEST_REDIS_URL set to them, stops them again and exits
// with the command's exit code:
//
//	go run ./internal/testenv/run -- go test ./...
//
// A server that its variable names already is used as it is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/makegood/makegood/internal/testenv"
)

const usage = `usage: run [-with LIST] [-durable] -- COMMAND [ARG]...

Starts private servers, runs COMMAND with their URLs in TEST_DATABASE_URL and
TEST_REDIS_URL, and removes them again.

`

func main() {
	with := flag.String("with", "postgres,redis", "what the command needs, of: postgres, redis, cc (a C compiler, for go test -race)")
	durable := flag.Bool("durable", false, "flush commits to disk, keep Redis' append-only file")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), usage)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	need, err := parse(*with)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		os.Exit(2)
	}
	need.durable = *durable
	code, err := run(need, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
	}
	os.Exit(code)
}

// needs is what the command needs.
type needs struct{ postgres, redis, cc, durable bool }

func parse(list string) (n needs, err error) {
	for _, word := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		switch word {
		case "postgres":
			n.postgres = true
		case "redis":
			n.redis = true
		case "cc":
			n.cc = true
		default:
			return n, fmt.Errorf("-with: unknown %q", word)
		}
	}
	return n, nil
}

func run(need needs, args []string) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	servers, err := start(need, signals)
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := servers.Stop(); stopErr != nil {
			code, err = max(code, 1), errors.Join(err, stopErr)
		}
	}()
	return child(args, servers, signals)
}

// start starts the servers that the environment does not name; a signal ends
// the wait for them.
func start(need needs, signals <-chan os.Signal) (*testenv.Servers, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	started := make(chan struct{})
	defer close(started)
	go func() {
		select {
		case <-signals:
			cancel()
		case <-started:
		}
	}()

	wanted := testenv.Programs{
		Postgres: need.postgres && os.Getenv(testenv.DatabaseVar) == "",
		Redis:    need.redis && os.Getenv(testenv.RedisVar) == "",
		CC:       need.cc,
	}
	if err := testenv.Install(ctx, wanted); err != nil { // all at once
		return nil, err
	}
	var opts []testenv.Option
	if need.durable {
		opts = append(opts, testenv.Durable())
	}
	if !wanted.Postgres {
		opts = append(opts, testenv.RedisOnly())
	}
	if !wanted.Redis {
		opts = append(opts, testenv.PostgresOnly())
	}
	began := time.Now()
	servers, err := testenv.Start(ctx, opts...)
	if err != nil {
		return nil, err
	}
	for _, url := range []string{servers.DatabaseURL, servers.RedisURL} {
		if url != "" {
			fmt.Fprintf(os.Stderr, "testenv: %s ready after %.1f s\n", url, time.Since(began).Seconds())
		}
	}
	return servers, nil
}

// child runs the command in a process group of its own and passes signals on
// to the whole group: go test passes none on to the tests. What is left of the
// group afterwards would have no servers, so it ends too.
func child(args []string, servers *testenv.Servers, signals <-chan os.Signal) (int, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Env = os.Environ()
	if servers.DatabaseURL != "" {
		cmd.Env = append(cmd.Env, testenv.DatabaseVar+"="+servers.DatabaseURL)
	}
	if servers.RedisURL != "" {
		cmd.Env = append(cmd.Env, testenv.RedisVar+"="+servers.RedisURL)
	}
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	group := -cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig, ok := sig.(syscall.Signal); ok {
				_ = syscall.Kill(group, sig)
			}
		case err := <-ended:
			_ = syscall.Kill(group, syscall.SIGKILL)
			return exitCode(cmd.ProcessState, err)
		}
	}
}

// exitCode is the command's own, or what a shell would say of a signal.
func exitCode(state *os.ProcessState, err error) (int, error) {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	return state.ExitCode(), nil
}
