package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

// grace is how long past its deadline an attempt of a live worker is left alone.
const grace = 5 * time.Second

// Work runs a worker until ctx ends, then lets its jobs finish or gives them back.
func (a *App) Work(ctx context.Context) error {
	artifacts, err := tasks.OpenArtifacts(ctx, a.Config.ArtifactsURL)
	if err != nil {
		return err
	}
	defer artifacts.Close()
	c := a.Config
	worker := tasks.NewWorker(tasks.WorkerOptions{Ledger: a.Ledger, Redis: a.Redis, Mux: a.Mux(), Artifacts: artifacts,
		Concurrency: c.WorkerConcurrency, LeaseTTL: c.LeaseTTL, AttemptTimeout: c.AttemptTimeout,
		ShutdownTimeout: c.ShutdownTimeout, MaxStarts: c.MaxStarts, MaxAttempts: c.MaxAttempts, Logger: a.Log})
	a.metrics.WatchWorker(worker)
	return worker.Run(ctx)
}

// Mux is who makes what.
func (a *App) Mux() *tasks.Mux {
	mux := tasks.NewMux()
	for jobType, maker := range a.Types {
		switch p := maker.(type) {
		case provider.Vendor:
			mux.HandleVendor(jobType, p)
		case provider.Provider:
			mux.HandleFunc(jobType, tasks.Provider(p))
		}
	}
	return mux
}

// Schedule runs the relay, the watcher and the sweep until ctx ends. Two may run.
func (a *App) Schedule(ctx context.Context) error {
	c := a.Config
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return tasks.NewRelay(tasks.RelayOptions{Ledger: a.Ledger, Redis: a.Redis, Interval: c.RelayInterval,
			OrphanThreshold: c.OrphanThreshold, Logger: a.Log}).Run(ctx)
	})
	g.Go(func() error {
		return tasks.NewWatcher(tasks.WatcherOptions{Ledger: a.Ledger, Interval: c.RelayInterval, LeaseTTL: c.LeaseTTL,
			Grace: grace, Logger: a.Log}).Run(ctx)
	})
	g.Go(func() error { return a.Reconciler().Run(ctx, c.SweepInterval) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Reconciler builds the sweep.
func (a *App) Reconciler() *reconciler.Reconciler {
	c := a.Config
	return reconciler.New(reconciler.Options{Ledger: a.Ledger, OrphanThreshold: c.OrphanThreshold, MaxQueueOutage: c.MaxQueueOutage,
		AttemptGrace: grace, MaxUnknown: c.MaxUnknown, MaxStarts: c.MaxStarts, Logger: a.Log})
}

// Serve answers /healthz, /readyz, /metrics and callbacks on the configured address while run runs; without an
// address it only runs. ready is told the URL, "" without one.
func (a *App) Serve(ctx context.Context, run func(context.Context) error, ready func(url string)) error {
	if a.Config.ListenAddr == "" {
		ready("")
		return run(ctx)
	}
	ln, err := telemetry.Listen(a.Config.ListenAddr)
	if err != nil {
		return err
	}
	callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: a.Ledger, Mux: a.Mux(), Logger: a.Log})
	health := a.health()
	health.Metrics = a.measure(callbacks)
	serveCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	context.AfterFunc(ctx, health.Drain)
	g, _ := errgroup.WithContext(serveCtx)
	routes := http.NewServeMux()
	routes.Handle("/", health.Handler())
	routes.Handle("POST /v1/callbacks/{provider}", callbacks)
	g.Go(func() error { return telemetry.Serve(serveCtx, ln, routes, a.Log) })
	ready(telemetry.URL(ln))
	err = run(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

func (a *App) health() *telemetry.Health {
	h := &telemetry.Health{Dependencies: []telemetry.Dependency{{Name: "ledger", Check: func(ctx context.Context) error {
		_, err := a.Ledger.Now(ctx)
		return err
	}}}}
	if a.Redis != nil {
		h.Dependencies = append(h.Dependencies, telemetry.Dependency{Name: "redis", Check: func(ctx context.Context) error {
			if err := a.Redis.Ping(ctx).Err(); err != nil {
				return fmt.Errorf("jobs are accepted and wait: %w", err)
			}
			return nil
		}})
	}
	return h
}

// measure adds what a scrape reads to the metrics. A program that serves none reads nothing.
func (a *App) measure(callbacks *tasks.Callbacks) http.Handler {
	a.metrics.WatchCallbacks(callbacks)
	a.metrics.WatchLedger(a.Ledger)
	if s, ok := a.store.(*postgres.Store); ok {
		a.metrics.WatchPool(s.PoolStat)
	}
	if a.Redis != nil {
		a.metrics.WatchRedis(a.Redis)
	}
	return a.metrics.Handler()
}
