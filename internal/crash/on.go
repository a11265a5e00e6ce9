//go:build faults

package crash

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Compiled reports whether this program can be told to crash.
const Compiled = true

// Points lists all places, in the order in which a job meets them.
var Points = []string{OpenBefore, OpenAfter, EnqueueBefore, EnqueueAfter, StartBefore, StartAfter, ClaimBefore, ClaimAfter,
	SubmitBefore, SubmitAfter, AnswerBefore, AnswerAfter, Find, Poll, CancelVendor, Download, Generate, ArtifactBefore, ArtifactAfter,
	CompleteBefore, CompleteAfter, FailBefore, FailAfter, YieldBefore, YieldAfter, AckBefore, CancelBefore, CancelAfter,
	RenewBefore, RenewAfter, RelayBefore, RelayAfter, SightBefore, SightAfter, MarkerBefore, WatcherBefore, WatcherAfter,
	SweepRead, SweepBefore, SweepAfter, EventBefore, EventAfter}

// Variables that a process is told by.
const (
	PlanVar = "MAKEGOOD_CRASH"      // what to do where, see ParsePlan
	LogVar  = "MAKEGOOD_CRASH_FILE" // each strike adds the line "POINT ACTION PID"; also the memory of what has struck
)

// Action is what happens at a point.
type Action string

// Actions.
const (
	Kill   Action = "kill"   // SIGKILL
	Term   Action = "term"   // SIGTERM to itself; the program goes on until it has stopped
	Freeze Action = "freeze" // SIGSTOP; whoever watches sends SIGCONT
	Pause  Action = "pause"  // waits, one second or as long as it says: pause(5s)
)

// Strike is one thing that a process is told to do.
type Strike struct {
	Point  string
	Action Action
	For    time.Duration // of a pause
	Nth    int           // time that the point is reached in this process; 1 for the first
	Times  int           // how often from there; 1 unless told otherwise
}

// ParsePlan reads "POINT=ACTION[@NTH[xTIMES]]", separated by spaces.
func ParsePlan(text string) ([]Strike, error) {
	var plan []Strike
	for _, word := range strings.Fields(text) {
		point, rest, ok := strings.Cut(word, "=")
		if !ok || !known(point) {
			return nil, fmt.Errorf("crash plan: %q names no point", word)
		}
		s := Strike{Point: point, Nth: 1, Times: 1, For: time.Second}
		action, count, counted := strings.Cut(rest, "@")
		if counted {
			nth, times, many := strings.Cut(count, "x")
			var err error
			if s.Nth, err = strconv.Atoi(nth); err != nil || s.Nth < 1 {
				return nil, fmt.Errorf("crash plan: %q counts from 1", word)
			}
			if many {
				if s.Times, err = strconv.Atoi(times); err != nil || s.Times < 1 {
					return nil, fmt.Errorf("crash plan: %q strikes at least once", word)
				}
			}
		}
		if text, ok := strings.CutPrefix(action, "pause("); ok {
			d, err := time.ParseDuration(strings.TrimSuffix(text, ")"))
			if err != nil {
				return nil, fmt.Errorf("crash plan: %q: %w", word, err)
			}
			s.For, action = d, "pause"
		}
		s.Action = Action(action)
		switch s.Action {
		case Kill, Term, Freeze, Pause:
		default:
			return nil, fmt.Errorf("crash plan: %q names no action", word)
		}
		plan = append(plan, s)
	}
	return plan, nil
}

func known(point string) bool {
	for _, p := range Points {
		if p == point {
			return true
		}
	}
	return false
}

var plan = sync.OnceValue(func() map[string][]*due {
	strikes, err := ParsePlan(os.Getenv(PlanVar))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	byPoint := map[string][]*due{}
	for _, s := range strikes {
		byPoint[s.Point] = append(byPoint[s.Point], &due{Strike: s})
	}
	return byPoint
})

type due struct {
	Strike
	reached atomic.Int64
}

// Here strikes, if the plan says so.
func Here(point string) {
	for _, d := range plan()[point] {
		if n := int(d.reached.Add(1)); n < d.Nth || n >= d.Nth+d.Times {
			continue
		}
		note(d.Strike)
		d.strike()
	}
}

func (s Strike) strike() {
	pid := os.Getpid()
	switch s.Action {
	case Kill:
		_ = syscall.Kill(pid, syscall.SIGKILL)
		select {}
	case Term:
		_ = syscall.Kill(pid, syscall.SIGTERM)
	case Freeze:
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	case Pause:
		time.Sleep(s.For)
	}
}

// note adds a line to the log, before the strike: a dead process tells nobody.
func note(s Strike) {
	name := os.Getenv(LogVar)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash log:", err)
		os.Exit(2)
	}
	defer f.Close()
	fmt.Fprintln(f, s.Point, s.Action, os.Getpid())
}
