package tasks_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/tasks"
)

// TestAConnectionThatBreaksAtOnceIsGivenUpSoon: a load balancer takes connections for a Redis
// that is away. Once it is back, commands that waited must not wait much longer.
func TestAConnectionThatBreaksAtOnceIsGivenUpSoon(t *testing.T) {
	t.Parallel()
	client, err := tasks.RedisClient(balancer(t, testenv.Redis(t), 3))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one alone took 14 s
	defer cancel()
	require.NoError(t, client.Ping(ctx).Err())
}

// balancer breaks the first few connections to a server and passes the others on. It returns
// the URL that leads through it.
func balancer(t *testing.T, serverURL string, broken int) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	require.NoError(t, err)
	server := u.Host
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	open.Go(func() {
		for n := 0; ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if n < broken {
				_ = client.Close()
				continue
			}
			open.Go(func() { pass(client, server) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); open.Wait() })
	u.Host = listener.Addr().String()
	return u.String()
}

// pass connects a client to a server until either goes.
func pass(client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() { _, _ = io.Copy(client, server); _ = client.Close() })
	_, _ = io.Copy(server, client)
	_ = server.Close()
	back.Wait()
}
