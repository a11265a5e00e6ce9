package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
)

// The patience of the processes under test is seconds where a real installation's is minutes,
// and a job takes long enough to be hit by a kill. The rest are defaults.
const (
	orphanThreshold = 10 * time.Second
	leaseTTL        = 3 * time.Second
	relayInterval   = 500 * time.Millisecond
	sweepInterval   = time.Second
	jobDuration     = 400 * time.Millisecond
)

const (
	readyWithin = time.Minute     // for the processes to report to the ledger
	endWithin   = 3 * time.Minute // for the last job to end, after the load
	pollEvery   = 100 * time.Millisecond
)

// runner is a run under way.
type runner struct {
	options
	plan plan

	dir   string // for programs, logs and artefacts
	app   *app.App
	db    *pgxpool.Pool
	fleet *fleet.Fleet
	out   io.Writer // for progress

	submitted, refused, killed atomic.Int64
}

// run plays a plan on an empty schema and an empty Redis database, and gathers the evidence.
// It leaves dir for its caller to remove, and no process. An error says that the run could not
// be finished, which proves nothing for or against the product, unless a process ended by
// itself.
func run(ctx context.Context, o options, databaseURL, redisURL, dir string, out io.Writer) (e *evidence, err error) {
	ctx, fault := context.WithCancelCause(ctx)
	defer fault(nil)
	r := &runner{options: o, plan: newPlan(o), dir: dir, out: out}
	cfg := r.config(databaseURL, redisURL)
	closeAll, err := r.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	if err := fleet.Build(ctx, dir, "worker", "scheduler"); err != nil {
		return nil, err
	}
	r.fleet = fleet.New(dir, dir, append(append(os.Environ(), cfg.Environ()...), app.SlowVar+"="+jobDuration.String()), fault)
	defer func() { err = errors.Join(err, r.fleet.Stop(syscall.SIGKILL)) }()
	if err := r.startAll(ctx); err != nil {
		return nil, err
	}
	e, err = r.play(ctx)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause // what else went wrong followed from it
	}
	if err != nil {
		return nil, err
	}
	e.stopping = r.fleet.Stop(syscall.SIGTERM)
	return e, r.gather(ctx, cfg, e)
}

func (r *runner) config(databaseURL, redisURL string) config.Config {
	cfg := config.Default()
	cfg.DatabaseURL, cfg.MigrateDatabaseURL, cfg.RedisURL = databaseURL, databaseURL, redisURL
	cfg.ArtifactsURL = "file://" + r.artifacts()
	cfg.OrphanThreshold, cfg.LeaseTTL, cfg.RelayInterval, cfg.SweepInterval = orphanThreshold, leaseTTL, relayInterval, sweepInterval
	return cfg
}

func (r *runner) artifacts() string { return filepath.Join(r.dir, "artifacts") }

// open migrates the schema and opens what a client has, and a connection to look with.
func (r *runner) open(ctx context.Context, cfg config.Config) (closeAll func(), err error) {
	if _, err := app.Migrate(ctx, cfg); err != nil {
		return nil, err
	}
	log, err := telemetry.Logger(r.out, "error", cfg.LogFormat)
	if err != nil {
		return nil, err
	}
	if r.app, err = app.Open(ctx, cfg, log); err != nil {
		return nil, err
	}
	if r.db, err = pgxpool.New(ctx, cfg.DatabaseURL); err != nil {
		r.app.Close()
		return nil, err
	}
	return func() { r.db.Close(); r.app.Close() }, nil
}

// startAll starts the processes and waits until they have reported.
func (r *runner) startAll(ctx context.Context) error {
	for n := range r.schedulers {
		if _, err := r.fleet.Start("scheduler", n); err != nil {
			return err
		}
	}
	for n := range r.workers {
		if _, err := r.fleet.Start("worker", n); err != nil {
			return err
		}
	}
	ctx, stop := context.WithTimeout(ctx, readyWithin)
	defer stop()
	for {
		workers, relays, err := working(ctx, r.db)
		if err == nil && workers >= r.workers && relays >= r.schedulers {
			r.say("%d workers and %d schedulers are at work", workers, relays)
			return nil
		}
		if !pause(ctx, pollEvery) {
			return errors.Join(fmt.Errorf("%d of %d workers and %d of %d schedulers reported: %w", workers, r.workers, relays, r.schedulers,
				context.Cause(ctx)), err)
		}
	}
}

// play submits and kills at the same time, and waits for the last job to end.
func (r *runner) play(ctx context.Context) (*evidence, error) {
	e := &evidence{plan: r.plan}
	if err := r.plan.grantAll(ctx, r.app); err != nil {
		return nil, err
	}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	var watch errgroup.Group
	watch.Go(func() error { r.watch(watching); return nil })
	g, both := errgroup.WithContext(ctx)
	g.Go(func() (err error) {
		e.answers, err = r.plan.load(both, r.app.Client, r.app.Config.Tenant, r.answered)
		return err
	})
	g.Go(func() (err error) {
		e.deaths, err = killAll(both, r.plan, r.interval, r.fleet, r.db, func() { r.killed.Add(1) })
		return err
	})
	err := g.Wait()
	if err == nil {
		e.waiting = r.awaitEnd(ctx)
	}
	stopWatching()
	return e, errors.Join(err, watch.Wait())
}

func (r *runner) answered(a answer) {
	r.submitted.Add(1)
	if !a.accepted() {
		r.refused.Add(1)
	}
}

// awaitEnd waits until no job is open.
func (r *runner) awaitEnd(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, endWithin)
	defer stop()
	for {
		p, err := readProgress(ctx, r.db)
		if err == nil && p.open == 0 {
			return nil
		}
		if !pause(ctx, pollEvery) {
			return errors.Join(fmt.Errorf("%d jobs were still open %s after the load", p.open, endWithin), err)
		}
	}
}

// watch says once a second how far the run has come.
func (r *runner) watch(ctx context.Context) {
	began := time.Now()
	for pause(ctx, time.Second) {
		p, err := readProgress(ctx, r.db)
		if err != nil {
			continue // the run itself will meet it
		}
		r.say("%3.0f s  submitted %d/%d  refused %d  open %d  ended %d  kills %d/%d", time.Since(began).Seconds(), r.submitted.Load(),
			len(r.plan.submits), r.refused.Load(), p.open, p.ended, r.killed.Load(), len(r.plan.kills))
	}
}

func (r *runner) say(format string, args ...any) { fmt.Fprintf(r.out, "stress: "+format+"\n", args...) }

// gather reads what the run left behind.
func (r *runner) gather(ctx context.Context, cfg config.Config, e *evidence) (err error) {
	if e.books, err = readBooks(ctx, r.db); err != nil {
		return err
	}
	if e.verify, err = app.Verify(ctx, cfg, "", nil); err != nil {
		return err
	}
	e.artifacts = map[string]error{}
	for _, j := range e.books.jobs {
		if j.End == nil {
			continue
		}
		for _, a := range j.End.Artifacts {
			if err := checkArtifact(r.artifacts(), a); err != nil {
				e.artifacts[a.Key] = err
			}
		}
	}
	return nil
}

// checkArtifact reads a file that the ledger names.
func checkArtifact(dir string, a ledger.Artifact) error {
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(a.Key)))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	if int64(len(data)) != a.Bytes || hex.EncodeToString(sum[:]) != a.SHA256 {
		return fmt.Errorf("%s has %d bytes that are not the %d delivered", a.Key, len(data), a.Bytes)
	}
	return nil
}
