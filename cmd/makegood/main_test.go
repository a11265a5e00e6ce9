package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/testenv"
)

func TestMain(m *testing.M) {
	for _, setting := range config.Default().Effective() { // those of whoever runs the tests
		_ = os.Unsetenv(setting.Name)
	}
	testenv.Main(m)
}

// installation is a ledger and a queue of a test's own, and the flags that name them.
type installation struct{ flags []string }

// result is what a command left behind.
type result struct {
	code     int
	out, err string
}

// stores are the two ways to install Makegood.
var stores = map[string]func(t *testing.T) installation{
	"sqlite and embedded Redis": func(t *testing.T) installation {
		t.Helper()
		dir := t.TempDir()
		return installation{[]string{"--database-url=sqlite:" + filepath.Join(dir, "ledger.db"), "--artifacts-url=file://" + dir + "/artifacts"}}
	},
	"postgres and redis": func(t *testing.T) installation {
		t.Helper()
		return installation{[]string{"--database-url=" + testenv.Postgres(t), "--redis-url=" + testenv.Redis(t),
			"--artifacts-url=file://" + t.TempDir()}}
	},
}

// onEach runs a test on each way to install.
func onEach(t *testing.T, test func(*testing.T, installation)) {
	t.Helper()
	t.Parallel()
	for name, install := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, install(t))
		})
	}
}

// run runs a command in this process.
func (i installation) run(t *testing.T, args ...string) result {
	t.Helper()
	return i.runWith(t, "", args...)
}

// runWith is run with something on standard input.
func (i installation) runWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append(slices.Clip(i.flags), args...), streams{strings.NewReader(stdin), &out, &errs})
	return result{code, out.String(), errs.String()}
}

// must runs a command that succeeds and returns what it printed.
func (i installation) must(t *testing.T, args ...string) string {
	t.Helper()
	r := i.run(t, args...)
	require.Equal(t, app.ExitDone, r.code, "%v: %s", args, r.err)
	return r.out
}

// migrated is an installation that is ready for use, with 100 credits for ada.
func (i installation) migrated(t *testing.T) installation {
	t.Helper()
	i.must(t, "migrate", "up")
	i.must(t, "account", "grant", "ada", "100", "--reason", "welcome")
	return i
}

// up runs everything until the test ends.
func (i installation) up(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	out, told := io.Pipe()
	var ended sync.WaitGroup
	ended.Go(func() {
		code := run(ctx, append(slices.Clip(i.flags), "up", "--listen-addr=127.0.0.1:0", "--relay-interval=50ms", "--log-level=error"),
			streams{strings.NewReader(""), told, t.Output()})
		_ = told.Close()
		if code != app.ExitDone {
			t.Errorf("up ended with %d", code)
		}
	})
	t.Cleanup(func() { stop(); ended.Wait() })
	line := make([]byte, 6)
	_, err := io.ReadFull(out, line)
	require.NoError(t, err)
	require.Equal(t, "ready ", string(line))
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// build makes the programs as users have them, in a folder that goes with the test.
func build(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", dir+"/", "../...").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}
