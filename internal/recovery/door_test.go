package main

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo serves lines, each behind its name, until the test ends.
func echo(t *testing.T, name string) (serverURL string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if _, err := c.Write([]byte(name + lines.Text() + "\n")); err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
	return "echo://" + l.Addr().String()
}

func openTestDoor(t *testing.T, serverURL string) (*door, func() *guest) {
	t.Helper()
	d, address, err := newDoor(t.Context(), serverURL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	u, err := url.Parse(address)
	require.NoError(t, err)
	return d, func() *guest {
		c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", u.Host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return &guest{c, bufio.NewReader(c)}
	}
}

type guest struct {
	net.Conn
	in *bufio.Reader
}

func (g *guest) send(t *testing.T, line string) {
	t.Helper()
	_, err := g.Write([]byte(line + "\n"))
	require.NoError(t, err)
}

func (g *guest) hears(t *testing.T, want string) {
	t.Helper()
	require.NoError(t, g.SetReadDeadline(time.Now().Add(30*time.Second)))
	got, err := g.in.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, want+"\n", got)
}

func (g *guest) isBroken(t *testing.T) {
	t.Helper()
	require.NoError(t, g.SetReadDeadline(time.Now().Add(30*time.Second)))
	_, err := g.in.ReadByte()
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it hangs")
}

func TestADoorThatIsCutBreaksOldConnectionsAndNewOnes(t *testing.T) {
	t.Parallel()
	d, enter := openTestDoor(t, echo(t, "a:"))
	old := enter()
	old.send(t, "1")
	old.hears(t, "a:1")
	require.NoError(t, d.set(t.Context(), doorCut))
	old.isBroken(t)
	enter().isBroken(t)
	require.NoError(t, d.set(t.Context(), doorOpen))
	back := enter()
	back.send(t, "2")
	back.hears(t, "a:2")
}

func TestADoorThatIsDownRefuses(t *testing.T) {
	t.Parallel()
	d, enter := openTestDoor(t, echo(t, "a:"))
	old := enter()
	old.send(t, "1")
	old.hears(t, "a:1")
	require.NoError(t, d.set(t.Context(), doorDown))
	old.isBroken(t)
	_, err := net.Dial("tcp", d.address)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, d.set(t.Context(), doorOpen))
	back := enter()
	back.send(t, "2")
	back.hears(t, "a:2")
	require.NoError(t, d.set(t.Context(), doorDown)) // and is closed so
}

func TestADoorThatIsStuckLetsPassLater(t *testing.T) {
	t.Parallel()
	d, enter := openTestDoor(t, echo(t, "a:"))
	old := enter()
	old.send(t, "1")
	old.hears(t, "a:1")
	require.NoError(t, d.set(t.Context(), doorStuck))
	fresh := enter()
	for _, g := range []*guest{old, fresh} {
		g.send(t, "2")
		require.NoError(t, g.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		_, err := g.in.ReadByte()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, d.set(t.Context(), doorOpen))
	old.hears(t, "a:2")
	fresh.hears(t, "a:2")
}

func TestADoorLeadsToAnotherServer(t *testing.T) {
	t.Parallel()
	d, enter := openTestDoor(t, echo(t, "a:"))
	old := enter()
	old.send(t, "1")
	old.hears(t, "a:1")
	require.NoError(t, d.leadTo(t.Context(), echo(t, "b:")))
	old.isBroken(t)
	fresh := enter()
	fresh.send(t, "2")
	fresh.hears(t, "b:2")
}

func TestAStuckDoorCloses(t *testing.T) {
	t.Parallel()
	d, address, err := newDoor(t.Context(), echo(t, "a:"))
	require.NoError(t, err)
	u, err := url.Parse(address)
	require.NoError(t, err)
	c, err := net.Dial("tcp", u.Host)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, d.set(t.Context(), doorStuck))
	_, err = c.Write([]byte("1\n"))
	require.NoError(t, err)
	require.NoError(t, d.close())
}
