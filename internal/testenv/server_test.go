package testenv

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	a, err := Start(t.Context())
	require.NoError(t, err)
	b, err := Start(t.Context(), Durable())
	require.NoError(t, err)

	// One going leaves the other alone, and nothing of itself.
	gone := a.started
	require.Len(t, gone, 2)
	require.NoError(t, a.Stop())
	for _, s := range gone {
		require.NoDirExists(t, s.keep.dir)
		require.False(t, running(s.proc.pid))
	}
	require.Equal(t, 1, queryInt(t, connect(t, b.DatabaseURL), "SELECT 1"))
	require.NoError(t, dial(t, b.RedisURL).Ping(t.Context()).Err())
	require.NoError(t, b.Stop())
}

func TestServersAreNotRoot(t *testing.T) {
	t.Parallel()
	s := OwnRedis(t)
	who, err := unprivileged()
	require.NoError(t, err)
	if os.Geteuid() == 0 {
		require.NotNil(t, who)
	}
	info, err := os.Stat(filepath.Join(s.srv.keep.dir, "appendonlydir"))
	if os.IsNotExist(err) { // Redis before 7
		info, err = os.Stat(filepath.Join(s.srv.keep.dir, "appendonly.aof"))
	}
	require.NoError(t, err)
	require.True(t, ownedBy(info, who))
}

// Root's temporary directory may be closed to everybody else.
func TestPrivateTempDirIsNotUsed(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	require.NoError(t, os.Mkdir(private, 0o700))
	t.Setenv("TMPDIR", private)
	s := OwnRedis(t)
	require.NoError(t, dial(t, s.URL()).Ping(t.Context()).Err())
	if os.Geteuid() == 0 {
		require.NotEqual(t, private, filepath.Dir(s.srv.keep.dir))
	}
}

func TestLostRaceForThePort(t *testing.T) {
	t.Parallel()
	bin, err := redisBin(t.Context())
	require.NoError(t, err)
	thief := &portThief{redisKind: redisKind{bin: bin}}
	s, err := newServer(t.Context(), thief)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	require.NotNil(t, thief.stolen)
	require.NotEqual(t, thief.stolen.Addr().String(), s.addr())
	require.NoError(t, thief.stolen.Close())
}

// portThief takes the first port just before its server would.
type portThief struct {
	redisKind
	stolen net.Listener
}

func (p *portThief) command(dir string, port int) []string {
	if p.stolen == nil {
		p.stolen, _ = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	return p.redisKind.command(dir, port)
}

func TestServerThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	bin, err := redisBin(t.Context())
	require.NoError(t, err)
	broken := &brokenKind{redisKind: redisKind{bin: bin}}
	_, err = newServer(t.Context(), broken)
	require.ErrorIs(t, err, errEnded)
	require.ErrorContains(t, err, "no-such-option")
	require.NoDirExists(t, broken.dir)
}

type brokenKind struct {
	redisKind
	dir string
}

func (b *brokenKind) prepare(_ context.Context, k *keeper) error {
	b.dir = k.dir
	return nil
}

func (b *brokenKind) command(dir string, port int) []string {
	return append(b.redisKind.command(dir, port), "--no-such-option", "it's wrong")
}
