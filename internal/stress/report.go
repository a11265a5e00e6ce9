package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// report is what a run comes to. Durations are seconds.
type report struct {
	OK      bool    `json:"ok"`
	Seed    uint64  `json:"seed"`
	Command string  `json:"command"` // repeats it
	Seconds float64 `json:"seconds"` // from the first submit to the last end
	Checks  []check `json:"checks"`

	Submits  int     `json:"submits"` // repeats, misuses and refusals included
	Jobs     int     `json:"jobs"`
	JobsRate float64 `json:"jobs_per_second"` // ended, over Seconds
	Retries  int     `json:"retries"`         // of submits, while the ledger was unavailable

	SubmitLatency spread `json:"submit_latency"`
	Kills         int    `json:"kills"`
	CutOff        int    `json:"attempts_cut_off"`
	KillToEnd     spread `json:"kill_to_end"` // of the jobs that were cut off

	Attempts map[int]int                 `json:"attempts"` // jobs by how many attempts they took
	Refunds  map[ledger.EndReason]refund `json:"refunds"`
}

// refund is what jobs that ended for one reason gave back.
type refund struct {
	Jobs    int   `json:"jobs"`
	Credits int64 `json:"credits"`
}

// spread sums up durations, in seconds; zeros for none.
type spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spreadOf(all []time.Duration) spread {
	if len(all) == 0 {
		return spread{}
	}
	slices.Sort(all)
	at := func(percent int) float64 { return all[(len(all)*percent+99)/100-1].Seconds() }
	return spread{P50: at(50), P99: at(99), Max: all[len(all)-1].Seconds()}
}

// newReport judges the evidence and adds it up.
func newReport(o options, e *evidence) report {
	r := report{OK: true, Seed: o.seed, Command: o.command(), Checks: checkAll(e), Submits: len(e.answers), Jobs: len(e.books.jobs),
		Kills: len(e.deaths), Attempts: map[int]int{}, Refunds: map[ledger.EndReason]refund{}}
	for _, c := range r.Checks {
		r.OK = r.OK && c.OK
	}
	var latency, killToEnd []time.Duration
	var first, last time.Time
	for _, a := range e.answers {
		latency = append(latency, a.ended.Sub(a.began))
		r.Retries += a.retries
		if first.IsZero() || a.began.Before(first) {
			first = a.began
		}
	}
	ended := 0
	for _, j := range e.books.jobs {
		if j.End == nil {
			continue
		}
		ended++
		r.Attempts[j.End.Attempts]++
		if j.End.State != ledger.StateCompleted {
			x := r.Refunds[j.End.Reason]
			r.Refunds[j.End.Reason] = refund{x.Jobs + 1, x.Credits + j.End.Held - j.End.Charged}
		}
		if j.End.At.After(last) {
			last = j.End.At
		}
	}
	for _, h := range e.hits() {
		killToEnd = append(killToEnd, h.took)
	}
	if r.Seconds = last.Sub(first).Seconds(); ended > 0 && r.Seconds > 0 {
		r.JobsRate = float64(ended) / r.Seconds
	}
	r.SubmitLatency, r.KillToEnd, r.CutOff = spreadOf(latency), spreadOf(killToEnd), len(killToEnd)
	return r
}

// print writes the report for people.
func (r report) print(w io.Writer) {
	for _, c := range r.Checks {
		word := "ok  "
		if !c.OK {
			word = "FAIL"
		}
		fmt.Fprintf(w, "%s  %-38s %s\n", word, c.Name, c.Seen)
		for _, f := range c.Faults {
			fmt.Fprintf(w, "        %s\n", f)
		}
		if more := c.Count - len(c.Faults); more > 0 {
			fmt.Fprintf(w, "        … and %d more\n", more)
		}
		if !c.OK {
			fmt.Fprintf(w, "        seed %d; repeat with: %s\n", r.Seed, r.Command)
		}
	}
	fmt.Fprintf(w, "\nsubmit      %s over %d submits\n", r.SubmitLatency.in(time.Millisecond, "ms"), r.Submits)
	fmt.Fprintf(w, "jobs        %d in %.1f s, %.1f jobs/s\n", r.Jobs, r.Seconds, r.JobsRate)
	fmt.Fprintf(w, "kills       %d, which cut off %d attempts\n", r.Kills, r.CutOff)
	fmt.Fprintf(w, "kill → end  %s\n", r.KillToEnd.in(time.Second, "s"))
	fmt.Fprintf(w, "attempts    %s\n", histogram(r.Attempts))
	fmt.Fprintf(w, "refunds     %s\n", refunds(r.Refunds))
	if r.OK {
		fmt.Fprintf(w, "\neverything holds (seed %d)\n", r.Seed)
	} else {
		fmt.Fprintf(w, "\nNOT EVERYTHING HOLDS (seed %d); repeat with: %s\n", r.Seed, r.Command)
	}
}

func (s spread) in(unit time.Duration, name string) string {
	f := func(seconds float64) string {
		return fmt.Sprintf("%.1f %s", seconds/unit.Seconds(), name)
	}
	return fmt.Sprintf("p50 %s, p99 %s, max %s", f(s.P50), f(s.P99), f(s.Max))
}

func histogram(attempts map[int]int) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(attempts)) {
		parts = append(parts, fmt.Sprintf("%d: %d jobs", n, attempts[n]))
	}
	return strings.Join(parts, ", ")
}

func refunds(by map[ledger.EndReason]refund) string {
	if len(by) == 0 {
		return "none"
	}
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s: %d jobs, %d credits", reason, by[reason].Jobs, by[reason].Credits))
	}
	return strings.Join(parts, "; ")
}

func (r report) printJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(r)
}
