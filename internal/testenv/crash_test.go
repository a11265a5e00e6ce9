package testenv

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// victim is a process with servers, as it described itself.
type victim struct {
	cmd     *exec.Cmd
	servers []victimServer
}

type victimServer struct {
	dir         string
	pid, keeper int
}

// startVictim runs this test binary as beVictim.
func startVictim(t *testing.T) *victim {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=1")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	v := &victim{cmd: cmd}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && lines.Text() != "ready" {
		var s victimServer
		_, err := fmt.Sscan(lines.Text(), &s.dir, &s.pid, &s.keeper)
		require.NoError(t, err)
		require.True(t, running(s.pid))
		v.servers = append(v.servers, s)
	}
	require.Len(t, v.servers, 2)
	return v
}

// family returns all processes of the servers.
func (v *victim) family(t *testing.T) []int {
	t.Helper()
	var all []int
	for _, s := range v.servers {
		backends, err := children(s.pid)
		require.NoError(t, err)
		all = append(append(all, s.pid, s.keeper), backends...)
	}
	require.Greater(t, len(all), 6, "PostgreSQL has processes of its own")
	return all
}

func TestKilledOwnerLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, sig := range map[string]syscall.Signal{"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := startVictim(t)
			all := v.family(t)
			require.NoError(t, v.cmd.Process.Signal(sig))
			eventually(t, "servers and keepers are gone", func() bool { return !slices.ContainsFunc(all, running) })
			for _, s := range v.servers {
				require.NoDirExists(t, s.dir)
			}
		})
	}
}

func TestKilledKeeperIsSweptUpAfter(t *testing.T) {
	t.Parallel()
	who, err := unprivileged()
	require.NoError(t, err)
	v := startVictim(t)
	all := v.family(t)
	old := time.Now().Add(-2 * sweepAge)
	bases := map[string]bool{}
	for _, s := range v.servers {
		bases[filepath.Dir(s.dir)] = true
		require.NoError(t, os.Chtimes(s.dir, old, old))
	}
	sweepAll := func() {
		for base := range bases {
			sweep([]string{base}, who)
		}
	}

	sweepAll()
	for _, s := range v.servers {
		require.DirExists(t, s.dir, "its owner lives")
		require.True(t, running(s.pid))
		// Young again, so that the sweeps of tests beside this one wait.
		require.NoError(t, os.Chtimes(s.dir, time.Now(), time.Now()))
		require.NoError(t, syscall.Kill(s.keeper, syscall.SIGKILL))
	}
	require.NoError(t, v.cmd.Process.Kill())
	_ = v.cmd.Wait()
	for _, s := range v.servers {
		require.True(t, running(s.pid), "nobody was left to end it")
	}
	for _, s := range v.servers {
		_ = os.Chtimes(s.dir, old, old) // From here on any sweep may be the one.
	}

	sweepAll()
	for _, s := range v.servers {
		require.NoDirExists(t, s.dir)
	}
	eventually(t, "the servers are gone", func() bool { return !slices.ContainsFunc(all, running) })
}

func TestYoungDirectoryIsNotSwept(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	young, old := filepath.Join(base, "makegood-test-young"), filepath.Join(base, "makegood-test-old")
	other := filepath.Join(base, "somebody-else")
	for _, dir := range []string{young, old, other} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	past := time.Now().Add(-2 * sweepAge)
	require.NoError(t, os.Chtimes(old, past, past))
	require.NoError(t, os.Chtimes(other, past, past))
	sweep([]string{base}, nil)
	require.DirExists(t, young)
	require.DirExists(t, other)
	require.NoDirExists(t, old)
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !cond() {
		require.True(t, time.Now().Before(deadline), "not in time: %s", what)
		time.Sleep(pollEvery)
	}
}
