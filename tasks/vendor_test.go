package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/reconciler"
	"github.com/makegood/makegood/tasks"
)

// studio is a vendor whose answers a test writes. It keeps its own books: what was submitted
// under which key, and asked.
type studio struct {
	mu     sync.Mutex
	traits provider.Traits
	submit func(try int, key string) (provider.Submission, error)
	poll   func(try int, ref string) (provider.News, error)
	fetch  func(try int) (provider.Result, error)
	keys   []string
	polls  int
	fetchs int
}

func (s *studio) Name() string            { return "studio" }
func (s *studio) Traits() provider.Traits { return s.traits }
func (s *studio) Estimate(json.RawMessage) (provider.Estimate, error) {
	return provider.Estimate{Cost: 10, Units: 2}, nil
}

func (s *studio) Submit(_ context.Context, r provider.Request) (provider.Submission, error) {
	s.mu.Lock()
	s.keys = append(s.keys, r.Key)
	try := len(s.keys)
	s.mu.Unlock()
	if s.submit != nil {
		return s.submit(try, r.Key)
	}
	return provider.Submission{Ref: "ref-" + r.Key}, nil
}

func (s *studio) Download(context.Context, string, provider.News) (provider.Result, error) {
	s.mu.Lock()
	s.fetchs++
	try := s.fetchs
	s.mu.Unlock()
	if s.fetch != nil {
		return s.fetch(try)
	}
	return picture(2, 10), nil
}

func picture(units int, cost int64) provider.Result {
	return provider.Result{Units: units, Cost: cost, Outputs: []provider.Output{{ContentType: "text/plain", Data: []byte("a fox")}}}
}

func (s *studio) submitted() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.keys, " ")
}

// polled is a studio that can be asked.
type polled struct{ *studio }

func (s polled) Poll(_ context.Context, ref string) (provider.News, error) {
	s.mu.Lock()
	s.polls++
	try := s.polls
	s.mu.Unlock()
	if s.poll != nil {
		return s.poll(try, ref)
	}
	return provider.News{Status: provider.StatusSucceeded}, nil
}

// found is one that knows its calls by key, too.
type found struct {
	polled
	find func(key string) (string, error)
}

func (s found) Find(_ context.Context, key string) (string, error) { return s.find(key) }

// stoppable is one that can be told to stop, too.
type stoppable struct {
	polled
	cancel func(ref string) (provider.News, error)
}

func (s stoppable) Cancel(_ context.Context, ref string) (provider.News, error) { return s.cancel(ref) }

// calling is a studio that only calls back. Its signature is a word.
type calling struct{ *studio }

func (calling) Callback(h http.Header, body []byte) (provider.Event, error) {
	if h.Get("Signature") != "studio's" {
		return provider.Event{}, provider.ErrUnsigned
	}
	var e provider.Event
	err := json.Unmarshal(body, &e)
	return e, err
}

func newStudio() *studio { return &studio{traits: provider.Traits{Pace: 20 * time.Millisecond}} }

// at runs a worker for a vendor, the relay and the watcher.
func (w *world) at(v provider.Vendor, change ...func(*tasks.WorkerOptions)) (*tasks.Worker, *tasks.Mux) {
	w.t.Helper()
	mux := tasks.NewMux()
	mux.HandleVendor("image", v)
	o := tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, Artifacts: w.files, Concurrency: 4, LeaseTTL: 2 * time.Second,
		ShutdownTimeout: 5 * time.Second, Logger: w.log}
	for _, c := range change {
		c(&o)
	}
	worker := tasks.NewWorker(o)
	w.background(worker.Run)
	w.relay()
	return worker, mux
}

// calls lists a job's calls as n:status.
func (w *world) calls(id string) string {
	w.t.Helper()
	list, err := w.ledger.Calls(w.ctx, id)
	require.NoError(w.t, err)
	text := []string{}
	for _, c := range list {
		text = append(text, fmt.Sprintf("%d:%s", c.N, c.Status))
	}
	return strings.Join(text, " ")
}

func (w *world) delivered(id string) ledger.Job {
	w.t.Helper()
	j := w.ended(id)
	require.Equal(w.t, ledger.StateCompleted, j.State(), "%+v %+v", j.End, j.End.Error)
	return j
}

var errDropped = errors.New("connection reset by peer")

func TestVendorIsAskedAtItsPaceAndNoWorkerWaits(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.poll = func(try int, _ string) (provider.News, error) {
			if try < 4 {
				return provider.News{Status: provider.StatusWorking, Percent: 25 * try, Text: "drawing", After: 10 * time.Millisecond}, nil
			}
			return provider.News{Status: provider.StatusSucceeded}, nil
		}
		w.at(polled{s}, func(o *tasks.WorkerOptions) { o.Concurrency = 1 })
		a, b := w.submit(job("a")), w.submit(job("b"))
		ja := w.delivered(a.ID)
		w.delivered(b.ID)
		require.Equal(t, 1, ja.End.Attempts, "asking uses up no attempt")
		require.ElementsMatch(t, []string{a.ID + ":1", b.ID + ":1"}, strings.Fields(s.submitted()))
		require.Equal(t, "1:succeeded", w.calls(a.ID))
		require.Equal(t, "ref-"+a.ID+":1", ja.Call.Ref)
		require.Equal(t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(a.ID))
		list, err := w.ledger.Attempts(w.ctx, a.ID)
		require.NoError(t, err)
		require.Greater(t, len(list), 1)
		require.Equal(t, ja.Call.Ref, list[len(list)-1].VendorRef)
	})
}

// The vendor accepts and the connection drops.
func TestLostAnswerIsLookedUpBeforeAnythingIsSentAgain(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.submit = func(int, string) (provider.Submission, error) { return provider.Submission{}, errDropped }
		w.at(found{polled{s}, func(key string) (string, error) { return "found-" + key, nil }})
		j := w.delivered(w.submit(job("a")).ID)
		require.Equal(t, j.ID+":1", s.submitted(), "one submit")
		require.Equal(t, "found-"+j.ID+":1", j.Call.Ref)
		w.balance(granted - 10)
	})
}

func TestLostAnswerOfAVendorThatKeepsKeysIsSentAgainUnderItsKey(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.traits.Resubmit = provider.ResubmitSafe
		s.submit = func(try int, _ string) (provider.Submission, error) {
			if try < 3 {
				return provider.Submission{}, errDropped
			}
			return provider.Submission{Ref: "ref"}, nil
		}
		w.at(polled{s})
		j := w.delivered(w.submit(job("a")).ID)
		require.Equal(t, strings.TrimSpace(strings.Repeat(j.ID+":1 ", 3)), s.submitted())
		require.Equal(t, 1, j.End.Attempts, "one call is one attempt, however often it is sent")
	})
}

// "No such call" is believed only some time after the submit: it may be on its way.
func TestVendorThatNeverHadTheCallGetsANewOne(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.traits.FindAfter = 2 * time.Second
		s.submit = func(try int, key string) (provider.Submission, error) {
			if try == 1 {
				return provider.Submission{}, errDropped
			}
			return provider.Submission{Ref: "ref-" + key}, nil
		}
		w.at(found{polled{s}, func(string) (string, error) { return "", provider.ErrNotFound }})
		j := w.delivered(w.submit(job("a")).ID)
		require.Equal(t, j.ID+":1 "+j.ID+":2", s.submitted())
		calls, err := w.ledger.Calls(w.ctx, j.ID)
		require.NoError(t, err)
		require.GreaterOrEqual(t, calls[0].EndedAt.Sub(calls[0].SentAt), 2*time.Second)
		require.Equal(t, "1:failed 2:succeeded", w.calls(j.ID))
	})
}

// A timeout is no verdict, and a result that comes after a refund changes nothing.
func TestUnknownIsKeptUntilTheVendorsWordOrMaxUnknownAndLateSuccessDeliversNothing(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.submit = func(int, string) (provider.Submission, error) { return provider.Submission{}, errDropped }
		_, mux := w.at(calling{s})
		id := w.submit(job("a")).ID
		w.eventually("unknown", func() bool { j := w.job(id); return j.VendorUnknown() })
		sweep := func(most time.Duration) reconciler.Report {
			r, err := reconciler.New(reconciler.Options{Ledger: w.ledger, OrphanThreshold: time.Millisecond, MaxUnknown: most, Logger: w.log}).
				Sweep(w.ctx, reconciler.SweepOptions{})
			require.NoError(t, err)
			return r
		}
		require.Zero(t, sweep(time.Hour).Refunded, "silence is no verdict")
		require.Equal(t, id+":1", s.submitted())
		w.eventually("refunded", func() bool { return sweep(time.Millisecond).Refunded == 1 })
		j := w.job(id)
		require.Equal(t, []any{ledger.StateRefunded, ledger.EndUnknown}, []any{j.State(), j.End.Reason})
		require.Contains(t, string(j.End.Evidence), `"vendor":`)
		w.balance(granted)

		callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: w.ledger, Mux: mux, Logger: w.log})
		success := provider.Event{ID: "e1", Ref: "r1", Key: id + ":1", News: provider.News{Status: provider.StatusSucceeded}}
		for range 3 {
			require.Equal(t, http.StatusNoContent, deliver(t, callbacks, "studio", "studio's", success))
		}
		require.Equal(t, int64(1), callbacks.Late(), "one warning, one count")
		require.Equal(t, "1:late", w.calls(id))
		require.Equal(t, ledger.StateRefunded, w.state(id))
		require.Nil(t, w.job(id).End.Result)
		w.balance(granted)
	})
}

// deliver sends an event as the vendor would and returns the status.
func deliver(t *testing.T, h http.Handler, vendor, signature string, e provider.Event) int {
	t.Helper()
	body, err := json.Marshal(e)
	require.NoError(t, err)
	routes := http.NewServeMux()
	routes.Handle("POST /v1/callbacks/{provider}", h)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/callbacks/"+vendor, strings.NewReader(string(body)))
	r.Header.Set("Signature", signature)
	answer := httptest.NewRecorder()
	routes.ServeHTTP(answer, r)
	_, _ = io.Copy(io.Discard, answer.Result().Body)
	return answer.Code
}

// Callbacks before our commit, twice, out of order, for an older call, for nobody.
func TestCallbacksCountOnceInWhateverOrder(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		mux := tasks.NewMux()
		mux.HandleVendor("image", calling{s})
		callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: w.ledger, Mux: mux, Logger: w.log})
		say := func(id, ref, key string, news provider.News) int {
			return deliver(t, callbacks, "studio", "studio's", provider.Event{ID: id, Ref: ref, Key: key, News: news})
		}
		worked, done := provider.News{Status: provider.StatusWorking, Percent: 10}, provider.News{Status: provider.StatusSucceeded}
		failed := provider.News{Status: provider.StatusFailed, Error: "too late"}
		s.submit = func(try int, _ string) (provider.Submission, error) {
			if try == 1 {
				return provider.Submission{}, provider.RetryAfter(provider.Refused(errors.New("busy")), 10*time.Millisecond)
			}
			// Before the answer, and so before our commit; success overtakes the rest.
			require.Equal(t, http.StatusNoContent, say("e1", "r2", "", done))
			require.Equal(t, http.StatusNoContent, say("e2", "r2", "", worked))
			require.Equal(t, http.StatusNoContent, say("e1", "r2", "", done))
			return provider.Submission{Ref: "r2"}, nil
		}
		w.at(calling{s})
		j := w.delivered(w.submit(job("a")).ID)
		require.Equal(t, "1:failed 2:succeeded", w.calls(j.ID))
		before := w.kinds(j.ID)
		require.Equal(t, http.StatusNoContent, say("e3", "r2", "", failed), "a late failure of the same call")
		require.Equal(t, http.StatusNoContent, say("e4", "r9", "", done), "nobody's")
		require.Equal(t, http.StatusNoContent, say("e5", "r1", j.ID+":1", failed), "an older call's")
		require.Equal(t, http.StatusNoContent, say("e6", "r0", ledger.NewID()+":1", done), "of a job that is not ours")
		require.Equal(t, http.StatusBadRequest, say("", "r2", "", done))
		require.Equal(t, http.StatusUnauthorized, deliver(t, callbacks, "studio", "somebody's", provider.Event{ID: "e7", Ref: "r2"}))
		require.Equal(t, http.StatusNotFound, deliver(t, callbacks, "nobody", "studio's", provider.Event{ID: "e7", Ref: "r2"}))
		require.Equal(t, before, w.kinds(j.ID))
		require.Equal(t, "1:failed 2:succeeded", w.calls(j.ID))
		require.Zero(t, callbacks.Late())
		w.balance(granted - 10)
	})
}

func TestCallbackWakesAWaitingJobAtOnce(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.traits.Pace = time.Hour
		_, mux := w.at(calling{s})
		id := w.submit(job("a")).ID
		w.eventually("waits", func() bool { j := w.job(id); return j.Open != nil && !j.Open.RunAfter.IsZero() })
		callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: w.ledger, Mux: mux, Logger: w.log})
		e := provider.Event{ID: "e1", Ref: "ref-" + id + ":1", News: provider.News{Status: provider.StatusSucceeded}}
		require.Equal(t, http.StatusNoContent, deliver(t, callbacks, "studio", "studio's", e))
		w.delivered(id)
	})
}

func TestRefusalsOfAVendor(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		var permanent sync.Map
		s.submit = func(_ int, key string) (provider.Submission, error) {
			id, n, _ := strings.Cut(key, ":")
			if _, no := permanent.Load(id); no {
				return provider.Submission{}, provider.Permanent(errors.New("the prompt is refused"))
			}
			if n != "3" {
				return provider.Submission{}, provider.RetryAfter(provider.Refused(errors.New("too many")), time.Millisecond)
			}
			return provider.Submission{Ref: key}, nil
		}
		w.at(polled{s})
		j := w.delivered(w.submit(job("a")).ID)
		require.Equal(t, "1:failed 2:failed 3:succeeded", w.calls(j.ID))
		require.Equal(t, 3, j.End.Attempts)
		o := job("b")
		o.ID = ledger.NewID()
		permanent.Store(o.ID, true)
		j = w.ended(w.submit(o).ID)
		require.Equal(t, []any{ledger.StateFailed, ledger.EndVendor, "vendor_error"}, []any{j.State(), j.End.Reason, j.End.Error.Code})
		require.Equal(t, "1:failed", w.calls(j.ID))
		w.balance(granted - 10)
	})
}

// Whatever goes wrong after the vendor accepted, it is one call.
func TestTroubleAfterTheVendorAcceptedIsOneCall(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.poll = func(try int, _ string) (provider.News, error) {
			if try <= 2 {
				return provider.News{}, errors.New("500 internal server error")
			}
			return provider.News{Status: provider.StatusSucceeded}, nil
		}
		s.fetch = func(try int) (provider.Result, error) {
			switch try {
			case 1:
				return provider.Result{}, errDropped
			case 2:
				panic("a vendor's code panics")
			}
			return picture(2, 10), nil
		}
		w.at(polled{s})
		o := job("a")
		o.MaxAttempts = 1
		j := w.delivered(w.submit(o).ID)
		require.Equal(t, j.ID+":1", s.submitted())
		require.Equal(t, 1, j.End.Attempts)
		require.Equal(t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(j.ID))
		w.balance(granted - 10)
	})
}

// The vendor says that it failed.
func TestVerdictOfFailure(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.poll = func(_ int, ref string) (provider.News, error) {
			return provider.News{Status: provider.StatusFailed, Error: "no GPU", Final: strings.HasSuffix(ref, ":2")}, nil
		}
		w.at(polled{s})
		j := w.ended(w.submit(job("a")).ID)
		require.Equal(t, "1:failed 2:failed", w.calls(j.ID))
		require.Equal(t, []any{ledger.EndVendor, "no GPU"}, []any{j.End.Reason, j.End.Error.Message})
		require.Equal(t, "deduct-10 task_started+0 task_failed+0 refund+10 ", w.kinds(j.ID))
		w.balance(granted)
	})
}

func TestCancelAtTheVendorChargesWhatWasDelivered(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.poll = func(int, string) (provider.News, error) {
			return provider.News{Status: provider.StatusWorking, After: time.Hour}, nil
		}
		s.fetch = func(int) (provider.Result, error) { return picture(1, 5), nil }
		tries := 0
		w.at(stoppable{polled{s}, func(string) (provider.News, error) {
			if tries++; tries == 1 {
				return provider.News{}, errDropped // it must be told again
			}
			return provider.News{Status: provider.StatusCancelled, Units: 1}, nil
		}})
		id := w.submit(job("a")).ID
		w.eventually("is at the vendor", func() bool { j := w.job(id); return j.Open != nil && !j.Open.RunAfter.IsZero() })
		begin := time.Now()
		_, err := w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: id})
		require.NoError(t, err)
		w.eventually("told", func() bool { j := w.job(id); return j.End != nil || j.Open.Starts > 1 })
		require.Less(t, time.Since(begin), 3*time.Second)
		j := w.delivered(id)
		require.Equal(t, []any{ledger.EndPartial, int64(5), 1}, []any{j.End.Reason, j.End.Charged, j.End.Delivered})
		w.balance(granted - 5)
		_, err = w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: id})
		require.ErrorIs(t, err, ledger.ErrAlreadySettled)
	})
}

func TestCancelWhereNothingWasMadeRefundsEverything(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		s.poll = func(int, string) (provider.News, error) {
			return provider.News{Status: provider.StatusWorking, After: time.Hour}, nil
		}
		stops := make(chan string, 9)
		for name, v := range map[string]provider.Vendor{
			"stoppable": stoppable{polled{s}, func(ref string) (provider.News, error) {
				stops <- ref
				return provider.News{Status: provider.StatusCancelled}, nil
			}},
			"not stoppable": polled{s},
		} {
			mux := tasks.NewMux()
			mux.HandleVendor("image", v)
			stop := w.background(tasks.NewWorker(tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, LeaseTTL: 2 * time.Second, Logger: w.log}).Run)
			unrelay := w.relay()
			id := w.submit(job(name)).ID
			w.eventually("is at the vendor", func() bool { j := w.job(id); return j.Open != nil && !j.Open.RunAfter.IsZero() })
			_, err := w.ledger.Cancel(w.ctx, ledger.CancelJob{Tenant: alice.Tenant, JobID: id})
			require.NoError(t, err)
			require.Equal(t, ledger.EndCancelled, w.ended(id).End.Reason, name)
			w.balance(granted)
			unrelay()
			stop()
		}
		require.Len(t, stops, 1)
	})
}

// A worker that stops while its submit is under way hands the job over, and the reference that
// arrives is stored all the same.
func TestStopDuringASubmitLosesNoReference(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		entered, answer := make(chan struct{}), make(chan struct{})
		s.submit = func(_ int, key string) (provider.Submission, error) {
			close(entered)
			<-answer
			return provider.Submission{Ref: "ref-" + key}, nil
		}
		mux := tasks.NewMux()
		mux.HandleVendor("image", polled{s})
		stop := w.background(tasks.NewWorker(tasks.WorkerOptions{Ledger: w.ledger, Redis: w.redis, Mux: mux, Artifacts: w.files,
			LeaseTTL: 2 * time.Second, ShutdownTimeout: 50 * time.Millisecond, Logger: w.log}).Run)
		id := w.submit(job("a")).ID
		w.signal("submit", entered)
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		w.eventually("given back", func() bool { return w.state(id) == ledger.StateQueued })
		require.True(t, func() bool { j := w.job(id); return j.VendorUnknown() }())
		close(answer)
		w.eventually("stored", func() bool { return w.calls(id) == "1:accepted" })
		w.signal("stopped", stopped)
		w.at(polled{s})
		j := w.delivered(id)
		require.Equal(t, id+":1", s.submitted())
		require.Zero(t, j.End.Attempts, "giving back uses up none")
	})
}

// A job that ends while its submit is under way is cancelled at the vendor, and delivers nothing.
func TestJobThatEndsDuringItsSubmitIsStoppedAtTheVendor(t *testing.T) {
	onBoth(t, func(w *world) {
		s := newStudio()
		entered, answer, stopped := make(chan struct{}), make(chan struct{}), make(chan string, 1)
		s.submit = func(_ int, key string) (provider.Submission, error) {
			close(entered)
			<-answer
			return provider.Submission{Ref: "ref-" + key}, nil
		}
		w.at(stoppable{polled{s}, func(ref string) (provider.News, error) {
			stopped <- ref
			return provider.News{Status: provider.StatusCancelled}, nil
		}})
		id := w.submit(job("a")).ID
		w.signal("submit", entered)
		_, err := w.ledger.Sweep(w.ctx, ledger.SweepJob{JobID: id, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
			return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndUnknown, Evidence: []byte(`{}`)}
		}})
		require.NoError(t, err)
		close(answer)
		require.Equal(t, "ref-"+id+":1", <-stopped)
		require.Equal(t, "1:accepted", w.calls(id))
		w.balance(granted)
	})
}
