package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var calls = []scenario{
	{"ClaimStoresTheNumberBeforeAnythingIsSent", claimStoresNumber},
	{"ClaimIsOnlyForTheCurrentAttemptOfAnOpenJob", claimIsFenced},
	{"UnansweredCallIsNeverReplacedOnlySentAgain", unansweredCall},
	{"VerdictOfFailureRaisesTheNumber", verdictRaisesNumber},
	{"WaitingForAVendorUsesUpNoAttempt", waitingIsFree},
	{"CancelGoesToTheVendorFirst", cancelAtVendor},
	{"CallbackWakesAJob", callbackWakes},
	{"LateSuccessIsRecordedAndTheRefundKept", lateSuccess},
	{"ReferenceIsStoredAlsoWhenTheJobHasEnded", lateReference},
	{"ReferencesAndProvidersDoNotMix", referencesDoNotMix},
	{"DeadWorkerOfAJobAtAVendorIsReplacedWithoutAnAttempt", replacedAtVendor},
	{"VendorEventsCountOnce", vendorEvents},
}

const vendor = "studio"

func atVendor(string) bool { return true }

// visit starts a job whose type is submitted by ClaimCall.
func (w *world) visit(t *testing.T, id, token string) ledger.Started {
	t.Helper()
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: token, Worker: "worker-" + token, ClaimsLater: atVendor})
	require.NoError(t, err)
	require.NotEqual(t, ledger.VerdictDrop, s.Verdict, s.Why)
	return s
}

func (w *world) claim(t *testing.T, id, token string, resend bool) ledger.Claimed {
	t.Helper()
	c, err := w.ClaimCall(bg, ledger.ClaimCall{JobID: id, Token: token, Provider: vendor, Resend: resend})
	require.NoError(t, err)
	return c
}

func (w *world) accept(t *testing.T, id string, n int, ref string) ledger.Heard {
	t.Helper()
	h, err := w.HearCall(bg, ledger.HearCall{JobID: id, N: n, Provider: vendor, Ref: ref})
	require.NoError(t, err)
	return h
}

func (w *world) leave(t *testing.T, id, token string, word ledger.CallWord, after time.Duration) ledger.Job {
	t.Helper()
	y, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: token, Word: word, After: after})
	require.NoError(t, err)
	return y.Job
}

// submitted opens a job and has it accepted by the vendor as attempt t1; it is running.
func (w *world) submitted(t *testing.T, ref string) string {
	t.Helper()
	id := w.submitWith(t, 10, 2)
	w.visit(t, id, "t1")
	require.True(t, w.claim(t, id, "t1", false).Permit)
	w.accept(t, id, 1, ref)
	return id
}

func claimStoresNumber(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 10, 2)
	s := w.visit(t, id, "t1")
	require.Equal(t, ledger.VerdictRun, s.Verdict)
	require.Zero(t, s.Job.Open.Attempts, "nothing was permitted yet")
	c := w.claim(t, id, "t1", false)
	require.True(t, c.Permit)
	require.Equal(t, id+":1", c.Job.Call.Key())
	require.Equal(t, 1, c.Job.Open.Attempts)
	w.still(t, id, "the same claim again", func() {
		again := w.claim(t, id, "t1", false)
		require.Equal(t, c, again)
	})
	j := w.job(t, id)
	require.Equal(t, ledger.CallClaimed, j.Call.Status)
	require.False(t, j.VendorUnknown(), "its attempt is at it")
	w.accept(t, id, 1, "ref-1")
	j = w.job(t, id)
	require.Equal(t, []any{ledger.CallAccepted, "ref-1"}, []any{j.Call.Status, j.Call.Ref})
	found, err := w.CallByRef(bg, vendor, "ref-1")
	require.NoError(t, err)
	require.Equal(t, *j.Call, found)
	done, err := w.Complete(bg, complete(id, "t1"))
	require.NoError(t, err)
	require.Equal(t, []any{ledger.CallSucceeded, 1}, []any{done.Job.Call.Status, done.Job.End.Attempts})
	require.Equal(t, done.Job, w.job(t, id))
	w.audit(t, ada)
}

func claimIsFenced(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	claim := func(id, token string) error {
		_, err := w.ClaimCall(bg, ledger.ClaimCall{JobID: id, Token: token, Provider: vendor})
		return err
	}
	id := w.submitWith(t, 10, 2)
	require.ErrorIs(t, claim(id, "t1"), ledger.ErrFenced, "queued")
	w.visit(t, id, "t1")
	require.ErrorIs(t, claim(id, "t2"), ledger.ErrFenced, "another token")
	require.ErrorIs(t, claim(ledger.NewID(), "t1"), ledger.ErrNotFound)
	_, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	c := w.claim(t, id, "t1", false)
	require.Equal(t, []any{false, "cancelled"}, []any{c.Permit, c.Why})
	list, err := w.Calls(bg, id)
	require.NoError(t, err)
	require.Empty(t, list, "nothing was stored")
	_, err = w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
	require.NoError(t, err)
	require.ErrorIs(t, claim(id, "t1"), ledger.ErrAlreadySettled)

	late := w.submitWith(t, 10, 2)
	_, err = w.Start(bg, ledger.StartJob{JobID: late, Token: "t1", Worker: "w", ClaimsLater: atVendor, AttemptTimeout: time.Minute})
	require.NoError(t, err)
	w.clock.Advance(61 * time.Second)
	require.Equal(t, "too_late", w.claim(t, late, "t1", false).Why)

	// Races: one claim is permitted, and a cancel before it forbids it.
	for range 5 {
		id := w.submitWith(t, 1, 2)
		w.visit(t, id, "t1")
		got := race(10, func(i int) error {
			token := "t1"
			if i%2 == 1 {
				token = "t2"
			}
			return claim(id, token)
		})
		require.Equal(t, map[ledger.Code]int{"": 5, ledger.CodeFenced: 5}, got)
		require.Equal(t, 1, w.job(t, id).Open.Attempts)
	}
}

func unansweredCall(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 10, 2)
	w.visit(t, id, "t1")
	w.claim(t, id, "t1", false)
	j := w.leave(t, id, "t1", ledger.WordNone, time.Second)
	require.Equal(t, []any{ledger.StateQueued, 1, true}, []any{j.State(), j.Open.Attempts, j.VendorUnknown()})
	require.Equal(t, ledger.VerdictAsk, w.visit(t, id, "t2").Verdict)
	c := w.claim(t, id, "t2", false)
	require.Equal(t, []any{false, "unknown"}, []any{c.Permit, c.Why})
	require.Equal(t, 1, c.Job.Open.Attempts, "asking is no attempt")
	c = w.claim(t, id, "t2", true)
	require.Equal(t, []any{true, 1, 1}, []any{c.Permit, c.Job.Call.N, c.Job.Open.Attempts}, "sent again, under its own number")
	w.leave(t, id, "t2", ledger.WordNone, 0)
	w.visit(t, id, "t3")
	c = w.claim(t, id, "t3", true)
	require.Equal(t, []any{true, 1}, []any{c.Permit, c.Job.Open.Attempts}, "an outage uses up no attempt, however long")
	j = w.leave(t, id, "t3", ledger.WordNone, 0)
	require.Equal(t, ledger.StateQueued, j.State(), "unknown is not ended for want of attempts")
	// Whoever finds it can go on.
	w.visit(t, id, "t4")
	w.accept(t, id, 1, "found")
	_, err := w.Complete(bg, complete(id, "t4"))
	require.NoError(t, err)
	w.check(t, id)
	list, err := w.Attempts(bg, id)
	require.NoError(t, err)
	counted := 0
	for _, a := range list {
		if a.Counted {
			counted++
		}
	}
	require.Equal(t, []int{1, 4}, []int{counted, len(list)})
	w.audit(t, ada)
}

func verdictRaisesNumber(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitted(t, "ref-1")
	j := w.leave(t, id, "t1", ledger.WordFailed, 0)
	require.Nil(t, j.Call)
	w.still(t, id, "the same yield again", func() {
		y, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1", Word: ledger.WordFailed})
		require.NoError(t, err)
		require.Equal(t, 2, y.Job.Open.N)
	})
	require.Equal(t, ledger.VerdictRun, w.visit(t, id, "t2").Verdict)
	require.Equal(t, id+":2", w.claim(t, id, "t2", false).Job.Call.Key())
	w.accept(t, id, 2, "ref-2")
	list, err := w.Calls(bg, id)
	require.NoError(t, err)
	require.Equal(t, []ledger.CallStatus{ledger.CallFailed, ledger.CallAccepted}, []ledger.CallStatus{list[0].Status, list[1].Status})
	j = w.leave(t, id, "t2", ledger.WordFailed, 0)
	require.Equal(t, ledger.EndExhausted, j.End.Reason, "no attempt is left")
	require.Equal(t, int64(100), w.balance(t, ada).Available)

	// A vendor that is called without ClaimCall has its number raised too.
	id = w.submitWith(t, 10, 3)
	w.begin(t, id, "t1")
	require.Equal(t, 1, w.leave(t, id, "t1", ledger.WordNone, 0).Open.N, "a timeout is no verdict")
	w.begin(t, id, "t2")
	require.Equal(t, 2, w.leave(t, id, "t2", ledger.WordFailed, 0).Open.N)
	w.audit(t, ada)
}

func waitingIsFree(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 10, 1)
	w.visit(t, id, "t1")
	w.claim(t, id, "t1", false)
	w.accept(t, id, 1, "ref")
	w.leave(t, id, "t1", ledger.WordWorking, time.Minute)
	for i := range 25 { // more than MaxStarts
		token := "poll" + string(rune('a'+i))
		require.Equal(t, ledger.VerdictAsk, w.visit(t, id, token).Verdict)
		j := w.leave(t, id, token, ledger.WordWorking, time.Minute)
		require.Equal(t, []any{ledger.StateQueued, 1, 1}, []any{j.State(), j.Open.Attempts, j.Open.N})
		require.False(t, j.Open.RunAfter.IsZero())
	}
	w.visit(t, id, "last")
	_, err := w.Complete(bg, complete(id, "last"))
	require.NoError(t, err)
	require.Equal(t, 1, w.job(t, id).End.Attempts)
	require.Equal(t, 27, w.job(t, id).End.Starts)

	// An attempt that never comes to its call uses one up, so that it cannot go on for ever.
	id = w.submitWith(t, 10, 1)
	w.visit(t, id, "t1")
	require.Equal(t, ledger.EndExhausted, w.leave(t, id, "t1", ledger.WordNone, 0).End.Reason)
	// One that was given back before it does not.
	id = w.submitWith(t, 10, 1)
	w.visit(t, id, "t1")
	y, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1", GiveBack: true})
	require.NoError(t, err)
	require.Zero(t, y.Job.Open.Attempts)
	w.audit(t, ada)
}

func cancelAtVendor(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitted(t, "ref-1")
	w.leave(t, id, "t1", ledger.WordWorking, time.Hour)
	before := w.job(t, id)
	c, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateQueued, before.Open.Epoch + 1, true},
		[]any{c.Job.State(), c.Job.Open.Epoch, c.Job.Open.RunAfter.IsZero()}, "due at once, to tell the vendor")
	w.still(t, id, "cancelled again", func() {
		_, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
		require.NoError(t, err)
	})
	require.Equal(t, ledger.VerdictAsk, w.visit(t, id, "t2").Verdict)
	require.Equal(t, "cancelled", w.claim(t, id, "t2", true).Why, "nothing may be sent any more")
	w.leave(t, id, "t2", ledger.WordWorking, 0) // the vendor could not be told yet
	w.visit(t, id, "t3")
	j := w.leave(t, id, "t3", ledger.WordCancelled, 0)
	require.Equal(t, []any{ledger.EndCancelled, ledger.CallCancelled}, []any{j.End.Reason, j.Call.Status})
	require.Equal(t, int64(100), w.balance(t, ada).Available)

	// Cancelled while an attempt asks, which leaves without having heard of it.
	id = w.submitted(t, "ref-3")
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	require.True(t, w.leave(t, id, "t1", ledger.WordWorking, time.Hour).Open.RunAfter.IsZero(), "due at once, to tell the vendor")
	w.visit(t, id, "t2")
	require.False(t, w.leave(t, id, "t2", ledger.WordNone, time.Hour).Open.RunAfter.IsZero(), "it could not be told, and waits")
	w.visit(t, id, "t3")
	w.leave(t, id, "t3", ledger.WordCancelled, 0)

	// Delivered in part before it stopped: that is charged, the rest returns.
	id = w.submitted(t, "ref-2")
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	part := complete(id, "t1")
	part.Actual, part.Delivered = 4, 0
	done, err := w.Complete(bg, part)
	require.NoError(t, err)
	require.Equal(t, []any{ledger.StateCompleted, ledger.EndPartial, int64(4)}, []any{done.Job.State(), done.Job.End.Reason, done.Job.End.Charged})
	_, err = w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.ErrorIs(t, err, ledger.ErrAlreadySettled)
	require.Equal(t, int64(96), w.balance(t, ada).Available)
	w.audit(t, ada)
}

func callbackWakes(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitted(t, "ref-1")
	call := ledger.HearCall{JobID: id, N: 1, Provider: vendor, Ref: "ref-1", Callback: true, Succeeded: true}
	h, err := w.HearCall(bg, call)
	require.NoError(t, err)
	require.False(t, h.Late)
	require.Equal(t, ledger.CallAccepted, h.Job.Call.Status, "the worker judges, not the callback")
	j := w.leave(t, id, "t1", ledger.WordWorking, time.Hour)
	require.True(t, j.Open.RunAfter.IsZero(), "the vendor called while it was being asked")
	w.visit(t, id, "t2")
	j = w.leave(t, id, "t2", ledger.WordWorking, time.Hour)
	require.False(t, j.Open.RunAfter.IsZero())
	h, err = w.HearCall(bg, call)
	require.NoError(t, err)
	require.Equal(t, []any{j.Open.Epoch + 1, true}, []any{h.Job.Open.Epoch, h.Job.Open.RunAfter.IsZero()})
	h, err = w.HearCall(bg, call)
	require.NoError(t, err)
	require.Equal(t, j.Open.Epoch+1, h.Job.Open.Epoch, "it is awake already")
}

func lateSuccess(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitted(t, "ref-1")
	w.leave(t, id, "t1", ledger.WordWorking, time.Hour)
	_, err := w.Sweep(bg, refund(id))
	require.NoError(t, err)
	require.Equal(t, ledger.CallAccepted, w.job(t, id).Call.Status)
	say := ledger.HearCall{JobID: id, N: 1, Provider: vendor, Ref: "ref-1", Callback: true, Succeeded: true}
	h, err := w.HearCall(bg, say)
	require.NoError(t, err)
	require.Equal(t, []bool{true, false}, []bool{h.Late, h.Replayed})
	w.still(t, id, "again", func() {
		say.Callback = false
		h, err := w.HearCall(bg, say)
		require.NoError(t, err)
		require.Equal(t, []bool{true, true}, []bool{h.Late, h.Replayed})
	})
	require.Equal(t, []any{ledger.CallLate, ledger.StateRefunded}, []any{w.job(t, id).Call.Status, w.state(t, id)})
	require.Equal(t, int64(100), w.balance(t, ada).Available)

	// The success that ended the job is not late, however often it is said.
	id = w.submitted(t, "ref-2")
	_, err = w.Complete(bg, complete(id, "t1"))
	require.NoError(t, err)
	w.still(t, id, "said again", func() {
		h, err := w.HearCall(bg, ledger.HearCall{JobID: id, N: 1, Provider: vendor, Ref: "ref-2", Succeeded: true})
		require.NoError(t, err)
		require.False(t, h.Late)
	})
	// One of an older call, which by the vendor's word had failed, is.
	id = w.submitted(t, "ref-3")
	w.leave(t, id, "t1", ledger.WordFailed, 0)
	h, err = w.HearCall(bg, ledger.HearCall{JobID: id, N: 1, Provider: vendor, Ref: "ref-3", Callback: true, Succeeded: true})
	require.NoError(t, err)
	require.True(t, h.Late)
	require.Equal(t, ledger.StateQueued, h.Job.State())
	w.audit(t, ada)
}

func (w *world) state(t *testing.T, id string) ledger.State {
	t.Helper()
	j := w.job(t, id)
	return j.State()
}

func lateReference(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 10, 2)
	w.visit(t, id, "t1")
	w.claim(t, id, "t1", false)
	_, err := w.Sweep(bg, refund(id))
	require.NoError(t, err)
	h := w.accept(t, id, 1, "ref-1")
	require.NotNil(t, h.Job.End)
	require.Equal(t, "ref-1", w.job(t, id).Call.Ref, "so that a callback finds it")
	w.audit(t, ada)
}

func referencesDoNotMix(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitted(t, "ref-1")
	w.still(t, id, "another reference, provider or number", func() {
		_, err := w.HearCall(bg, ledger.HearCall{JobID: id, N: 1, Provider: vendor, Ref: "ref-9"})
		require.ErrorIs(t, err, ledger.ErrConflict)
		_, err = w.HearCall(bg, ledger.HearCall{JobID: id, N: 1, Provider: "somebody", Ref: "ref-1", Callback: true})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = w.HearCall(bg, ledger.HearCall{JobID: id, N: 2, Provider: vendor, Ref: "ref-1"})
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = w.HearCall(bg, ledger.HearCall{JobID: id, N: 0, Provider: vendor})
		require.ErrorIs(t, err, ledger.ErrInvalid)
	})
	_, err := w.CallByRef(bg, "somebody", "ref-1")
	require.ErrorIs(t, err, ledger.ErrNotFound)
	c, err := w.ClaimCall(bg, ledger.ClaimCall{JobID: id, Token: "t1", Provider: vendor, Resend: true})
	require.NoError(t, err)
	require.Equal(t, "accepted", c.Why)
}

func replacedAtVendor(t *testing.T, w *world) {
	w.fund(t, ada, 100)
	id := w.submitWith(t, 10, 1)
	w.visit(t, id, "t1")
	w.claim(t, id, "t1", false)
	w.accept(t, id, 1, "ref")
	for i := range ledger.DefaultMaxStarts { // the first and 19 more
		token := "t" + string(rune('1'+i))
		if i > 0 {
			require.Equal(t, ledger.VerdictAsk, w.visit(t, id, token).Verdict)
		}
		renewed := w.clock.Now()
		w.clock.Advance(time.Minute)
		p, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: token, Renewed: renewed})
		require.NoError(t, err)
		require.True(t, p.Changed, "attempts are used up, and somebody must go on asking")
		require.Equal(t, 1, p.Job.Open.Attempts)
	}
	s, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "z", Worker: "w", ClaimsLater: atVendor})
	require.NoError(t, err)
	require.Equal(t, []any{ledger.VerdictDrop, "exhausted"}, []any{s.Verdict, s.Why}, "whoever asks after it dies")
	require.Nil(t, s.Job.End, "the vendor's word ends it, or the sweep")
}

func vendorEvents(t *testing.T, w *world) {
	event := ledger.VendorEvent{Provider: vendor, ID: "e1", Ref: "r", News: []byte(`{"status":"working"}`)}
	other := event
	other.ID, other.News = "e2", []byte(`{"status":"succeeded"}`)
	for _, e := range []ledger.VendorEvent{event, other, event} {
		require.NoError(t, w.SaveVendorEvent(bg, e))
		w.clock.Advance(time.Minute)
	}
	list, err := w.VendorEvents(bg, vendor, "r")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.JSONEq(t, `{"status":"succeeded"}`, string(list[1].News))
	require.NoError(t, w.ForgetVendorEvents(bg, list[1].ReceivedAt))
	list, err = w.VendorEvents(bg, vendor, "r")
	require.NoError(t, err)
	require.Len(t, list, 1)
	list, err = w.VendorEvents(bg, "somebody", "r")
	require.NoError(t, err)
	require.Empty(t, list)
}
