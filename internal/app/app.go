// Package app wires the programs together from their configuration: which store, which
// queue, which generators. cmd/worker, cmd/scheduler and cmd/makegood are thin around it.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/local"
	"github.com/makegood/makegood/tasks"
)

// App is a ledger with what is needed to submit and read jobs.
type App struct {
	Config config.Config
	Log    *slog.Logger
	Ledger *ledger.Ledger
	Redis  redis.UniversalClient // nil when the queue lives in another process
	Client *tasks.Client
	Types  map[string]Maker // job type → who makes it

	store   ledger.Store
	metrics *telemetry.Metrics
}

// quietRedis keeps go-redis from writing to stderr by itself: what it says there, its errors
// say too.
var quietRedis = sync.OnceFunc(logging.Disable)

// Open connects to the ledger, which must be migrated, and to the queue, which may be away:
// jobs are accepted and wait.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (*App, error) {
	quietRedis()
	store, err := openStore(ctx, cfg, log)
	if err != nil {
		return nil, err
	}
	lanes := 4
	if _, isSQLite := cfg.SQLiteFile(); isSQLite {
		lanes = 1 // one writer
	}
	metrics := telemetry.NewMetrics(log)
	a := &App{Config: cfg, Log: log, store: store, metrics: metrics,
		Ledger: ledger.New(store, ledger.Options{Lanes: lanes, Logger: log, Observe: metrics.Observer()})}
	if cfg.RedisURL != config.Embedded {
		if a.Redis, err = tasks.RedisClient(cfg.RedisURL); err != nil {
			a.Close()
			return nil, err
		}
	}
	a.Client = tasks.NewClient(a.Ledger, a.Redis, tasks.ClientOptions{Logger: log})
	if a.Types, err = makers(cfg); err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Maker is a provider.Provider or a provider.Vendor.
type Maker interface {
	Name() string
	Estimate(input json.RawMessage) (provider.Estimate, error)
}

// makers are the providers that this program knows, by job type.
func makers(cfg config.Config) (map[string]Maker, error) {
	pictures, err := local.New(demonstration()...)
	if err != nil {
		return nil, err
	}
	types := map[string]Maker{local.Type: pictures}
	service, err := generationService(cfg)
	if err != nil {
		return nil, err
	}
	if service != nil {
		types[GenerationType] = service
	}
	return types, nil
}

// Close lets go of everything.
func (a *App) Close() {
	if a.Client != nil {
		a.Client.Close()
	}
	a.Ledger.Close()
	if a.Redis != nil {
		_ = a.Redis.Close()
	}
	_ = a.store.Close()
}

// Estimate says what an input of a type costs, in credits, and how many units it asks for.
func (a *App) Estimate(jobType string, input json.RawMessage) (cost int64, units int, err error) {
	p, ok := a.Types[jobType]
	if !ok {
		return 0, 0, ledger.Invalid("type", fmt.Sprintf("%q is no job type of this installation; it makes: %s", jobType, strings.Join(slices.Sorted(maps.Keys(a.Types)), ", ")))
	}
	e, err := p.Estimate(input)
	if bad, ok := errors.AsType[*provider.InputError](err); ok {
		return 0, 0, ledger.Invalid("input."+bad.Field, bad.Detail)
	}
	return e.Cost, e.Units, err
}
