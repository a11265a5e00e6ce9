// Package crash marks the places where a process may die, freeze or be told to stop between
// two things that belong together: before and after a commit, a call to a vendor, to the queue,
// to the artefact store.
//
// Here is compiled in only with the build tag faults. Without it Compiled is false, Here is
// empty, and the programs hold not even the names.
//
//	MAKEGOOD_CRASH="submit.after=kill@3 complete.before_commit=freeze"
//
// makes the process kill itself at the third submit that was answered, and stop itself (SIGSTOP)
// before its first completion is committed. See Plan for the words.
package crash

// Points, in the order in which a job meets them. A command of the ledger has two: before its
// transaction commits, with everything decided, and after, with nobody told.
const (
	OpenBefore     = "open.before_commit"
	OpenAfter      = "open.after_commit"
	EnqueueBefore  = "enqueue.before"
	EnqueueAfter   = "enqueue.after"
	StartBefore    = "start.before_commit"
	StartAfter     = "start.after_commit"
	ClaimBefore    = "claim.before_commit"
	ClaimAfter     = "claim.after_commit"
	SubmitBefore   = "submit.before"
	SubmitAfter    = "submit.after"
	AnswerBefore   = "submit.before_ref_stored"
	AnswerAfter    = "submit.ref_stored"
	Find           = "find"
	Poll           = "poll"
	CancelVendor   = "cancel_at_vendor"
	Download       = "download"
	Generate       = "generate" // a handler returned; what it made is nowhere yet
	ArtifactBefore = "artifact.before"
	ArtifactAfter  = "artifact.after"
	CompleteBefore = "complete.before_commit"
	CompleteAfter  = "complete.after_commit"
	FailBefore     = "fail.before_commit"
	FailAfter      = "fail.after_commit"
	YieldBefore    = "yield.before_commit"
	YieldAfter     = "yield.after_commit"
	AckBefore      = "ack.before" // the handler is about to tell the queue that it is done
	CancelBefore   = "cancel.before_commit"
	CancelAfter    = "cancel.after_commit"
	RenewBefore    = "renew.before"
	RenewAfter     = "renew.after"
	RelayBefore    = "relay.before" // the relay enqueues
	RelayAfter     = "relay.after"
	SightBefore    = "sight.before_commit"
	SightAfter     = "sight.after_commit"
	MarkerBefore   = "marker.before" // everything is due again; the marker is not set
	WatcherBefore  = "watcher.before_commit"
	WatcherAfter   = "watcher.after_commit"
	SweepRead      = "sweep.read" // a page is read and not decided on
	SweepBefore    = "sweep.before_commit"
	SweepAfter     = "sweep.after_commit"
	EventBefore    = "callback.before" // a callback is authenticated and not kept
	EventAfter     = "callback.after"  // it is kept, and its job not woken
)
