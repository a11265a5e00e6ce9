package reconciler

import (
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// RelayFresh is how old the last round of a relay may be for its word to count.
const RelayFresh = 10 * time.Second

// QueueHealth is what the relays at work know of the queue. The zero value knows nothing and
// proves nothing.
type QueueHealth struct {
	// ReachedFrom is when the longest-serving relay that reaches the queue was started;
	// zero when none reaches it. A refusal from before is not its word.
	ReachedFrom time.Time
	// OutSince is when any relay at work last reached the queue, while none does; zero while
	// one does, or when no relay is at work.
	OutSince time.Time
}

// HealthOf judges the queue by the relays whose last round is fresh at now. Without one
// nothing is known.
func HealthOf(relays []ledger.RelayStatus, now time.Time) QueueHealth {
	var h QueueHealth
	for _, r := range relays {
		switch {
		case now.Sub(r.RoundAt) > RelayFresh:
		case r.OutageSince.IsZero():
			if h.ReachedFrom.IsZero() || r.StartedAt.Before(h.ReachedFrom) {
				h.ReachedFrom = r.StartedAt
			}
		case r.OutageSince.After(h.OutSince):
			h.OutSince = r.OutageSince
		}
	}
	if h.Reached() {
		h.OutSince = time.Time{}
	}
	return h
}

// Reached reports whether a relay at work reaches the queue.
func (h QueueHealth) Reached() bool { return !h.ReachedFrom.IsZero() }

// Out reports whether there are relays at work and none of them reaches the queue.
func (h QueueHealth) Out() bool { return !h.OutSince.IsZero() }

// What evidence says of the queue.
const (
	queueReached = "reached"
	queueRefused = "refused"
	queueOut     = "unreachable"
	queueUnknown = "unknown"
)

func (h QueueHealth) word() string {
	switch {
	case h.Reached():
		return queueReached
	case h.Out():
		return queueOut
	}
	return queueUnknown
}

// timeText is a time as people script against it: RFC 3339, UTC, milliseconds.
func timeText(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// durationText is a duration without the zero parts at its end: 5m, not 5m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
