package testenv

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// superuser is the role that owns a server of ours.
const superuser = "postgres"

// postgres is the kind of server that PostgreSQL is.
type postgres struct {
	bin string // folder of initdb and postgres
	// durable servers flush to disk, so that a kill loses nothing committed.
	// For the others a crash is the end anyway.
	durable bool
}

func newPostgres(ctx context.Context, durable bool) (*server, error) {
	bin, err := postgresBin(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, postgres{bin: bin, durable: durable})
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	if err := closeToPublic(ctx, postgresURL(s)); err != nil {
		_ = s.close()
		return nil, fmt.Errorf("PostgreSQL: %w", err)
	}
	return s, nil
}

func postgresURL(s *server) string {
	return (&url.URL{
		Scheme:   "postgres",
		User:     url.User(superuser),
		Host:     s.addr(),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}).String()
}

// prepare runs initdb, with the C locale where C.UTF-8 is unknown.
func (p postgres) prepare(ctx context.Context, k *keeper) error {
	for _, locale := range []string{"C.UTF-8", "C"} {
		run, err := k.run(ctx, "init", filepath.Join(p.bin, "initdb"), "-D", filepath.Join(k.dir, "data"),
			"-U", superuser, "-A", "trust", "-E", "UTF8", "--locale="+locale, "--no-sync")
		if err != nil {
			return err
		}
		select {
		case <-run.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		if run.code == 0 {
			return nil
		}
	}
	return fmt.Errorf("initdb failed:\n%s", k.log())
}

func (p postgres) command(dir string, port int) []string {
	args := []string{
		filepath.Join(p.bin, "postgres"), "-D", filepath.Join(dir, "data"),
		"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port),
		"-c", "unix_socket_directories=", // their paths must be short, temporary ones are not
		"-c", "max_connections=400", // packages run side by side, each test with a pool
		"-c", "max_locks_per_transaction=256", // dropping a schema locks all that is in it
		"-c", "shared_buffers=64MB", "-c", "min_wal_size=32MB", "-c", "max_wal_size=256MB",
		"-c", "dynamic_shared_memory_type=mmap", // in the directory, so that it goes with it
		"-c", "timezone=UTC", "-c", "log_timezone=UTC",
	}
	if !p.durable {
		args = append(args, "-c", "fsync=off", "-c", "full_page_writes=off")
	}
	return args
}

// ready reads the pid file, as pg_ctl does: line 1 names the process, so it is
// ours and not another that took the port; line 8 says when it serves.
func (p postgres) ready(_ context.Context, dir string, _, pid int) bool {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := bytes.Split(text, []byte("\n"))
	return len(lines) >= 8 && string(bytes.TrimSpace(lines[0])) == strconv.Itoa(pid) &&
		string(bytes.TrimSpace(lines[7])) == "ready"
}

func (postgres) quit() (gently syscall.Signal, now string) { return syscall.SIGINT, "QUIT" }

// closeToPublic takes away what every role has on a new database, so that a
// role of [AppRole] has only what it was given.
func closeToPublic(ctx context.Context, superURL string) error {
	return withConn(ctx, superURL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			REVOKE ALL ON DATABASE postgres FROM PUBLIC;
			REVOKE ALL ON SCHEMA public FROM PUBLIC`)
		return err
	})
}

// withConn lends a connection of its own to do.
func withConn(ctx context.Context, connURL string, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, connURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	return do(conn)
}
