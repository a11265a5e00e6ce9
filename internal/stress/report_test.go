package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, spread{}, spreadOf(nil))
	require.Equal(t, spread{2, 2, 2}, spreadOf([]time.Duration{2 * time.Second}))
	var all []time.Duration
	for i := range 200 {
		all = append(all, time.Duration(200-i)*time.Second)
	}
	require.Equal(t, spread{P50: 100, P99: 198, Max: 200}, spreadOf(all))
}

func TestReportAddsUp(t *testing.T) {
	t.Parallel()
	r := newReport(full(7), sound())
	require.True(t, r.OK)
	require.Equal(t, 6, r.Submits)
	require.Equal(t, 2, r.Jobs)
	require.InDelta(t, 14, r.Seconds, 1e-9)
	require.InDelta(t, 2./14, r.JobsRate, 1e-9)
	require.Equal(t, map[int]int{1: 1, 2: 1}, r.Attempts)
	require.Equal(t, map[ledger.EndReason]refund{ledger.EndVendor: {1, 5}}, r.Refunds)
	require.Equal(t, spread{4, 4, 4}, r.KillToEnd)
	require.Equal(t, 1, r.CutOff)

	var text bytes.Buffer
	r.print(&text)
	require.Contains(t, text.String(), "everything holds (seed 7)")
	require.NotContains(t, text.String(), "FAIL")
}

func TestAFailureSaysHowToRepeatIt(t *testing.T) {
	t.Parallel()
	e := sound()
	e.stopping = errors.New("worker-1 did not stop")
	r := newReport(full(7), e)
	require.False(t, r.OK)
	var text bytes.Buffer
	r.print(&text)
	require.Contains(t, text.String(), "FAIL  workers and schedulers stop in order")
	require.Contains(t, text.String(), "worker-1 did not stop")
	require.Equal(t, 2, strings.Count(text.String(), "repeat with: "+full(7).command()))
}

func TestJSONIsOneDocument(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, newReport(full(7), sound()).printJSON(&out))
	var got map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, true, got["ok"])
	require.InEpsilon(t, 7., got["seed"], 0)
	require.Len(t, got["checks"], 10)
	require.Equal(t, map[string]any{"1": 1., "2": 1.}, got["attempts"])
}
