package fakevendor

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A Status is where a generation stands. The last three are its ends.
type Status string

// What becomes of a generation.
const (
	Queued     Status = "queued"
	Processing Status = "processing"
	Succeeded  Status = "succeeded"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// Ended says whether s is final.
func (s Status) Ended() bool { return s == Succeeded || s == Failed || s == Cancelled }

// A Duration is written as "90s" in JSON.
type Duration time.Duration

// MarshalText writes d as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads and refuses what is negative.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	if parsed < 0 {
		return fmt.Errorf("duration %s is negative", parsed)
	}
	*d = Duration(parsed)
	return nil
}

// Work says what a generation does once accepted. The zero value succeeds at
// once, perhaps before the submit is answered.
type Work struct {
	Queue    Duration `json:"queue,omitempty"`    // queued for so long
	Duration Duration `json:"duration,omitempty"` // then processing for so long
	Hold     bool     `json:"hold,omitempty"`     // instead: nothing happens until it is told (Progress, Finish) or cancelled
	Early    int      `json:"early,omitempty"`    // units ready as soon as processing begins: what a cancel leaves and bills
	Outcome  Outcome  `json:"outcome,omitzero"`

	PollAfter Duration `json:"poll_after,omitempty"` // the vendor's own pace; 0 = that of Options

	// Callbacks are sent at the end, in this order, in place of the two that are
	// due, one when processing begins and one at the end. Empty = those two.
	Callbacks []Callback `json:"callbacks,omitempty"`
	Silent    bool       `json:"silent,omitempty"` // no callbacks at all: they were lost
}

// An Outcome is how a generation ends.
type Outcome struct {
	Status    Status `json:"status,omitempty"`    // "" = succeeded
	Delivered int    `json:"delivered,omitempty"` // units; 0 = all that were asked for when it succeeded, otherwise none
	Code      string `json:"code,omitempty"`      // of the error of a failure; "" = "generation_failed"
	Message   string `json:"message,omitempty"`
	Transient bool   `json:"transient,omitempty"` // the failure may pass; another submit could succeed
}

// Generation is one accepted piece of work as the books hold it.
type Generation struct {
	ID         string          `json:"id"`
	Key        string          `json:"key"` // idempotency key
	Input      json.RawMessage `json:"input"`
	Prompt     string          `json:"prompt"`
	WebhookURL string          `json:"webhook_url,omitempty"`
	Asked      int             `json:"asked"` // units
	Price      int64           `json:"price"` // a unit
	Work       Work            `json:"work"`
	Beside     []string        `json:"beside,omitempty"` // generations of the same job that were open when this one was accepted

	Status     Status     `json:"status"`
	Percent    int        `json:"percent"`   // as told; work by the clock computes its own
	Delivered  int        `json:"delivered"` // units ready
	Error      *Error     `json:"error,omitempty"`
	AcceptedAt time.Time  `json:"accepted_at"`
	BeganAt    *time.Time `json:"began_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	Told       bool       `json:"told,omitempty"` // a callback about its end was received
}

// An Error is why a generation failed, as clients see it.
type Error struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Transient bool   `json:"transient"`
}

// Job is the part of the key before its last colon: the caller's name for what
// it wants done, whichever try this is. A key without one is all job.
func (g *Generation) Job() string { return jobOf(g.Key) }

func jobOf(key string) string {
	if i := strings.LastIndexByte(key, ':'); i >= 0 {
		return key[:i]
	}
	return key
}

// units is what is billed: all that was asked for until the end tells.
func (g *Generation) units() int {
	if g.Status.Ended() {
		return g.Delivered
	}
	return g.Asked
}

// percent is the progress at a time, by the clock unless it was told.
func (g *Generation) percent(now time.Time) int {
	switch {
	case g.Status == Succeeded:
		return 100
	case g.Status != Processing || g.Work.Hold || g.Work.Duration == 0:
		return g.Percent
	default:
		done := int(100 * now.Sub(*g.BeganAt) / time.Duration(g.Work.Duration))
		return max(g.Percent, min(done, 99))
	}
}

// view is a generation as clients see it.
type view struct {
	ID          string     `json:"id"`
	Status      Status     `json:"status"`
	Progress    int        `json:"progress"`
	PollAfterMS *int64     `json:"poll_after_ms"`
	Outputs     []output   `json:"outputs"`
	Usage       usage      `json:"usage"`
	Cost        int64      `json:"cost"`
	Error       *Error     `json:"error"`
	CreatedAt   time.Time  `json:"created_at"`
	EndedAt     *time.Time `json:"ended_at"`
}

type output struct {
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Bytes       int    `json:"bytes"`
	SHA256      string `json:"sha256"`
}

type usage struct {
	Units int `json:"units"`
}

// view shows g; files are found below base.
func (g *Generation) view(base string, now time.Time) view {
	v := view{
		ID:        g.ID,
		Status:    g.Status,
		Progress:  g.percent(now),
		Outputs:   outputs(base, g.ID, g.Delivered),
		Usage:     usage{Units: g.Delivered},
		Cost:      int64(g.Delivered) * g.Price,
		Error:     g.Error,
		CreatedAt: g.AcceptedAt,
		EndedAt:   g.EndedAt,
	}
	if !g.Status.Ended() {
		pace := time.Duration(g.Work.PollAfter).Milliseconds()
		v.PollAfterMS = &pace
	}
	return v
}
