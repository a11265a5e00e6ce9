package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// short is a run with little of everything, and little patience.
func short() options {
	return options{lease: 2 * time.Second, relay: 200 * time.Millisecond, rounds: 1, vendorVictims: 3, localVictims: 2, stopped: 1, stoppedJobs: 2,
		waiting: 40, outages: 1, outage: 2 * time.Second, outageJobs: 3, vendorJobs: 2, freezes: 1, freezeCallers: 2, submitsOfCalls: 3}
}

// TestAShortRun is the real thing, with real processes: everything is measured and nothing was
// done twice. How long things take is told by a long run on a quiet machine, and so is whether
// a worker was condemned for being slow: with leases of two seconds one may be.
func TestAShortRun(t *testing.T) {
	t.Parallel()
	var progress bytes.Buffer
	logs := filepath.Join(t.TempDir(), "logs")
	chosen, err := choose("worker_killed,graceful_stop,redis_lost,redis_away_down,postgres_away_down,frozen_transaction")
	require.NoError(t, err)
	all, err := run(t.Context(), short(), chosen, logs, &progress)
	require.NoError(t, err, "%s", progress.String())
	measured := map[string]int{}
	for _, f := range all {
		measured[f.name] = len(f.samples)
		for _, n := range f.nothing {
			if n.name != condemned {
				require.Empty(t, n.seen, "%s: %s", f.name, n.name)
			}
		}
		for _, d := range f.samples {
			require.Less(t, d, time.Minute, f.name)
		}
	}
	require.Equal(t, map[string]int{
		"worker_killed": 3, "worker_killed.local": 2, "worker_killed.noticed": 5, "worker_killed.taken": 5,
		"graceful_stop": 2, "graceful_stop.exit": 1, "graceful_stop.taken": 2,
		"redis_lost.flushed": 40, "redis_lost.replaced": 40,
		"redis_away_down": 1, "redis_away_down.each": 3,
		"postgres_away_down": 6,
		"frozen_transaction": 6, "frozen_transaction.others": 6,
	}, measured)
	files, err := os.ReadDir(logs)
	require.NoError(t, err)
	require.NotEmpty(t, files)
	t.Logf("\n%s", progress.String())
}

// TestAnInterruptedRunLeavesNothing behind: no process and no directory.
func TestAnInterruptedRunLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	chosen, err := choose("worker_killed")
	require.NoError(t, err)
	var dir string
	var pids []int
	play := chosen[0].play
	chosen[0].play = func(s *site) ([]finding, error) {
		dir = s.dir
		go func() {
			defer interrupt()
			for n := range s.vendorVictims + s.localVictims {
				p := s.fleet.Process("worker", n)
				for ; p == nil; p = s.fleet.Process("worker", n) {
					if !pause(ctx, time.Millisecond) {
						return
					}
				}
				pids = append(pids, p.PID())
			}
		}()
		return play(s)
	}
	_, err = run(ctx, short(), chosen, "", io.Discard)
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, pids, 5)
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
	}
	require.NoDirExists(t, dir)
	require.Contains(t, dir, "makegood-recovery-")
}
