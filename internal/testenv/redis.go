package testenv

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// databases of a shared Redis: one for each test that runs at the same time in
// all packages would do; they cost next to nothing.
const databases = 20000

// redisKind is the kind of server that Redis (or Valkey) is.
type redisKind struct {
	bin string // path of redis-server or valkey-server
	// durable servers keep an append-only file.
	durable bool
}

func newRedis(ctx context.Context, durable bool) (*server, error) {
	bin, err := redisBin(ctx)
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, redisKind{bin: bin, durable: durable})
	if err != nil {
		return nil, fmt.Errorf("Redis: %w", err)
	}
	return s, nil
}

func redisURL(s *server) string { return "redis://" + s.addr() + "/0" }

func (redisKind) prepare(context.Context, *keeper) error { return nil }

func (r redisKind) command(dir string, port int) []string {
	appendOnly := "no"
	if r.durable {
		appendOnly = "yes"
	}
	return []string{
		r.bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--daemonize", "no", "--databases", strconv.Itoa(databases), "--tcp-backlog", "128",
		"--save", "", "--appendonly", appendOnly, "--appendfsync", "everysec",
	}
}

// ready asks who answers at the port, and whether it has read its data.
func (redisKind) ready(ctx context.Context, _ string, port, pid int) bool {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	knock, err := (&net.Dialer{}).DialContext(ctx, "tcp4", addr)
	if err != nil {
		return false // Before the client, which would log it.
	}
	_ = knock.Close()
	client := redisClient(&redis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	if client.Ping(ctx).Err() != nil {
		return false
	}
	info, err := client.Info(ctx, "server").Result()
	return err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid))
}

// quit: the keeper need not be gentle, nobody will read the data again.
func (redisKind) quit() (gently syscall.Signal, now string) { return syscall.SIGTERM, "KILL" }

// redisClient makes a client that asks once and starts nothing in the background.
func redisClient(opt *redis.Options) *redis.Client {
	opt.MaxRetries = -1
	opt.DialerRetries = 1
	opt.ContextTimeoutEnabled = true
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opt)
}
