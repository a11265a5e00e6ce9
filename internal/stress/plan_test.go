package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/makegood/makegood/internal/app"
)

// full is what `make stress` runs.
func full(seed uint64) options {
	return options{seed: seed, jobs: 2000, accounts: 50, workers: 3, schedulers: 2, kills: 20, interval: time.Second}
}

func TestASeedIsAPlan(t *testing.T) {
	t.Parallel()
	first, again, other := newPlan(full(7)), newPlan(full(7)), newPlan(full(8))
	require.Equal(t, first, again)
	require.NotEqual(t, first.kills, other.kills)
	require.NotEqual(t, first.submits, other.submits)
}

func TestAPlanHasAllThatIsToBeTried(t *testing.T) {
	t.Parallel()
	p := newPlan(full(7))
	seen := map[string]int{}
	sent := map[int]int{}
	for _, s := range p.submits {
		sent[s.order]++
	}
	keys := map[string]int{}
	for i, o := range p.orders {
		count := func(what string, is bool) {
			if is {
				seen[what]++
			}
		}
		count("doomed", o.doomed)
		count("once", o.maxAttempts == 1)
		count("without a key", o.key == "")
		count("quoted too much", o.cost > o.actual)
		count("quoted too little", o.cost < o.actual)
		count("repeated", sent[i] > 1)
		count("ghost", p.accounts[o.account].grant == 0)
		require.Equal(t, o.doomed, bytes.Contains(o.input, []byte(app.FailWord)), "%s", o.input)
		if o.key != "" {
			keys[o.key]++
		} else {
			require.Equal(t, 1, sent[i], "an order without a key must not be repeated")
		}
	}
	for _, uses := range keys {
		if uses > 1 {
			seen["used for something else"]++
		}
	}
	for _, a := range p.accounts {
		if !a.rich && a.grant > 0 {
			seen["poor"]++
		}
	}
	for _, what := range []string{"doomed", "once", "without a key", "quoted too much", "quoted too little", "repeated", "ghost",
		"used for something else", "poor"} {
		require.NotZero(t, seen[what], what)
	}
	last := p.submits[len(p.submits)-1].at
	require.Greater(t, last, 20*time.Second, "the load ends before the kills")
	victims := map[int]bool{}
	for _, k := range p.kills {
		victims[k] = true
	}
	require.Len(t, victims, 3)
}

// TestEveryPlanCanBePlayed, whatever is asked for.
func TestEveryPlanCanBePlayed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		small := rapid.IntRange(1, 8)
		o := options{seed: rapid.Uint64().Draw(t, "seed"), jobs: rapid.IntRange(1, 200).Draw(t, "jobs"), accounts: small.Draw(t, "accounts"),
			workers: small.Draw(t, "workers"), schedulers: 1, kills: rapid.IntRange(0, 5).Draw(t, "kills"),
			interval: time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Minute)).Draw(t, "interval"))}
		p := newPlan(o)
		require.Len(t, p.kills, o.kills)
		for _, k := range p.kills {
			require.True(t, k >= 0 && k < o.workers)
		}
		due, most := make([]int64, len(p.accounts)), o.window()
		for _, w := range p.orders {
			require.NoError(t, p.ordering(w, "default").Validate())
			due[w.account] += max(w.cost, w.actual)
		}
		for i, a := range p.accounts {
			if a.rich {
				require.Greater(t, a.grant, due[i], "a rich account must never be refused")
			}
		}
		sent := map[int]bool{}
		for i, s := range p.submits {
			require.True(t, s.at >= 0 && s.at < most)
			require.True(t, i == 0 || p.submits[i-1].at <= s.at, "by time")
			sent[s.order] = true
		}
		for i := range p.orders {
			require.True(t, sent[i], "order %d is never sent", i)
		}
		require.GreaterOrEqual(t, len(p.orders), o.jobs)
	})
}
