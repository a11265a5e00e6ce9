package testenv

import (
	"context"
	"errors"
	"os"
	"sync"
)

// Names of the environment variables that name servers to use for tests
// instead of starting some.
const (
	DatabaseVar = "TEST_DATABASE_URL"
	RedisVar    = "TEST_REDIS_URL"
)

// Servers are servers for a program rather than a test.
type Servers struct {
	DatabaseURL string // superuser; empty if not asked for
	RedisURL    string // database 0; empty if not asked for

	started []*server
}

// Option changes what Start starts.
type Option func(*options)

type options struct{ postgres, redis, durable bool }

// PostgresOnly leaves Redis out.
func PostgresOnly() Option { return func(o *options) { o.redis = false } }

// RedisOnly leaves PostgreSQL out.
func RedisOnly() Option { return func(o *options) { o.postgres = false } }

// Durable has PostgreSQL flush its commits and Redis keep an append-only file,
// for programs that measure or that kill servers.
func Durable() Option { return func(o *options) { o.durable = true } }

// Start starts a PostgreSQL and a Redis that live until Stop, or until this
// process ends in whatever way. It looks at no TEST_ variable.
func Start(ctx context.Context, opts ...Option) (*Servers, error) {
	o := options{postgres: true, redis: true}
	for _, opt := range opts {
		opt(&o)
	}
	if err := Install(ctx, Programs{Postgres: o.postgres, Redis: o.redis}); err != nil {
		return nil, err
	}
	var (
		s                   Servers
		wg                  sync.WaitGroup
		pg, rd              *server
		errPostgres, errRed error
	)
	if o.postgres {
		wg.Go(func() { pg, errPostgres = newPostgres(ctx, o.durable) })
	}
	if o.redis {
		wg.Go(func() { rd, errRed = newRedis(ctx, o.durable) })
	}
	wg.Wait()
	if pg != nil {
		s.started, s.DatabaseURL = append(s.started, pg), postgresURL(pg)
	}
	if rd != nil {
		s.started, s.RedisURL = append(s.started, rd), redisURL(rd)
	}
	if err := errors.Join(errPostgres, errRed); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &s, nil
}

// Stop ends the servers and removes their data.
func (s *Servers) Stop() error {
	errs := make([]error, len(s.started))
	var wg sync.WaitGroup
	for i, srv := range s.started {
		wg.Go(func() { errs[i] = srv.close() })
	}
	wg.Wait()
	s.started = nil
	return errors.Join(errs...)
}

// shared are the servers that the tests of this process share.
var shared sharedServers

type sharedServers struct {
	pg, rd sharedServer
}

func (s *sharedServers) postgres() (string, error) {
	return s.pg.url(DatabaseVar, newPostgres, postgresURL)
}

func (s *sharedServers) redis() (string, error) {
	return s.rd.url(RedisVar, newRedis, redisURL)
}

func (s *sharedServers) stop() error { return errors.Join(s.pg.stop(), s.rd.stop()) }

// sharedServer is started by the first test that asks for it.
type sharedServer struct {
	mu  sync.Mutex
	srv *server
	err error // of the first try: the others would only wait for the same one
}

func (s *sharedServer) url(
	variable string,
	start func(ctx context.Context, durable bool) (*server, error),
	urlOf func(*server) string,
) (string, error) {
	if given := os.Getenv(variable); given != "" {
		return given, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil && s.err == nil {
		// Not the asking test's context: the server outlives the test.
		s.srv, s.err = start(context.Background(), false)
	}
	if s.err != nil {
		return "", s.err
	}
	return urlOf(s.srv), nil
}

func (s *sharedServer) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.srv == nil {
		return nil
	}
	err := s.srv.close()
	s.srv = nil
	return err
}
