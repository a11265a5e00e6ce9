package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func durations(seconds ...float64) []time.Duration {
	all := make([]time.Duration, len(seconds))
	for i, s := range seconds {
		all[i] = time.Duration(s * float64(time.Second))
	}
	return all
}

func upTo(n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[(i*37)%n] = time.Duration(i+1) * time.Second // in no order
	}
	return all
}

func TestFiguresOfADistribution(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		samples           []time.Duration
		median, p99, most float64
	}{
		{nil, 0, 0, 0},
		{durations(3), 3, 3, 3},
		{durations(2, 1), 1, 2, 2},
		{durations(3, 1, 2), 2, 3, 3},
		{upTo(52), 26, 52, 52},
		{upTo(100), 50, 99, 100},
		{upTo(200), 100, 198, 200},
	} {
		f := finding{samples: c.samples}
		got := []float64{f.at(median).Seconds(), f.at(p99).Seconds(), f.at(most).Seconds()}
		require.Equal(t, []float64{c.median, c.p99, c.most}, got, "%v", c.samples)
	}
	samples := durations(2, 1)
	finding{samples: samples}.at(median)
	require.Equal(t, durations(2, 1), samples, "the order of the samples stays")
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	reached, missed := must(most, 2*time.Second), must(most, time.Second)
	for want, f := range map[string]finding{
		"yes":             {samples: durations(1, 2), targets: []target{reached}, nothing: []nothing{{"duplicates", nil}}},
		"yes, aim missed": {samples: durations(1, 2), targets: []target{reached, hopeMedian(time.Millisecond)}},
		"MISSED":          {samples: durations(1, 2), targets: []target{reached, missed}},
		"–":               {samples: durations(1, 2)},
	} {
		require.Equal(t, want, f.verdict())
		require.Equal(t, want != "MISSED", f.ok())
	}
	require.False(t, finding{targets: []target{reached}}.ok(), "nothing was measured")
	require.False(t, finding{nothing: []nothing{{"duplicates", []string{"job 1"}}}}.ok())
}

func TestTheTable(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	require.NoError(t, printTable(&text, []finding{
		{name: "killed", what: "worker killed", samples: durations(1, 9.5, 30), targets: []target{must(p99, 20*time.Second), hopeMedian(12 * time.Second)},
			nothing: []nothing{{"duplicates", []string{"job 1 twice", "job 2 twice"}}}},
		{name: "none", what: "never seen"},
	}))
	require.Equal(t, `recovery, seconds  n  median  p99    max    target                                        ok
worker killed      3  9.50    30.00  30.00  p99 ≤ 20 s, aim median ≤ 12 s, no duplicates  MISSED
never seen         0  –       –      –      –                                             –
killed: duplicates: job 1 twice
killed: duplicates: job 2 twice
`, text.String())
}
