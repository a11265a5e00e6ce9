package shape

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Moment is one line of a job's story, for a person.
type Moment struct {
	At      time.Time
	What    string // short: charged, started, waits, …
	Details string
}

// Timeline tells a job's story in order: what was charged and returned, who ran it, what the
// vendor was sent and said, what was waited for and why. credits formats an amount.
func Timeline(s JobStory, credits func(int64) string) []Moment {
	var story []Moment
	tell := func(at Time, what, format string, args ...any) {
		if !time.Time(at).IsZero() {
			story = append(story, Moment{time.Time(at), what, strings.TrimSpace(fmt.Sprintf(format, args...))})
		}
	}
	for _, a := range s.AttemptLog {
		tell(a.StartedAt, "taken", "run %d, epoch %d, by worker %s", a.N, a.Epoch, a.Worker)
		tell(a.EndedAt, ran(string(a.Outcome)), "run %d%s%s", a.N, because(a.Error), until(a.WaitUntil, a.EndedAt))
	}
	for _, c := range s.Calls {
		tell(c.ClaimedAt, "submitting", "to %s as %s", c.Provider, ledger.CallKey(s.ID, c.N))
		tell(c.AcceptedAt, "accepted", "by %s, which calls it %s", c.Provider, string(c.VendorRef))
		tell(c.EndedAt, "vendor: "+string(c.Status), "call %d%s", c.N, because(c.Error))
	}
	for _, e := range s.Entries {
		details := ""
		if e.BalanceAfter != nil {
			details = fmt.Sprintf("%s credits, balance %s; ", signed(e.Delta, credits), credits(*e.BalanceAfter))
		}
		tell(e.CreatedAt, entryWord(e), "%s%s (%s)", details, e.Reason, e.Actor)
	}
	slices.SortStableFunc(story, func(a, b Moment) int { return a.At.Compare(b.At) })
	return story
}

func signed(n int64, credits func(int64) string) string {
	if n > 0 {
		return "+" + credits(n)
	}
	return credits(n)
}

// entryWord says what an entry means to somebody who does not know the kinds.
func entryWord(e Entry) string {
	switch e.Kind {
	case ledger.KindDeduct:
		return "charged"
	case ledger.KindTaskStarted:
		return "started"
	case ledger.KindTaskCompleted:
		return "completed"
	case ledger.KindTaskFailed:
		return "failed"
	case ledger.KindRefund, ledger.KindReconcilerRefund:
		return "refunded"
	case ledger.KindSettle:
		return "settled"
	case ledger.KindAdjust:
		return "adjusted"
	}
	return string(e.Kind)
}

// ran says how a run ended.
func ran(outcome string) string {
	switch ledger.AttemptOutcome(outcome) {
	case ledger.AttemptYielded:
		return "put back"
	case ledger.AttemptGivenBack:
		return "given back"
	case ledger.AttemptLost:
		return "worker lost"
	case ledger.AttemptTimedOut:
		return "timed out"
	}
	return "run " + outcome
}

func because(err *ledger.JobError) string {
	if err == nil {
		return ""
	}
	return ": " + err.Code
}

func until(wait, ended Time) string {
	if d := time.Time(wait).Sub(time.Time(ended)); !time.Time(wait).IsZero() && d > 0 {
		return ", waits " + d.Round(10*time.Millisecond).String()
	}
	return ""
}
