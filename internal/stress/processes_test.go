package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newTestFleet has scripts for programs.
func newTestFleet(t *testing.T, worker string) (f *fleet, faults chan error) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker"), []byte("#!/bin/sh\n"+worker+"\n"), 0o755))
	faults = make(chan error, 10)
	f = newFleet(dir, os.Environ(), func(err error) { faults <- err })
	t.Cleanup(func() { require.NoError(t, f.stop(syscall.SIGKILL)) })
	return f, faults
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
			require.NoError(t, f.start("worker", 0))
			err := receive(t, faults)
			require.ErrorContains(t, err, "worker-1 ended by itself")
			require.ErrorContains(t, err, "the database is on fire")
		})
	}
}

func TestAKillIsNoFaultAndAnotherProcessTakesThePlace(t *testing.T) {
	t.Parallel()
	f, faults := newTestFleet(t, "exec sleep 600")
	require.NoError(t, f.start("worker", 0))
	require.NoError(t, f.start("worker", 1))
	first, err := f.kill(0)
	require.NoError(t, err)
	require.ErrorIs(t, syscall.Kill(first, 0), syscall.ESRCH)
	_, err = f.kill(0)
	require.Error(t, err, "it is dead")
	require.NoError(t, f.start("worker", 0))
	second, err := f.kill(0)
	require.NoError(t, err)
	require.NotEqual(t, first, second)

	third := f.live["worker-2"].cmd.Process.Pid
	require.NoError(t, f.stop(syscall.SIGKILL))
	require.ErrorIs(t, syscall.Kill(third, 0), syscall.ESRCH)
	require.NoError(t, f.stop(syscall.SIGKILL), "again")
	require.Empty(t, faults)
}

func TestStoppingInOrderTellsOfTheOneThatFails(t *testing.T) {
	t.Parallel()
	f, faults := newTestFleet(t, `trap 'echo cannot; exit 4' TERM; echo ready; while :; do sleep 0.05; done`)
	require.NoError(t, f.start("worker", 0))
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(f.dir, "worker-1.log"))
		return err == nil && len(text) > 0
	}, 30*time.Second, 10*time.Millisecond)
	err := f.stop(syscall.SIGTERM)
	require.ErrorContains(t, err, "worker-1 did not stop in order")
	require.ErrorContains(t, err, "cannot")
	require.Empty(t, faults)
}
