package fleet

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestFleet has scripts for programs.
func newTestFleet(t *testing.T, worker string) (f *Fleet, faults chan error) {
	t.Helper()
	dir := t.TempDir()
	syscall.ForkLock.RLock() // a child forked meanwhile would hold the file open for writing: "text file busy"
	err := os.WriteFile(filepath.Join(dir, "worker"), []byte("#!/bin/sh\n"+worker+"\n"), 0o755)
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	faults = make(chan error, 10)
	f = New(dir, dir, os.Environ(), func(err error) { faults <- err })
	t.Cleanup(func() { require.NoError(t, f.Stop(syscall.SIGKILL)) })
	return f, faults
}

func start(t *testing.T, f *Fleet, n int, environ ...string) *Process {
	t.Helper()
	p, err := f.Start("worker", n, environ...)
	require.NoError(t, err)
	return p
}

func receive(t *testing.T, faults <-chan error) error {
	t.Helper()
	select {
	case err := <-faults:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("no fault was reported")
		return nil
	}
}

func TestAProcessThatEndsByItselfIsAFault(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"failing": "echo the database is on fire >&2; exit 3", "in order": "echo the database is on fire"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, faults := newTestFleet(t, script)
			start(t, f, 0)
			err := receive(t, faults)
			require.ErrorContains(t, err, "worker-1 ended by itself")
			require.ErrorContains(t, err, "the database is on fire")
		})
	}
}

func TestAKillIsNoFaultAndAnotherProcessTakesThePlace(t *testing.T) {
	t.Parallel()
	f, faults := newTestFleet(t, "exec sleep 600")
	start(t, f, 0)
	start(t, f, 1)
	first := f.Process("worker", 0)
	require.NoError(t, first.Kill())
	require.ErrorIs(t, syscall.Kill(first.PID(), 0), syscall.ESRCH)
	require.Nil(t, f.Process("worker", 0), "it is dead")
	require.NotEqual(t, first.PID(), start(t, f, 0).PID())

	other := f.Process("worker", 1)
	require.NoError(t, f.Stop(syscall.SIGKILL))
	require.ErrorIs(t, syscall.Kill(other.PID(), 0), syscall.ESRCH)
	require.NoError(t, f.Stop(syscall.SIGKILL), "again")
	require.Empty(t, faults)
}

func TestStoppingInOrderTellsOfTheOneThatFails(t *testing.T) {
	t.Parallel()
	f, faults := newTestFleet(t, `trap 'echo cannot; exit 4' TERM; echo ready; while :; do sleep 0.05; done`)
	start(t, f, 0)
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(f.logs, "worker-1.log"))
		return err == nil && len(text) > 0
	}, 30*time.Second, 10*time.Millisecond)
	err := f.Stop(syscall.SIGTERM)
	require.ErrorContains(t, err, "worker-1 did not stop in order")
	require.ErrorContains(t, err, "cannot")
	require.Empty(t, faults)
}

func TestOneProcessIsStoppedInOrder(t *testing.T) {
	t.Parallel()
	f, faults := newTestFleet(t, `trap 'exit $CODE' TERM; echo ready; while :; do sleep 0.05; done`)
	for n, code := range []string{"0", "4"} {
		p := start(t, f, n, "CODE="+code)
		require.Eventually(t, func() bool { return p.Tail() == "ready" }, 30*time.Second, 10*time.Millisecond)
		if err := p.Terminate(); code == "0" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "exit status 4")
		}
	}
	require.Empty(t, faults)
}
