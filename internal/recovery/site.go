package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider/local"
)

// site is an installation with a database of its own on the run's servers, for one scenario.
type site struct {
	*runner

	ctx      context.Context // ends also when a process ends by itself
	config   config.Config   // the processes': their servers are behind the doors
	client   *app.App        // whose database is not
	db       *pgxpool.Pool   // to look with
	database *door
	queue    *door
	vendor   *fakevendor.Vendor
	fleet    *fleet.Fleet
	started  int // workers
	closers  []func() error
}

// account holds the credits of a scenario.
const account = "ada"

const (
	schedulers  = 2
	readyWithin = time.Minute
	pollEvery   = 25 * time.Millisecond
)

// openSite makes a site without a process in it. The caller closes it.
func (r *runner) openSite(ctx context.Context, name string) (_ *site, err error) {
	s := &site{runner: r}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("prepare %s: %w", name, err), s.close())
		}
	}()
	var fault context.CancelCauseFunc
	s.ctx, fault = context.WithCancelCause(ctx)
	s.closing(func() error { fault(nil); return nil })
	databaseURL, err := r.newDatabase(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := s.openDoors(ctx, databaseURL); err != nil {
		return nil, err
	}
	if s.vendor, err = fakevendor.New(fakevendor.Options{Work: fakevendor.Work{Duration: fakevendor.Duration(200 * time.Millisecond)}}); err != nil {
		return nil, err
	}
	s.closing(s.vendor.Close)
	logs := filepath.Join(r.dir, name)
	if err := os.Mkdir(logs, 0o755); err != nil {
		return nil, err
	}
	s.config.ArtifactsURL = "file://" + filepath.Join(logs, "artifacts")
	environ := append(append(os.Environ(), s.config.Environ()...), app.GenerationsURLVar+"="+s.vendor.URL(), app.GenerationsKeyVar+"="+s.vendor.Key(),
		fmt.Sprintf("%s=%d", app.GenerationsPriceVar, cost))
	s.fleet = fleet.New(r.dir, logs, environ, fault)
	s.closing(func() error { return s.fleet.Stop(syscall.SIGKILL) })
	if err := s.openClient(ctx, databaseURL); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *site) closing(do func() error) { s.closers = append(s.closers, do) }

// close ends all that runs, the newest first.
func (s *site) close() error {
	var errs []error
	for ; len(s.closers) > 0; s.closers = s.closers[:len(s.closers)-1] {
		errs = append(errs, s.closers[len(s.closers)-1]())
	}
	return errors.Join(errs...)
}

// newDatabase makes a database and returns its URL; it goes with its server.
func (r *runner) newDatabase(ctx context.Context, name string) (string, error) {
	conn, err := pgx.Connect(ctx, r.servers.DatabaseURL)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
		return "", err
	}
	u, err := url.Parse(r.servers.DatabaseURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + name
	return u.String(), nil
}

func (s *site) openDoors(ctx context.Context, databaseURL string) (err error) {
	s.config = config.Default()
	s.config.LeaseTTL, s.config.RelayInterval = s.lease, s.relay
	if s.database, s.config.DatabaseURL, err = newDoor(ctx, databaseURL); err != nil {
		return err
	}
	s.closing(s.database.close)
	if s.queue, s.config.RedisURL, err = newDoor(ctx, s.servers.RedisURL); err != nil {
		return err
	}
	s.closing(s.queue.close)
	return nil
}

// openClient migrates and opens what a client has, with an account that can pay for all.
func (s *site) openClient(ctx context.Context, databaseURL string) error {
	cfg := s.config
	cfg.DatabaseURL = databaseURL
	if _, err := app.Migrate(ctx, cfg); err != nil {
		return err
	}
	log, err := telemetry.Logger(s.out, "error", cfg.LogFormat)
	if err != nil {
		return err
	}
	if s.client, err = app.Open(ctx, cfg, log); err != nil {
		return err
	}
	s.closing(func() error { s.client.Close(); return nil })
	if s.db, err = pgxpool.New(ctx, databaseURL); err != nil {
		return err
	}
	s.closing(func() error { s.db.Close(); return nil })
	return s.grant(ctx, account)
}

func (s *site) grant(ctx context.Context, name string) error {
	_, err := s.client.Ledger.Grant(ctx, ledger.GrantCredits{AccountName: s.holder(name), Amount: 1_000_000, Reason: "recovery", Key: name})
	return err
}

func (s *site) holder(name string) ledger.AccountName {
	return ledger.AccountName{Tenant: s.config.Tenant, Name: name}
}

// startSchedulers starts two and waits until their relays have reported.
func (s *site) startSchedulers() error {
	for n := range schedulers {
		if _, err := s.fleet.Start("scheduler", n); err != nil {
			return err
		}
	}
	return s.until("the schedulers are at work", readyWithin, `SELECT count(*) >= $1 FROM relays`, schedulers)
}

// startWorkers starts n workers and waits until all are known to the ledger. A job of the
// local generator takes them as long as given.
func (s *site) startWorkers(n, concurrency int, job time.Duration, environ ...string) ([]*fleet.Process, error) {
	environ = append([]string{fmt.Sprintf("WORKER_CONCURRENCY=%d", concurrency), app.SlowVar + "=" + job.String()}, environ...)
	var workers []*fleet.Process
	var pids []int
	for range n {
		p, err := s.fleet.Start("worker", s.started, environ...)
		if err != nil {
			return nil, err
		}
		s.started++
		workers, pids = append(workers, p), append(pids, p.PID())
	}
	return workers, s.until("the workers are at work", readyWithin, `SELECT count(*) = $1 FROM workers WHERE pid = ANY($2)`, n, pids)
}

// order is a job to be submitted.
type order struct {
	jobType string
	prompt  string
}

// cost of every job, in credits: what both generators ask for one unit.
const cost = local.DefaultPrice

// submit sends orders, many at once, and returns the ids of their jobs in order.
func (s *site) submit(orders ...order) ([]string, error) {
	ids := make([]string, len(orders))
	g, ctx := errgroup.WithContext(s.ctx)
	g.SetLimit(32)
	for i, o := range orders {
		g.Go(func() error {
			opened, err := s.client.Client.Submit(ctx, ledger.OpenJob{AccountName: s.holder(account), Type: o.jobType, Cost: cost, Units: 1,
				Input: fmt.Appendf(nil, `{"prompt":%q,"size":"64x64","style":"contours","n":1}`, o.prompt)})
			if err == nil {
				ids[i] = opened.Job.ID
			}
			return err
		})
	}
	return ids, g.Wait()
}

func repeat(o order, n int) []order {
	all := make([]order, n)
	for i := range all {
		all[i] = o
	}
	return all
}

// until waits until a query answers true. It fails when that takes too long.
func (s *site) until(what string, within time.Duration, query string, args ...any) error {
	ctx, stop := context.WithTimeoutCause(s.ctx, within, fmt.Errorf("%s: not within %s", what, within))
	defer stop()
	for {
		var met bool
		if err := s.db.QueryRow(ctx, query, args...).Scan(&met); err != nil && ctx.Err() == nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if met {
			return nil
		}
		if !pause(ctx, pollEvery) {
			return context.Cause(ctx)
		}
	}
}

// untilEnded waits until no job is open.
func (s *site) untilEnded() error {
	return s.until("all jobs have ended", 3*time.Minute, `SELECT NOT EXISTS (SELECT FROM open_jobs)`)
}

// untilRunning waits until n jobs run.
func (s *site) untilRunning(n int) error {
	return s.until(fmt.Sprintf("%d jobs run", n), readyWithin, `SELECT count(*) = $1 FROM open_jobs WHERE state = 'running'`, n)
}

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// newRedis starts another, empty Redis, which lives as long as the site.
func (s *site) newRedis() (url string, err error) {
	servers, err := testenv.Start(s.ctx, testenv.RedisOnly(), testenv.Durable())
	if err != nil {
		return "", err
	}
	s.closing(servers.Stop)
	return servers.RedisURL, nil
}
