package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
)

// TestAShortRun is the real thing, with real processes, only shorter.
func TestAShortRun(t *testing.T) {
	t.Parallel()
	o := options{seed: 1, jobs: 60, accounts: 6, workers: 2, schedulers: 2, kills: 3, interval: time.Second}
	var progress bytes.Buffer
	e, err := run(t.Context(), o, testenv.Postgres(t), testenv.Redis(t), t.TempDir(), &progress)
	require.NoError(t, err, "%s", progress.String())
	r := newReport(o, e)
	var text bytes.Buffer
	r.print(&text)
	require.True(t, r.OK, "%s", text.String())
	require.Equal(t, 3, r.Kills)
	require.NotZero(t, r.CutOff)
	require.Len(t, e.answers, len(e.plan.submits))
	require.Contains(t, progress.String(), "submitted")
	t.Logf("\n%s", text.String())
}

// TestAnInterruptedRunLeavesNoProcess behind, and says why it ended.
func TestAnInterruptedRunLeavesNoProcess(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := options{seed: 1, jobs: 60, accounts: 6, workers: 2, schedulers: 1, kills: 100, interval: time.Second}
	database := testenv.Postgres(t)
	e, err := run(ctx, o, database, testenv.Redis(t), t.TempDir(), onLine{"submitted", interrupt})
	require.ErrorIs(t, err, context.Canceled)
	require.Nil(t, e)

	conn, err := pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT pid FROM workers")
	require.NoError(t, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(pids), 2)
	for _, pid := range pids {
		require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "worker %d still runs", pid)
	}
}

// onLine calls do when a line with word is written.
type onLine struct {
	word string
	do   func()
}

var _ io.Writer = onLine{}

func (o onLine) Write(line []byte) (int, error) {
	if strings.Contains(string(line), o.word) {
		o.do()
	}
	return len(line), nil
}

// TestARunThatCannotStartSaysWhy: its own fault, not the product's.
func TestARunThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	o := options{seed: 1, jobs: 1, accounts: 1, workers: 1, schedulers: 1, kills: 0, interval: time.Second}
	_, err := run(t.Context(), o, "postgres://nobody@127.0.0.1:1/none", "redis://127.0.0.1:1", t.TempDir(), io.Discard)
	require.Error(t, err)
}
