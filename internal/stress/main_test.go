package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestTheCommandInAFailureRepeatsTheRun(t *testing.T) {
	t.Parallel()
	want := full(4711)
	args, found := strings.CutPrefix(want.command(), "make stress ARGS='")
	require.True(t, found)
	var got options
	require.NoError(t, got.flags(new(bool), new(string)).Parse(strings.Fields(strings.TrimSuffix(args, "'"))))
	require.Equal(t, want, got)
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	var got options
	require.NoError(t, got.flags(new(bool), new(string)).Parse(nil))
	require.Equal(t, full(got.seed), got)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{
		"--help": exitHolds, "-jobs 0": exitUsage, "-jobs many": exitUsage, "-workers 0": exitUsage, "-schedulers 0": exitUsage,
		"-kills -1": exitUsage, "-interval 0": exitUsage, "-wat": exitUsage, "more": exitUsage,
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, want, command(strings.Fields(args), &stdout, &stderr), args)
		require.NotEmpty(t, stderr.String(), args)
		require.Empty(t, stdout.String(), args)
	}
}
