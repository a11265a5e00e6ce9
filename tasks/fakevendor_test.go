package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/generations"
	"github.com/makegood/makegood/tasks"
)

// The whole way over real HTTP: each row is a job of which the vendor makes some trouble, and
// afterwards its bill is compared with our books.
var troubles = []struct {
	name   string
	faults []fakevendor.Fault
	state  ledger.State // "" means completed
	reason ledger.EndReason
	billed int // generations that cost something
	tries  int // generations that were accepted
}{
	{name: "none", billed: 1, tries: 1},
	{name: "slow to answer", faults: on(fakevendor.Fault{Delay: span(300 * time.Millisecond), At: fakevendor.After}), billed: 1, tries: 1},
	{name: "500 before it began", faults: on(fakevendor.Fault{Do: fakevendor.Answer}), billed: 1, tries: 1},
	{name: "500 while it ran, kept for the key", faults: on(fakevendor.Fault{Do: fakevendor.Answer, At: fakevendor.During}), billed: 1, tries: 1},
	{name: "500 after it accepted, kept for the key", faults: on(fakevendor.Fault{Do: fakevendor.Answer, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "dropped before", faults: on(fakevendor.Fault{Do: fakevendor.Drop, At: fakevendor.Before}), billed: 1, tries: 1},
	{name: "dropped after", faults: on(fakevendor.Fault{Do: fakevendor.Drop, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "hangs before", faults: on(fakevendor.Fault{Do: fakevendor.Hang, At: fakevendor.Before}), billed: 1, tries: 1},
	{name: "hangs after", faults: on(fakevendor.Fault{Do: fakevendor.Hang, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "429", faults: on(fakevendor.Fault{Do: fakevendor.Answer, Status: 429, RetryAfter: 1, Times: 2}), billed: 1, tries: 1},
	{name: "503 with Retry-After", faults: on(fakevendor.Fault{Do: fakevendor.Answer, Status: 503, RetryAfter: 1}), billed: 1, tries: 1},
	{name: "not JSON", faults: on(fakevendor.Fault{Do: fakevendor.Malformed, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "cut off", faults: on(fakevendor.Fault{Do: fakevendor.Truncated, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "200 with an error", faults: on(fakevendor.Fault{Do: fakevendor.OKError, At: fakevendor.After}), billed: 1, tries: 1},
	{name: "redirects elsewhere", faults: on(fakevendor.Fault{Do: fakevendor.Redirect, Location: "http://127.0.0.1:1/steal"}), billed: 1, tries: 1},
	{name: "400", faults: on(fakevendor.Fault{Do: fakevendor.Answer, Status: 400, Times: -1}), state: ledger.StateFailed, reason: ledger.EndVendor},

	{name: "polls answer 500", faults: on(fakevendor.Fault{Call: fakevendor.Get, Do: fakevendor.Answer, Times: 3}), billed: 1, tries: 1},
	{name: "polls are dropped and cut", faults: on(
		fakevendor.Fault{Call: fakevendor.Get, Do: fakevendor.Drop}, fakevendor.Fault{Call: fakevendor.Get, Do: fakevendor.Malformed, Nth: 2}), billed: 1, tries: 1},
	{name: "files answer 500, are cut, are wrong", faults: on(
		fakevendor.Fault{Call: fakevendor.File, Do: fakevendor.Answer}, fakevendor.Fault{Call: fakevendor.File, Do: fakevendor.Truncated, Nth: 2},
		fakevendor.Fault{Call: fakevendor.File, Do: fakevendor.Malformed, Nth: 3}), billed: 1, tries: 1},
	{name: "drop after, then the lookup fails", faults: on(
		fakevendor.Fault{Do: fakevendor.Drop, At: fakevendor.After}, fakevendor.Fault{Call: fakevendor.Lookup, Do: fakevendor.Answer, Times: 2}), billed: 1, tries: 1},

	{name: "fails and may succeed later", faults: on(fakevendor.Fault{Work: &fakevendor.Work{
		Outcome: fakevendor.Outcome{Status: fakevendor.Failed, Transient: true}}}), billed: 1, tries: 2},
	{name: "fails for good", faults: on(fakevendor.Fault{Work: &fakevendor.Work{Outcome: fakevendor.Outcome{Status: fakevendor.Failed}}}),
		state: ledger.StateFailed, reason: ledger.EndVendor, tries: 1},
	{name: "delivers in part", faults: on(fakevendor.Fault{Work: &fakevendor.Work{Outcome: fakevendor.Outcome{Delivered: 1}}}),
		reason: ledger.EndPartial, billed: 1, tries: 1},
	{name: "takes its time", faults: on(fakevendor.Fault{Work: &fakevendor.Work{Queue: span(time.Second), Duration: span(time.Second),
		PollAfter: span(200 * time.Millisecond)}}), billed: 1, tries: 1},
}

func on(f ...fakevendor.Fault) []fakevendor.Fault { return f }

func span(d time.Duration) fakevendor.Duration { return fakevendor.Duration(d) }

func TestWhateverAVendorDoesItsBillFitsOurBooks(t *testing.T) {
	for name, blind := range map[string]bool{"looked up": false, "not looked up": true} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(w *world) { everyTrouble(w, blind) })
		})
	}
}

func everyTrouble(w *world, blind bool) {
	vendor := fakevendor.Start(w.t, fakevendor.Options{Price: 5, NoLookup: blind, PollAfter: 20 * time.Millisecond})
	service, err := generations.New(generations.Options{URL: vendor.URL(), Key: vendor.Key(), Price: 5, NoLookup: blind, Timeout: 700 * time.Millisecond})
	require.NoError(w.t, err)
	w.at(service, func(o *tasks.WorkerOptions) { o.Concurrency = 32 })
	_, err = w.ledger.Grant(w.ctx, ledger.GrantCredits{AccountName: alice, Amount: 1000, Source: "purchase", Reason: "for the test", Actor: "test"})
	require.NoError(w.t, err)
	before, err := w.ledger.Balance(w.ctx, alice)
	require.NoError(w.t, err)
	ids := map[string]string{}
	for _, trouble := range troubles {
		o := job(trouble.name)
		o.ID = ledger.NewID()
		ids[trouble.name] = o.ID
		for _, f := range trouble.faults {
			f.KeyPrefix = o.ID + ":"
			require.NoError(w.t, vendor.AddFaults(f))
		}
		w.submit(o)
	}
	var spent int64
	for _, trouble := range troubles {
		id := ids[trouble.name]
		if blind && recordedFailure(trouble.faults) {
			// Under its key the service says 500 for ever, and it cannot be asked: unknown,
			// until MAX_UNKNOWN. It is never sent under another key.
			w.eventually(trouble.name+" is unknown", func() bool {
				j := w.job(id)
				return j.VendorUnknown() && vendor.Bill().Count(fakevendor.Submit, id+":") > 1
			})
			require.LessOrEqual(w.t, len(vendor.Bill().Job(id)), 1)
			continue
		}
		j := w.ended(id)
		want := trouble.state
		if want == "" {
			want = ledger.StateCompleted
		}
		require.Equal(w.t, want, j.State(), "%s: %+v %+v", trouble.name, j.End, j.End.Error)
		if trouble.reason != "" {
			require.Equal(w.t, trouble.reason, j.End.Reason, trouble.name)
		}
		rows := vendor.Bill().Job(id)
		require.Len(w.t, rows, trouble.tries, trouble.name)
		billed, units := 0, 0
		for _, r := range rows {
			if r.Cost > 0 {
				billed++
				units += r.Units
			}
		}
		require.Equal(w.t, trouble.billed, billed, trouble.name)
		require.EqualValues(w.t, 5*units, j.End.Charged, trouble.name+": what is charged is what the vendor bills")
		spent += j.End.Charged
	}
	require.Empty(w.t, vendor.Bill().Duplicates())
	require.Empty(w.t, vendor.Bill().Overlaps())
	after, err := w.ledger.Balance(w.ctx, alice)
	require.NoError(w.t, err)
	require.Equal(w.t, before.Available-spent, after.Available+after.Held)
}

func recordedFailure(faults []fakevendor.Fault) bool {
	for _, f := range faults {
		if f.Call == "" && f.Do == fakevendor.Answer && (f.At == fakevendor.During || f.At == fakevendor.After) {
			return true
		}
		if f.Call == "" && f.Do == fakevendor.OKError {
			return true
		}
	}
	return false
}

// Signed callbacks over real HTTP: before our commit, twice, out of order, forged.
func TestSignedCallbacksOfAVendor(t *testing.T) {
	onBoth(t, func(w *world) {
		const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
		routes := http.NewServeMux()
		server := httptest.NewServer(routes)
		t.Cleanup(server.Close)
		vendor := fakevendor.Start(w.t, fakevendor.Options{Price: 5, WebhookSecrets: []string{secret}})
		service, err := generations.New(generations.Options{URL: vendor.URL(), Key: vendor.Key(), Price: 5, Pace: time.Hour,
			CallbackURL: server.URL + "/v1/callbacks/generations", Secrets: []string{"whsec_b2xkIHNlY3JldCBvZiBvdXJz", secret}})
		require.NoError(w.t, err)
		_, mux := w.at(pollsNever{service})
		callbacks := tasks.NewCallbacks(tasks.CallbacksOptions{Ledger: w.ledger, Mux: mux, Logger: w.log})
		routes.Handle("POST /v1/callbacks/{provider}", callbacks)

		o := job("a")
		o.ID = ledger.NewID()
		require.NoError(w.t, vendor.AddFaults(fakevendor.Fault{KeyPrefix: o.ID, Work: &fakevendor.Work{Hold: true, PollAfter: span(time.Hour)}}))
		w.submit(o)
		w.eventually("it waits", func() bool {
			j := w.job(o.ID)
			return j.Open.State == ledger.StateQueued && j.Call != nil && j.Call.Ref != ""
		})
		ref := w.job(o.ID).Call.Ref
		status, err := vendor.Call(w.ctx, ref, fakevendor.Callback{Forged: true})
		require.NoError(w.t, err)
		require.Equal(w.t, http.StatusUnauthorized, status)
		require.NoError(w.t, vendor.Finish(ref, fakevendor.Outcome{}))
		j := w.delivered(o.ID)
		for range 2 { // and again
			status, err = vendor.Call(w.ctx, ref, fakevendor.Callback{})
			require.NoError(w.t, err)
			require.Equal(w.t, http.StatusNoContent, status)
		}
		require.Equal(w.t, "deduct-10 task_started+0 task_completed+0 ", w.kinds(j.ID))
		require.Zero(w.t, callbacks.Late())
		require.Len(w.t, vendor.Bill().Job(j.ID), 1)
	})
}

// pollsNever is a vendor that can only call back.
type pollsNever struct{ v provider.Vendor }

func (p pollsNever) Name() string            { return p.v.Name() }
func (p pollsNever) Traits() provider.Traits { return p.v.Traits() }
func (p pollsNever) Estimate(in json.RawMessage) (provider.Estimate, error) {
	return p.v.Estimate(in)
}

func (p pollsNever) Submit(ctx context.Context, r provider.Request) (provider.Submission, error) {
	return p.v.Submit(ctx, r)
}

func (p pollsNever) Download(ctx context.Context, ref string, n provider.News) (provider.Result, error) {
	return p.v.Download(ctx, ref, n)
}

func (p pollsNever) Callback(h http.Header, body []byte) (provider.Event, error) {
	caller, ok := p.v.(provider.Caller)
	if !ok {
		return provider.Event{}, fmt.Errorf("%s calls nobody", strings.ToLower(p.Name()))
	}
	return caller.Callback(h, body)
}
