package main

import (
	"fmt"
	"slices"
	"time"
)

// finding is what a scenario measured: how long something took, each time it was seen, and
// what must not have happened at all.
type finding struct {
	name    string // in results, such as worker_killed
	what    string // for people
	samples []time.Duration
	targets []target
	nothing []nothing
}

// target is what a finding must come to, at most.
type target struct {
	of   stat
	most time.Duration
	aim  bool // would be good; a miss is told and fails nothing
}

// stat is a figure of a distribution.
type stat string

const (
	median stat = "median"
	p99    stat = "p99"
	most   stat = "max"
)

var stats = []stat{median, p99, most}

// nothing is a list that must be empty.
type nothing struct {
	name string // such as duplicates
	seen []string
}

// at is the figure of the samples: of the smallest one that so many of a hundred do not
// exceed. 0 of none.
func (f finding) at(s stat) time.Duration {
	if len(f.samples) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(f.samples))
	percent := map[stat]int{median: 50, p99: 99, most: 100}[s]
	return sorted[(len(sorted)*percent+99)/100-1]
}

// met says whether a target is; without a sample none is.
func (f finding) met(t target) bool { return len(f.samples) > 0 && f.at(t.of) <= t.most }

// ok says whether everything that must hold does.
func (f finding) ok() bool {
	for _, t := range f.targets {
		if !t.aim && !f.met(t) {
			return false
		}
	}
	for _, n := range f.nothing {
		if len(n.seen) > 0 {
			return false
		}
	}
	return true
}

// must and hopeMedian make targets.
func must(s stat, at time.Duration) target { return target{of: s, most: at} }

func hopeMedian(at time.Duration) target { return target{of: median, most: at, aim: true} }

func (t target) String() string {
	word := ""
	if t.aim {
		word = "aim "
	}
	return fmt.Sprintf("%s%s ≤ %s s", word, t.of, seconds(t.most))
}

// seconds writes 20 and 0.25.
func seconds(d time.Duration) string { return fmt.Sprintf("%.4g", d.Seconds()) }

// least is the smallest sample.
func (f finding) least() time.Duration { return slices.Min(f.samples) }
