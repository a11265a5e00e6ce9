package ledger

import (
	"encoding/json"
	"time"
)

// Kind says what an entry records.
type Kind string

// Kinds of entry. Movements change the balance; the task markers do not.
const (
	KindGrant            Kind = "grant"             // credits given
	KindDeduct           Kind = "deduct"            // credits taken for a job; a marker when the job is free
	KindTaskStarted      Kind = "task_started"      // marker: a worker took the job for the first time
	KindTaskCompleted    Kind = "task_completed"    // marker, outcome: delivered
	KindTaskFailed       Kind = "task_failed"       // marker, outcome: not delivered
	KindRefund           Kind = "refund"            // what a failed job's deduct took comes back
	KindReconcilerRefund Kind = "reconciler_refund" // outcome and refund of an orphan, with evidence
	KindSettle           Kind = "settle"            // difference between held and actual
	KindExpire           Kind = "expire"            // credits past their grant's end
	KindRevoke           Kind = "revoke"            // chargeback, refunded purchase
	KindAdjust           Kind = "adjust"            // an operator's correction, ±
)

// Kinds lists every kind of entry, in the order of a job's life.
var Kinds = []Kind{KindGrant, KindDeduct, KindTaskStarted, KindTaskCompleted, KindTaskFailed, KindRefund,
	KindReconcilerRefund, KindSettle, KindExpire, KindRevoke, KindAdjust}

// Outcome reports whether an entry of this kind ends its job (I3).
func (k Kind) Outcome() bool {
	return k == KindTaskCompleted || k == KindTaskFailed || k == KindReconcilerRefund
}

// Entry is one row of the ledger, written once and never changed.
type Entry struct {
	ID        string
	AccountID string
	Seq       int64 // place in the account's chain, from 1; 0 for a marker
	Kind      Kind
	Delta     int64 // credits, + into the account
	// BalanceAfter is the account's balance with this movement; meaningless for a marker.
	BalanceAfter int64
	// Floor is how low a deduct was allowed to take the balance; meaningless otherwise.
	Floor int64
	// JobID is the job, or the id of the operation (grant, adjustment) that has no job.
	JobID    string
	AboutJob string // the job that an adjustment is about; "" for none
	// Reason and Actor are codes. Where a person wrote a reason (grants, adjustments), the
	// text lives in a table that can be erased, and reads fill it in.
	Reason    string
	Actor     string
	Evidence  json.RawMessage // what was known when a refund was decided; nil otherwise
	CreatedAt time.Time

	Account string // the account's name; filled in by reads
}

// Movement reports whether the entry changes the balance.
func (e Entry) Movement() bool { return e.Delta != 0 }

// Actors that are not people.
const (
	ActorWorker     = "worker"
	ActorReconciler = "reconciler"
	ActorClient     = "client"
)
