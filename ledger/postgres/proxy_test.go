package postgres_test

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a store and its server and can break a connection at a commit.
type proxy struct {
	net.Listener
	server string
	// cutAt is what to look for in what the store sends; nil while all passes.
	cutAt atomic.Pointer[cut]
}

// cut breaks the connection that sends word: before the server has it, or after, in which
// case its answer is what is lost.
type cut struct {
	word  string
	after bool
	once  sync.Once
}

// through starts a proxy and returns the URL that leads through it.
func through(t *testing.T, serverURL string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(serverURL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, server: u.Host}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			client, err := p.Accept()
			if err != nil {
				return
			}
			open.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { _ = p.Close(); open.Wait() })
	u.Host = listener.Addr().String()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	deaf := &atomic.Bool{}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(&unlessDeaf{client, deaf}, server)
		_ = client.Close()
	})
	p.forward(client, server, deaf)
	_ = server.Close()
	back.Wait()
}

// forward passes on what the store sends until it is to be cut.
func (p *proxy) forward(client, server net.Conn, deaf *atomic.Bool) {
	buf := make([]byte, 1<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if c := p.cutAt.Load(); c != nil && bytes.Contains(buf[:n], []byte(c.word)) {
			hit := false
			c.once.Do(func() { hit = true })
			if hit && !c.after {
				_ = client.Close()
				return
			}
			deaf.Store(deaf.Load() || hit)
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// unlessDeaf hangs up instead of passing an answer on, once it is deaf.
type unlessDeaf struct {
	net.Conn
	deaf *atomic.Bool
}

func (d *unlessDeaf) Write(b []byte) (int, error) {
	if d.deaf.Load() {
		return 0, net.ErrClosed
	}
	return d.Conn.Write(b)
}
