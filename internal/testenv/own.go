package testenv

import (
	"context"
	"syscall"
	"testing"
)

// own is a server that belongs to one test, which may do to it what it likes.
// Its methods are for the test's goroutine; they fail the test when they fail.
type own struct {
	t   testing.TB
	srv *server
}

func newOwn(t testing.TB, start func(context.Context, bool) (*server, error)) own {
	t.Helper()
	srv, err := start(t.Context(), true)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	t.Cleanup(func() {
		if err := srv.close(); err != nil {
			t.Errorf("testenv: %v", err)
		}
	})
	return own{t: t, srv: srv}
}

func (o own) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatalf("testenv: %v", err)
	}
}

// Kill ends the server and all its processes with SIGKILL and returns when
// they are gone.
func (o own) Kill() { o.t.Helper(); o.must(o.srv.kill()) }

// Stop shuts the server down in order, without waiting for its clients, and
// returns when it has ended.
func (o own) Stop() { o.t.Helper(); o.must(o.srv.stop()) }

// Start runs the server again after Kill or Stop, with the same data and port,
// and returns when it serves clients.
func (o own) Start() { o.t.Helper(); o.must(o.srv.start(context.Background())) }

// Addr returns the server's host:port.
func (o own) Addr() string { return o.srv.addr() }

// PostgresServer is a private PostgreSQL that flushes every commit to disk.
type PostgresServer struct{ own }

// OwnPostgres starts a PostgreSQL for this test alone, in about two seconds.
// A test that breaks nothing wants [Postgres].
func OwnPostgres(t testing.TB) *PostgresServer {
	t.Helper()
	return &PostgresServer{newOwn(t, newPostgres)}
}

// URL returns the URL of its database postgres, as superuser, with the usual
// search_path.
func (s *PostgresServer) URL() string { return postgresURL(s.srv) }

// RedisServer is a private Redis with an append-only file, flushed every
// second as Redis is usually run: a kill -9 of the server loses nothing that it
// answered, since the kernel has it; only a crash of the machine could.
type RedisServer struct{ own }

// OwnRedis starts a Redis for this test alone.
func OwnRedis(t testing.TB) *RedisServer {
	t.Helper()
	return &RedisServer{newOwn(t, newRedis)}
}

// URL returns the URL of its database 0.
func (s *RedisServer) URL() string { return redisURL(s.srv) }

// Freeze stops the server where it is: connections stay open and connecting
// works, but nothing is answered until Thaw.
func (s *RedisServer) Freeze() { s.t.Helper(); s.must(s.srv.proc.signal(syscall.SIGSTOP)) }

// Thaw lets a frozen server go on.
func (s *RedisServer) Thaw() { s.t.Helper(); s.must(s.srv.proc.signal(syscall.SIGCONT)) }

// FlushAll empties all its databases, as an operator's mistake would.
func (s *RedisServer) FlushAll(t testing.TB) {
	t.Helper()
	client, err := openDatabase(s.URL(), 0)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatalf("testenv: flush Redis: %v", err)
	}
}
