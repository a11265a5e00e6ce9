package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
)

// childVar makes the test binary be the command itself.
const childVar = "MAKEGOOD_TESTENV_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		main()
	}
	testenv.Main(m)
}

// command is this program with arguments and no servers given.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), childVar+"=1", testenv.DatabaseVar+"=", testenv.RedisVar+"=")
	return cmd
}

func TestCommandGetsServersAndItsExitCodeIsPassedOn(t *testing.T) {
	t.Parallel()
	cmd := command(t, "--", "/bin/sh", "-c", `echo "$TEST_DATABASE_URL $TEST_REDIS_URL"; exit 7`)
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 7, exit.ExitCode())
	databaseURL, redisURL, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	require.Regexp(t, `^postgres://postgres@127\.0\.0\.1:\d+/postgres\?sslmode=disable$`, databaseURL)
	require.Regexp(t, `^redis://127\.0\.0\.1:\d+/0$`, redisURL)
}

func TestGivenServerIsUsed(t *testing.T) {
	t.Parallel()
	cmd := command(t, "--", "/bin/sh", "-c", `echo "$TEST_DATABASE_URL"`)
	cmd.Env = append(cmd.Env, testenv.DatabaseVar+"=postgres://given", testenv.RedisVar+"=redis://given")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "postgres://given\n", string(out))
}

func TestOnlyWhatIsNeeded(t *testing.T) {
	t.Parallel()
	cmd := command(t, "-with", "redis,cc", "--", "/bin/sh", "-c", `echo "$TEST_DATABASE_URL"`)
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Equal(t, "\n", string(out))
}

func TestSignalEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	// A grandchild writes, as go test's tests do; both must be gone.
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	cmd := command(t, "-with", "", "--", "/bin/sh", "-c", `sh -c 'echo ready >"$0"; while :; do sleep 1; done' "$0"; true`, pipe)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Stdout = &stderr // Wait returns once nobody of the group holds it.
	require.NoError(t, cmd.Start())
	said, err := os.ReadFile(pipe)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(said))

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
	require.Equal(t, 128+int(syscall.SIGTERM), exit.ExitCode(), stderr.String())
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"-with", "mysql", "--", "true"}} {
		out, err := command(t, args...).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.NotEmpty(t, out)
	}
	require.Equal(t, 127, func() int {
		err := command(t, "-with", "", "--", "/no/such/program").Run()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		return exit.ExitCode()
	}())
}
