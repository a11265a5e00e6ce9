package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/internal/testenv"
)

// options are how large a run is.
type options struct {
	lease time.Duration // LEASE_TTL
	relay time.Duration // RELAY_INTERVAL

	rounds         int // of kills
	vendorVictims  int // workers killed in a round while a vendor holds their submit
	localVictims   int // workers killed in a round while they work themselves
	stopped        int // workers stopped in order
	stoppedJobs    int // that each of them runs then
	waiting        int // jobs when Redis loses its memory
	outages        int // of Redis, of each kind
	outage         time.Duration
	outageJobs     int // submitted in each of them
	vendorJobs     int // at their vendor when PostgreSQL goes, of each sort
	freezes        int
	freezeCallers  int // at once, on the same account and on others
	submitsOfCalls int // of each of them
}

// installed is an installation's default patience.
func installed() options {
	return options{lease: 10 * time.Second, relay: time.Second, rounds: 2, vendorVictims: 26, localVictims: 12, stopped: 4, stoppedJobs: 5,
		waiting: 500, outages: 2, outage: 20 * time.Second, outageJobs: 20, vendorJobs: 4, freezes: 5, freezeCallers: 4, submitsOfCalls: 25}
}

// scenario is one kind of trouble.
type scenario struct {
	name string
	play func(*site) ([]finding, error)
}

var scenarios = []scenario{
	{"worker_killed", (*site).killWorkers},
	{"graceful_stop", (*site).stopWorkers},
	{"redis_lost", (*site).loseRedis},
	{"redis_away_down", func(s *site) ([]finding, error) { return s.missRedis(doorDown) }},
	{"redis_away_cut", func(s *site) ([]finding, error) { return s.missRedis(doorCut) }},
	{"redis_away_stuck", func(s *site) ([]finding, error) { return s.missRedis(doorStuck) }},
	{"postgres_away_down", func(s *site) ([]finding, error) { return s.missPostgres(doorDown) }},
	{"postgres_away_cut", func(s *site) ([]finding, error) { return s.missPostgres(doorCut) }},
	{"postgres_away_stuck", func(s *site) ([]finding, error) { return s.missPostgres(doorStuck) }},
	{"frozen_transaction", (*site).freezeTransactions},
}

// runner is a run under way.
type runner struct {
	options

	servers *testenv.Servers
	dir     string    // holds the programs, and a directory for each scenario
	out     io.Writer // for progress
	playing string
}

// run plays scenarios one after the other, on servers of its own: some are emptied. It leaves
// nothing behind but the logs, if a directory for them is named. An error says that the run
// could not be finished.
func run(ctx context.Context, o options, chosen []scenario, logs string, out io.Writer) (all []finding, err error) {
	r := &runner{options: o, out: out}
	if r.dir, err = os.MkdirTemp("", "makegood-recovery-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, keepLogs(r.dir, logs), os.RemoveAll(r.dir)) }()
	if err := fleet.Build(ctx, r.dir, "worker", "scheduler"); err != nil {
		return nil, err
	}
	if err := installFrozen(r.dir); err != nil {
		return nil, err
	}
	if r.servers, err = testenv.Start(ctx, testenv.Durable()); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.servers.Stop()) }()
	for _, one := range chosen {
		r.playing = one.name
		found, err := r.playOne(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

func (r *runner) playOne(ctx context.Context, one scenario) (found []finding, err error) {
	s, err := r.openSite(ctx, one.name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	found, err = one.play(s)
	if cause := context.Cause(s.ctx); cause != nil {
		return nil, cause // what else went wrong followed from it
	}
	if err != nil {
		return nil, err
	}
	for _, f := range found {
		r.say("%s: n %d, median %.2f s, max %.2f s: %s", f.what, len(f.samples), f.at(median).Seconds(), f.at(most).Seconds(), f.verdict())
	}
	return found, nil
}

func (r *runner) say(format string, args ...any) {
	fmt.Fprintf(r.out, "recovery: %s: %s\n", r.playing, fmt.Sprintf(format, args...))
}

// keepLogs copies the logs below dir to where the user wants them; "" wants none.
func keepLogs(dir, to string) error {
	if to == "" {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.log"))
	errs := []error{err, os.MkdirAll(to, 0o755)}
	for _, file := range files {
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		errs = append(errs, err, os.WriteFile(filepath.Join(to, strings.ReplaceAll(name, string(filepath.Separator), "-")), text, 0o644))
	}
	return errors.Join(errs...)
}
