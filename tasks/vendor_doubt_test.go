package tasks_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/generations"
	"github.com/makegood/makegood/tasks"
)

// A worker dies at its vendor in the job's last attempt: somebody must go on asking.
func TestLastAttemptOfADeadWorkerIsAskedAfterAtItsVendor(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		o := job("a")
		o.MaxAttempts = 1
		opened, err := w.ledger.Open(w.ctx, o)
		require.NoError(t, err)
		id := opened.Job.ID
		_, err = w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Token: "dead", Worker: "dead", LeaseTTL: time.Millisecond,
			ClaimsLater: func(string) bool { return true }})
		require.NoError(t, err)
		claimed, err := w.ledger.ClaimCall(w.ctx, ledger.ClaimCall{JobID: id, Token: "dead", Provider: "studio"})
		require.NoError(t, err)
		require.True(t, claimed.Permit)
		_, err = w.ledger.HearCall(w.ctx, ledger.HearCall{JobID: id, N: 1, Provider: "studio", Ref: "ref"})
		require.NoError(t, err)
		w.at(polled{s})
		w.watch(500 * time.Millisecond)
		j := w.delivered(id)
		require.Equal(t, 1, j.End.Attempts)
		require.Empty(t, s.submitted())
	})
}

// A call is sent again since its answer was lost, and this time refused for the moment: that
// says nothing of the first sending.
func TestRefusedResendIsNoSecondCall(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			onBoth(t, func(w *world) {
				vendor := fakevendor.Start(w.t, fakevendor.Options{Price: 5, NoLookup: true, PollAfter: 20 * time.Millisecond})
				service, err := generations.New(generations.Options{URL: vendor.URL(), Key: vendor.Key(), Price: 5, NoLookup: true})
				require.NoError(w.t, err)
				require.NoError(w.t, vendor.AddFaults(fakevendor.Fault{Do: fakevendor.Drop, At: fakevendor.After},
					fakevendor.Fault{Nth: 2, Do: fakevendor.Answer, Status: status, At: fakevendor.Before}))
				w.at(service)
				id := w.submit(job("a")).ID
				w.eventually("the end, or the resend refused", func() bool {
					j := w.job(id)
					return j.End != nil || j.Open.Attempts == 2 && j.Open.State == ledger.StateQueued
				})
				require.Equal(w.t, "1:", w.calls(id)[:2])
				require.NotContains(w.t, w.calls(id), "1:failed")
				require.Empty(w.t, vendor.Bill().Duplicates())
			})
		})
	}
}

// The vendor's word that it has no such call ends it, also when no attempt is left to send it
// again: the credits do not wait for MAX_UNKNOWN.
func TestCallThatTheVendorNeverHadEndsWithTheLastAttempt(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.traits.Resubmit, s.traits.FindAfter = provider.ResubmitSafe, time.Second
		s.submit = func(int, string) (provider.Submission, error) { return provider.Submission{}, errDropped }
		w.at(found{polled{s}, func(string) (string, error) { return "", provider.ErrNotFound }})
		o := job("a")
		o.MaxAttempts = 2
		j := w.ended(w.submit(o).ID)
		require.Equal(w.t, []any{ledger.StateFailed, ledger.EndExhausted}, []any{j.State(), j.End.Reason})
		for _, n := range []string{":1", ":2"} {
			require.Contains(w.t, s.submitted(), j.ID+n)
		}
		require.NotContains(w.t, s.submitted(), j.ID+":3")
		w.balance(granted)
	})
}

// A submit that comes so late that another call has taken its place is stopped at the vendor.
func TestLateSubmitOfAReplacedCallIsStoppedAtTheVendor(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		entered, answer, stopped := make(chan struct{}), make(chan struct{}), make(chan string, 1)
		s.submit = func(try int, key string) (provider.Submission, error) {
			if try == 1 {
				close(entered)
				<-answer
			}
			return provider.Submission{Ref: "ref-" + key}, nil
		}
		s.poll = func(int, string) (provider.News, error) {
			return provider.News{Status: provider.StatusWorking, After: time.Hour}, nil
		}
		w.at(stoppable{polled{s}, func(ref string) (provider.News, error) {
			stopped <- ref
			return provider.News{Status: provider.StatusCancelled}, nil
		}})
		id := w.submit(job("a")).ID
		w.signal("submit", entered)
		// Another worker has heard that the vendor has no such call.
		_, err := w.ledger.Yield(w.ctx, ledger.YieldJob{JobID: id, Token: w.job(id).Open.Token, Word: ledger.WordFailed})
		require.NoError(w.t, err)
		w.eventually("the second call is accepted", func() bool { return w.calls(id) == "1:failed 2:accepted" })
		close(answer)
		select {
		case ref := <-stopped:
			require.Equal(w.t, "ref-"+id+":1", ref)
		case <-time.After(10 * time.Second):
			w.t.Fatal("the first call goes on at the vendor, and nobody asks after it")
		}
		require.Equal(w.t, "1:failed 2:accepted", w.calls(id))
	})
}

// A vendor that makes more than was asked for is its own affair.
func TestNobodyPaysForMoreThanWasAskedFor(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.fetch = func(int) (provider.Result, error) { return picture(6, 30), nil }
		w.at(polled{s})
		j := w.delivered(w.submit(job("a")).ID)
		require.EqualValues(w.t, 10, j.End.Charged)
		require.Zero(w.t, j.End.Shortfall)
		require.Equal(w.t, 2, j.End.Delivered)
	})
}

// A vendor that only calls back reports progress often: its verdict counts all the same.
func TestVerdictAfterManyCallbacks(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		_, mux := w.at(calling{s})
		id := w.submit(job("a")).ID
		w.eventually("accepted", func() bool { return w.calls(id) == "1:accepted" })
		ref := w.job(id).Call.Ref
		for n := range 201 {
			require.NoError(w.t, w.ledger.SaveVendorEvent(w.ctx, ledger.VendorEvent{Provider: "studio", ID: fmt.Sprintf("e%03d", n), Ref: ref,
				News: []byte(`{"status":"working"}`)}))
		}
		callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: w.ledger, Mux: mux, Logger: w.log})
		require.Equal(w.t, http.StatusNoContent, deliver(t, callbacks, "studio", "studio's",
			provider.Event{ID: "verdict", Ref: ref, News: provider.News{Status: provider.StatusSucceeded}}))
		w.delivered(id)
	})
}

// The same success comes twice, by a callback and by an attempt under way: it is late once, and
// not late at all for a job that was completed with it.
func TestSuccessIsLateOnce(t *testing.T) {
	for name, completed := range map[string]bool{"refunded": false, "completed by another attempt": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(w *world) {
				s := newStudio()
				entered, answer := make(chan struct{}), make(chan struct{})
				s.fetch = func(int) (provider.Result, error) {
					close(entered)
					<-answer
					return picture(2, 10), nil
				}
				mux := tasks.NewMux()
				mux.HandleVendor("image", polled{s})
				worker := tasks.NewWorker(tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, Artifacts: w.files, Logger: w.log})
				stop := w.background(worker.Run)
				w.relay()
				id := w.submit(job("a")).ID
				w.signal("download", entered)
				if completed {
					_, err := w.ledger.Yield(w.ctx, ledger.YieldJob{JobID: id, Token: w.job(id).Open.Token, After: time.Hour})
					require.NoError(w.t, err)
					_, err = w.ledger.Start(w.ctx, ledger.StartJob{JobID: id, Token: "other", Worker: "other"})
					require.NoError(w.t, err)
					_, err = w.ledger.Complete(w.ctx, ledger.CompleteJob{JobID: id, Token: "other", Actual: 10, Delivered: 2})
					require.NoError(w.t, err)
				} else {
					_, err := w.ledger.Sweep(w.ctx, ledger.SweepJob{JobID: id, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
						return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndUnknown, Evidence: []byte(`{}`)}
					}})
					require.NoError(w.t, err)
				}
				heard, err := w.ledger.HearCall(w.ctx, ledger.HearCall{JobID: id, N: 1, Provider: "studio", Callback: true, Succeeded: true})
				require.NoError(w.t, err)
				require.Equal(w.t, !completed, heard.Late)
				close(answer)
				stop() // once the attempt is over
				require.Zero(w.t, worker.Stats().Late)
			})
		})
	}
}
