package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
)

func TestMain(m *testing.M) {
	if freezing() {
		os.Exit(freeze())
	}
	testenv.Main(m)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]int{"--help": exitMet, "-only nonsense": exitUsage, "-only worker_killed,": exitUsage, "-wat": exitUsage, "more": exitUsage} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, want, command(strings.Fields(args), &stdout, &stderr), args)
		require.Contains(t, stderr.String(), "recovery", args)
		require.Empty(t, stdout.String(), args)
	}
}

func TestChoosingScenarios(t *testing.T) {
	t.Parallel()
	all, err := choose("")
	require.NoError(t, err)
	require.Equal(t, names(scenarios), names(all))
	some, err := choose("redis_lost, worker_killed")
	require.NoError(t, err)
	require.Equal(t, []string{"redis_lost", "worker_killed"}, names(some))
}
