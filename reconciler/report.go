package reconciler

import (
	"encoding/json"

	"github.com/makegood/makegood/ledger"
)

// maxWaits is how many jobs left alone a report names; the counts are exact.
const maxWaits = 100

// Report is what a sweep did, or with DryRun would do.
type Report struct {
	SweepID   string     `json:"sweep_id"`
	DryRun    bool       `json:"dry_run"`
	Seen      int        `json:"seen"`     // open jobs
	Refunded  int        `json:"refunded"` // ended by this sweep, everything given back
	Left      int        `json:"left"`     // still open
	Errors    int        `json:"errors"`   // left because something went wrong; logged
	Decisions []Decision `json:"decisions"`

	waits int
}

// Decision is what a sweep did with one job. All jobs that were ended are listed, and the
// first hundred of those left alone.
type Decision struct {
	JobID    string             `json:"job_id"`
	State    ledger.State       `json:"state"` // before
	Action   ledger.SweepAction `json:"action"`
	Reason   ledger.EndReason   `json:"reason"`
	Evidence json.RawMessage    `json:"evidence"` // null for a job that ended meanwhile
}

func (r *Report) add(job ledger.Job, d ledger.SweepDecision) {
	switch {
	case d.Action != ledger.SweepWait:
		r.Refunded++
	case d.Reason != ledger.SweepEnded:
		r.Left++
	}
	if d.Action == ledger.SweepWait {
		if r.waits++; r.waits > maxWaits {
			return
		}
	}
	r.Decisions = append(r.Decisions,
		Decision{JobID: job.ID, State: job.State(), Action: d.Action, Reason: d.Reason, Evidence: d.Evidence})
}

func (r *Report) fail() {
	r.Errors++
	r.Left++
}

// stored is the list of decisions as a row of the sweeps table keeps it, once a minute for
// ever: what was ended with its evidence, what was left with the reason alone.
func (r *Report) stored() []byte {
	list := make([]Decision, len(r.Decisions))
	for i, d := range r.Decisions {
		if d.Action == ledger.SweepWait {
			d.Evidence = nil
		}
		list[i] = d
	}
	raw, err := json.Marshal(list)
	if err != nil { // evidence is JSON of ours
		panic(err)
	}
	return raw
}
