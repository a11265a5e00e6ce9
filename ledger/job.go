package ledger

import (
	"encoding/json"
	"time"
)

// State is where a job stands.
type State string

// States of a job. The last three are final.
const (
	StateQueued    State = "queued"
	StateRunning   State = "running"
	StateCompleted State = "completed"
	StateFailed    State = "failed"
	StateRefunded  State = "refunded"
)

// EndReason says why a job ended.
type EndReason string

// Reasons for a job's end.
const (
	EndDelivered EndReason = "delivered"
	EndPartial   EndReason = "partial"
	EndVendor    EndReason = "vendor_error"
	EndExhausted EndReason = "attempts_exhausted"
	EndCancelled EndReason = "cancelled"
	EndOrphaned  EndReason = "orphaned"
	EndMaxWait   EndReason = "max_wait"
	EndUnknown   EndReason = "max_unknown"
)

// Job is one chargeable piece of work: what was asked, and either what is happening (Open)
// or how it ended (End). Exactly one of Open and End is set.
type Job struct {
	ID          string
	Key         string // the caller's; "" for none
	Tenant      string
	AccountID   string
	Account     string // name
	Type        string
	Cost        int64           // quoted, credits
	Units       int             // asked for: pictures, clips; 1 when the type has no units
	Input       json.RawMessage // as sent
	Metadata    json.RawMessage // as sent; an object
	MaxAttempts int
	WaitUntil   time.Time // a job still queued then is cancelled; zero for never
	RetryOf     string
	CreatedAt   time.Time
	Fingerprint []byte

	Open *OpenState
	End  *EndState
	// Call is the newest call to a vendor. While the job is open: one without a verdict, nil
	// for none. Afterwards: the one that the job ended with, nil when no vendor was called.
	Call *Call
}

// OpenState is what is happening to a job that has not ended.
type OpenState struct {
	Held     int64 // credits that the deduct took
	State    State // queued or running
	Epoch    int   // which wake-up of the queue is meant
	Attempts int   // runs that were permitted to call a vendor
	Starts   int   // every Start
	Lost     int   // starts whose worker never came back
	Counted  bool  // the current attempt has used up one of the job's attempts
	N        int   // the job's next call to a vendor, or the one without a verdict

	QueuedAt   time.Time // when it was last put into the queue: opened, yielded, put back
	CheckAt    time.Time // when the relay looks next
	RunAfter   time.Time // not before; zero for at once
	EnqueuedAt time.Time // the queue accepted it; zero for never
	SeenAt     time.Time // the queue was seen to have it; zero for never
	RefusedAt  time.Time // the queue refused it; zero for never

	Worker         string    // of the current attempt; "" while queued
	Token          string    // of the current attempt; "" while queued
	FirstStartedAt time.Time // zero for never
	StartedAt      time.Time // of the current attempt
	Deadline       time.Time // of the current attempt
	CancelAt       time.Time // when somebody asked to cancel; zero for never

	Percent  int // 0–100, as the generator reported
	Progress string

	// Lease of the current attempt's worker, from the workers table; zero when it has no
	// row, which means dead.
	WorkerRenewedAt, WorkerAliveUntil time.Time
}

// WorkerAlive reports whether the lease of the attempt's worker holds at now.
func (o *OpenState) WorkerAlive(now time.Time) bool { return o.WorkerAliveUntil.After(now) }

// EndState is how a job ended.
type EndState struct {
	State     State // completed, failed or refunded
	Reason    EndReason
	Held      int64 // credits that the deduct took
	Charged   int64 // credits that stayed taken; −Σ delta of the job
	Shortfall int64 // credits of the actual cost that the account could not pay
	Delivered int   // units
	Attempts  int
	Starts    int
	Epoch     int
	N         int    // of the last call to a vendor, if there was one
	Token     string // of the attempt that ended it; "" when no attempt did
	Result    *Result
	Error     *JobError
	Evidence  json.RawMessage
	Percent   int
	Progress  string
	StartedAt time.Time // first start; zero for never
	EndedAt   time.Time
}

// Result is what a job delivered. Artefacts are stored before it; it names them.
type Result struct {
	Artifacts []Artifact       `json:"artifacts"`
	Text      *string          `json:"text"`
	Usage     map[string]int64 `json:"usage"`
}

// Artifact names one stored file of a result.
type Artifact struct {
	Key         string `json:"key"` // in the artefact store: job_id/token/n.ext
	ContentType string `json:"content_type"`
	Bytes       int64  `json:"bytes"`
	SHA256      string `json:"sha256"` // hexadecimal
}

// JobError says why an attempt or a job failed. Message may hold what a vendor said.
type JobError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// State of the job, open or ended.
func (j *Job) State() State {
	if j.End != nil {
		return j.End.State
	}
	return j.Open.State
}

// Held is what the deduct took, in credits.
func (j *Job) Held() int64 {
	if j.End != nil {
		return j.End.Held
	}
	return j.Open.Held
}

// clone copies the job so that an answer does not change with later commands.
func (j *Job) clone() Job {
	c := *j
	if j.Open != nil {
		open := *j.Open
		c.Open = &open
	}
	if j.End != nil {
		end := *j.End
		c.End = &end
	}
	if j.Call != nil {
		call := *j.Call
		c.Call = &call
	}
	return c
}

// Attempt is one run that is over.
type Attempt struct {
	JobID     string
	N         int // 1 for the first start
	Token     string
	Epoch     int
	Worker    string
	Counted   bool // used up one of the job's attempts
	Outcome   AttemptOutcome
	Error     *JobError
	RunAfter  time.Time // when yielded; zero for at once
	VendorRef string    // the vendor's name for what it asked after; "" for none
	StartedAt time.Time
	EndedAt   time.Time
}

// AttemptOutcome says how an attempt ended.
type AttemptOutcome string

// Outcomes of an attempt.
const (
	AttemptCompleted AttemptOutcome = "completed"
	AttemptFailed    AttemptOutcome = "failed"
	AttemptYielded   AttemptOutcome = "yielded"    // will be tried again
	AttemptGivenBack AttemptOutcome = "given_back" // at shutdown; used up no attempt
	AttemptLost      AttemptOutcome = "lost"       // its worker died
	AttemptTimedOut  AttemptOutcome = "timed_out"  // past its deadline
	AttemptReplaced  AttemptOutcome = "replaced"   // another attempt started or ended the job
)
