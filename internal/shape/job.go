package shape

import (
	"encoding/json"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Cost is what a job cost, in credits.
type Cost struct {
	Quoted    int64 `json:"quoted"`
	Held      int64 `json:"held"`
	Charged   int64 `json:"charged"`
	Refunded  int64 `json:"refunded"`
	Shortfall int64 `json:"shortfall"`
	Credited  int64 `json:"credited"`
}

// Units counts what was asked for and delivered.
type Units struct {
	Asked     int `json:"asked"`
	Delivered int `json:"delivered"`
}

// Progress is how far a job is.
type Progress struct {
	Percent int    `json:"percent"`
	Text    string `json:"text"`
}

// Artifact is one file of a result.
type Artifact struct {
	N           int    `json:"n"`
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"`
}

// Result is what a job delivered.
type Result struct {
	Artifacts []Artifact       `json:"artifacts"`
	Text      *string          `json:"text"`
	Usage     map[string]int64 `json:"usage"`
}

// Job is a job as callers see it.
type Job struct {
	ID           string           `json:"id"`
	Key          Text             `json:"key"`
	Tenant       string           `json:"tenant"`
	Account      string           `json:"account"`
	Type         string           `json:"type"`
	State        ledger.State     `json:"state"`
	EndReason    Text             `json:"end_reason"`
	Cost         Cost             `json:"cost"`
	Units        Units            `json:"units"`
	Attempts     int              `json:"attempts"`
	MaxAttempts  int              `json:"max_attempts"`
	Progress     Progress         `json:"progress"`
	Provider     Text             `json:"provider"`
	Model        Text             `json:"model"`
	VendorRef    Text             `json:"vendor_ref"`
	VendorCost   *int64           `json:"vendor_cost"`
	PriceVersion Text             `json:"price_version"`
	RetryOf      Text             `json:"retry_of"`
	Flags        []string         `json:"flags"`
	Result       *Result          `json:"result"`
	Error        *ledger.JobError `json:"error"`
	Evidence     json.RawMessage  `json:"evidence"`
	Metadata     json.RawMessage  `json:"metadata"`
	Balance      Balance          `json:"balance"`
	CreatedAt    Time             `json:"created_at"`
	StartedAt    Time             `json:"started_at"`
	EndedAt      Time             `json:"ended_at"`
}

// Attempt is one run of a job.
type Attempt struct {
	N         int              `json:"n"`
	Epoch     int              `json:"epoch"`
	Worker    string           `json:"worker"`
	StartedAt Time             `json:"started_at"`
	EndedAt   Time             `json:"ended_at"`
	Outcome   Text             `json:"outcome"`
	VendorRef Text             `json:"vendor_ref"`
	Counted   bool             `json:"counted"` // it used up one of the job's attempts
	WaitUntil Time             `json:"wait_until"`
	Error     *ledger.JobError `json:"error"`
}

// Call is one submission of a job to a vendor.
type Call struct {
	N          int               `json:"n"`
	Provider   string            `json:"provider"`
	Status     ledger.CallStatus `json:"status"`
	VendorRef  Text              `json:"vendor_ref"`
	ClaimedAt  Time              `json:"claimed_at"`
	AcceptedAt Time              `json:"accepted_at"`
	HeardAt    Time              `json:"heard_at"`
	EndedAt    Time              `json:"ended_at"`
	Error      *ledger.JobError  `json:"error"`
}

// Lot is a grant that paid for a job, and how much, in credits.
type Lot struct {
	GrantID string `json:"grant_id"`
	Amount  int64  `json:"amount"`
}

// JobStory is a job with everything that happened to it.
type JobStory struct {
	Job
	Entries    []Entry   `json:"entries"`
	AttemptLog []Attempt `json:"attempt_log"`
	Calls      []Call    `json:"vendor_calls"`
	Lots       []Lot     `json:"lots"`
}

// Flags of a job.
const (
	FlagVendorUnknown   = "vendor_unknown"   // nobody knows whether the vendor has it
	FlagLateSuccess     = "late_success"     // the vendor delivered after the job had ended; a refund is kept
	FlagCancelRequested = "cancel_requested" // somebody asked to cancel it while it ran
)

// FlagsOf says what somebody should look at in a job; empty when nothing.
func FlagsOf(j ledger.Job) []string {
	flags := []string{}
	if j.VendorUnknown() {
		flags = append(flags, FlagVendorUnknown)
	}
	if j.Call != nil && j.Call.Status == ledger.CallLate {
		flags = append(flags, FlagLateSuccess)
	}
	if o := j.Open; o != nil && !o.CancelAt.IsZero() {
		flags = append(flags, FlagCancelRequested)
	}
	return flags
}

// JobOf shapes a job. locate says where an artefact can be read; credited is the sum of the
// adjustments about the job, in credits.
func JobOf(j ledger.Job, b ledger.Balance, credited int64, locate func(key string) string) Job {
	s := Job{ID: j.ID, Key: Text(j.Key), Tenant: j.Tenant, Account: j.Account, Type: j.Type, State: j.State(),
		Units: Units{Asked: j.Units}, MaxAttempts: j.MaxAttempts, RetryOf: Text(j.RetryOf), Flags: FlagsOf(j),
		Metadata: j.Metadata, Balance: BalanceOf(b), CreatedAt: Time(j.CreatedAt),
		Cost: Cost{Quoted: j.Cost, Held: j.Held(), Credited: credited}}
	if call := j.Call; call != nil {
		s.Provider, s.VendorRef = Text(call.Provider), Text(call.Ref)
	}
	if o := j.Open; o != nil {
		s.Attempts, s.Progress, s.StartedAt = o.Attempts, Progress{o.Percent, o.Progress}, Time(o.FirstStartedAt)
		return s
	}
	e := j.End
	s.EndReason, s.Attempts, s.Units.Delivered = Text(e.Reason), e.Attempts, e.Delivered
	s.Cost.Charged, s.Cost.Refunded, s.Cost.Shortfall = e.Charged, max(0, e.Held-e.Charged), e.Shortfall
	s.Progress, s.Error, s.Evidence = Progress{e.Percent, e.Progress}, e.Error, e.Evidence
	s.StartedAt, s.EndedAt = Time(e.StartedAt), Time(e.EndedAt)
	if e.Result != nil {
		s.Result = resultOf(e.Result, locate)
	}
	return s
}

func resultOf(r *ledger.Result, locate func(string) string) *Result {
	s := &Result{Artifacts: []Artifact{}, Text: r.Text, Usage: r.Usage}
	if s.Usage == nil {
		s.Usage = map[string]int64{}
	}
	for n, a := range r.Artifacts {
		s.Artifacts = append(s.Artifacts, Artifact{n, locate(a.Key), a.ContentType, a.Bytes, a.SHA256})
	}
	return s
}

// StoryOf shapes a job with its entries, attempts and calls.
func StoryOf(job Job, j ledger.Job, entries []ledger.Entry, attempts []ledger.Attempt, calls []ledger.Call) JobStory {
	log := each(attempts, func(a ledger.Attempt) Attempt {
		return Attempt{N: a.N, Epoch: a.Epoch, Worker: a.Worker, StartedAt: Time(a.StartedAt), EndedAt: Time(a.EndedAt), Outcome: Text(a.Outcome),
			VendorRef: Text(a.VendorRef), Counted: a.Counted, WaitUntil: Time(a.RunAfter), Error: a.Error}
	})
	if o := j.Open; o != nil && o.State == ledger.StateRunning {
		running := Attempt{N: o.Starts, Epoch: o.Epoch, Worker: o.Worker, StartedAt: Time(o.StartedAt), Counted: o.Counted}
		if j.Call != nil {
			running.VendorRef = Text(j.Call.Ref)
		}
		log = append(log, running)
	}
	return JobStory{Job: job, Entries: Entries(entries), AttemptLog: log, Lots: []Lot{}, Calls: each(calls, func(c ledger.Call) Call {
		return Call{N: c.N, Provider: c.Provider, Status: c.Status, VendorRef: Text(c.Ref), ClaimedAt: Time(c.ClaimedAt),
			AcceptedAt: Time(c.AcceptedAt), HeardAt: Time(c.HeardAt), EndedAt: Time(c.EndedAt), Error: c.Error}
	})}
}

// Clock formats a moment for people, in UTC.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05.000")
}
