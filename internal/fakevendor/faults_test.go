package fakevendor_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

// What each fault at a submit leaves: the answer, whether it was accepted, and
// what the same request gets afterwards.
func TestFaultsAtSubmit(t *testing.T) {
	t.Parallel()
	status := func(n int) func(*testing.T, reply) {
		return func(t *testing.T, r reply) {
			r.refused(t, n, "vendor_fault")
		}
	}
	reset := func(t *testing.T, r reply) { require.ErrorIs(t, r.err, syscall.ECONNRESET) }
	redirected := func(t *testing.T, r reply) {
		require.NoError(t, r.err)
		require.Equal(t, http.StatusTemporaryRedirect, r.status)
		require.Equal(t, "/v1/generations", r.header.Get("Location"))
	}
	created := func(t *testing.T, r reply) {
		require.Equal(t, fakevendor.Queued, r.generation(t, http.StatusCreated).Status)
	}
	const before, during, after = fakevendor.Before, fakevendor.During, fakevendor.After
	for name, test := range map[string]struct {
		fault    fakevendor.Fault
		first    func(*testing.T, reply)
		accepted bool
		second   func(*testing.T, reply)
	}{
		"500 before": {fakevendor.Fault{Do: fakevendor.Answer}, status(500), false, created},
		"429 before": {fakevendor.Fault{Do: fakevendor.Answer, Status: 429, RetryAfter: 7}, func(t *testing.T, r reply) {
			status(429)(t, r)
			require.Equal(t, "7", r.header.Get("Retry-After"))
		}, false, created},
		"500 during": {fakevendor.Fault{Do: fakevendor.Answer, At: during}, status(500), false, status(500)},
		"500 after":  {fakevendor.Fault{Do: fakevendor.Answer, At: after}, status(500), true, status(500)},
		"503 after": {fakevendor.Fault{Do: fakevendor.Answer, At: after, Status: 503, RetryAfter: 3}, status(503), true, func(t *testing.T, r reply) {
			status(503)(t, r)
			require.Equal(t, "3", r.header.Get("Retry-After"))
			require.Equal(t, "true", r.header.Get("Idempotency-Replayed"))
		}},
		"200 with an error before": {fakevendor.Fault{Do: fakevendor.OKError}, status(200), false, created},
		"200 with an error after":  {fakevendor.Fault{Do: fakevendor.OKError, At: after}, status(200), true, status(200)},
		"drop before":              {fakevendor.Fault{Do: fakevendor.Drop}, reset, false, created},
		"drop during":              {fakevendor.Fault{Do: fakevendor.Drop, At: during}, reset, false, created},
		"drop after":               {fakevendor.Fault{Do: fakevendor.Drop, At: after}, reset, true, created},
		"redirect before":          {fakevendor.Fault{Do: fakevendor.Redirect}, redirected, false, created},
		"redirect after":           {fakevendor.Fault{Do: fakevendor.Redirect, At: after}, redirected, true, created},
		"malformed": {fakevendor.Fault{Do: fakevendor.Malformed}, func(t *testing.T, r reply) {
			require.NoError(t, r.err)
			require.Equal(t, http.StatusCreated, r.status)
			require.False(t, json.Valid(r.body))
		}, true, created},
		"truncated": {fakevendor.Fault{Do: fakevendor.Truncated}, func(t *testing.T, r reply) {
			require.ErrorIs(t, r.err, io.ErrUnexpectedEOF)
			require.Equal(t, http.StatusCreated, r.status)
			require.NotEmpty(t, r.body)
		}, true, created},
		"trickle":      {fakevendor.Fault{Do: fakevendor.Trickle, Chunk: 100, Every: 1}, created, true, created},
		"delay before": {fakevendor.Fault{Delay: 1}, created, true, created},
		"delay after":  {fakevendor.Fault{Delay: 1, At: after}, created, true, created},
		"only the 2nd": {fakevendor.Fault{Nth: 2, Do: fakevendor.Answer, At: before}, created, true, status(500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, c := start(t, fakevendor.Options{Work: fakevendor.Work{Hold: true}, Faults: []fakevendor.Fault{test.fault}})
			test.first(t, c.submit("job:1", order("a fox", 2)))

			found := c.lookup("job:1").found(t)
			require.Equal(t, test.accepted, len(found) == 1, "accepted")
			require.Len(t, v.Bill().Rows, len(found))

			test.second(t, c.submit("job:1", order("a fox", 2)))
			require.LessOrEqual(t, len(v.Bill().Rows), 1, "billed once")
			if test.accepted {
				require.Equal(t, found[0].ID, v.Bill().Rows[0].ID)
			}
		})
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	t.Parallel()
	for point, accepted := range map[fakevendor.Point]int{fakevendor.Before: 0, fakevendor.During: 0, fakevendor.After: 1} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			v, c := start(t, fakevendor.Options{Faults: []fakevendor.Fault{{Do: fakevendor.Hang, At: point}}})
			ctx, leave := context.WithCancel(t.Context())
			hanging := later(func() reply {
				return c.do(ctx, http.MethodPost, "/v1/generations", "job:1", order("a fox", 1))
			})
			require.NoError(t, v.Wait(soon(t), fakevendor.Struck, "job:1", 1))
			require.Len(t, c.lookup("job:1").found(t), accepted)
			leave()
			require.ErrorIs(t, await(t, hanging).err, context.Canceled)

			require.Eventually(t, func() bool { // until the vendor has noticed too
				return c.submit("job:1", order("a fox", 1)).status == http.StatusCreated
			}, patience, time.Millisecond)
			require.Len(t, v.Bill().Rows, 1)
		})
	}
}

func TestHangEndsWithTheVendor(t *testing.T) {
	t.Parallel()
	v, err := fakevendor.New(fakevendor.Options{Faults: []fakevendor.Fault{{Do: fakevendor.Hang}, {Call: fakevendor.Get, Gate: "never"}}})
	require.NoError(t, err)
	c := newClient(t, v.URL())
	submitting := later(func() reply { return c.submit("job:1", order("a fox", 1)) })
	polling := later(func() reply { return c.get("gen_none") })
	require.NoError(t, v.Wait(soon(t), fakevendor.Struck, "job:1", 1))
	require.NoError(t, v.Wait(soon(t), fakevendor.Held, "", 1))
	require.NoError(t, v.Close())
	require.NoError(t, v.Close(), "closing twice")
	require.Error(t, await(t, submitting).err)
	require.Error(t, await(t, polling).err)
}

// The worst of delays: the client gives up, looks, finds nothing, and the work
// is accepted after that.
func TestAcceptedAfterTheClientLeft(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Faults: []fakevendor.Fault{{Gate: "go"}}})
	ctx, leave := context.WithCancel(t.Context())
	first := later(func() reply { return c.do(ctx, http.MethodPost, "/v1/generations", "job:1", order("a fox", 1)) })
	require.NoError(t, v.Wait(soon(t), fakevendor.Held, "job:1", 1))
	leave()
	require.ErrorIs(t, await(t, first).err, context.Canceled)
	require.Empty(t, c.lookup("job:1").found(t))

	v.Open("go")
	require.NoError(t, v.Wait(soon(t), fakevendor.Accepted, "job:1", 1))
	require.Len(t, c.lookup("job:1").found(t), 1)
}

func TestDelayIsServed(t *testing.T) {
	t.Parallel()
	const delay = 40 * time.Millisecond
	_, c := start(t, fakevendor.Options{Faults: []fakevendor.Fault{
		{Delay: fakevendor.Duration(delay)}, {At: fakevendor.After, Delay: fakevendor.Duration(delay)},
	}})
	begin := time.Now()
	c.accepted("job:1", order("a fox", 1))
	require.GreaterOrEqual(t, time.Since(begin), 2*delay, "delays add up")
}

func TestFaultsChooseTheirCalls(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	require.NoError(t, v.AddFaults(
		fakevendor.Fault{Call: fakevendor.Get, KeyPrefix: "job:", Nth: 2, Times: 2, Do: fakevendor.Answer, Status: 503},
		fakevendor.Fault{Call: fakevendor.Get, Prompt: "dog", Times: -1, Do: fakevendor.Drop},
		fakevendor.Fault{Call: fakevendor.Lookup, KeyPrefix: "job:", Do: fakevendor.Answer},
		fakevendor.Fault{Call: fakevendor.Cancel, At: fakevendor.After, Do: fakevendor.Drop},
	))
	job := c.accepted("job:1", order("a fox", 1)).ID
	other := c.accepted("other:1", order("a fox", 1)).ID
	dog := c.accepted("other:2", order("a dog", 1)).ID

	for _, want := range []int{200, 503, 503, 200} {
		require.Equal(t, want, c.get(job).status)
		require.Equal(t, 200, c.get(other).status)
		require.Error(t, c.get(dog).err)
	}
	require.Equal(t, 500, c.lookup("job:1").status)
	require.Len(t, c.lookup("job:1").found(t), 1)

	require.Error(t, c.cancel(job).err)
	require.Equal(t, fakevendor.Cancelled, c.get(job).generation(t, http.StatusOK).Status, "cancelled, though nobody was told")

	v.ClearFaults()
	require.Equal(t, 200, c.get(dog).status)
}

// A fault that meets a replay happens to that call alone.
func TestFaultsAtReplays(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	require.NoError(t, v.AddFaults(
		fakevendor.Fault{Nth: 2, Do: fakevendor.Answer, Status: 503, At: fakevendor.After},
		fakevendor.Fault{Nth: 3, Do: fakevendor.Drop, At: fakevendor.After},
	))
	g := c.accepted("job:1", order("a fox", 1))
	require.Equal(t, 503, c.submit("job:1", order("a fox", 1)).status)
	require.Error(t, c.submit("job:1", order("a fox", 1)).err)
	require.Equal(t, g.ID, c.accepted("job:1", order("a fox", 1)).ID)
}

func TestFaultsAtFiles(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Faults: []fakevendor.Fault{
		{Call: fakevendor.File, Do: fakevendor.Answer},
		{Call: fakevendor.File, Nth: 2, Do: fakevendor.Truncated},
		{Call: fakevendor.File, Nth: 3, Do: fakevendor.Malformed},
		{Call: fakevendor.File, Nth: 4, Do: fakevendor.Trickle, Chunk: 64, Every: 1},
	}})
	id := c.accepted("job:1", order("a fox", 1)).ID
	require.NoError(t, v.Wait(soon(t), fakevendor.Ended, "job:1", 1))
	out := c.get(id).generation(t, http.StatusOK).Outputs[0]
	sum := func(r reply) string {
		sum := sha256.Sum256(r.body)
		return hex.EncodeToString(sum[:])
	}
	file := func() reply { return c.do(t.Context(), http.MethodGet, out.URL, "", "") }

	require.Equal(t, 500, file().status)
	truncated := file()
	require.ErrorIs(t, truncated.err, io.ErrUnexpectedEOF)
	require.Len(t, truncated.body, out.Bytes/2)
	spoiled := file()
	require.NoError(t, spoiled.err)
	require.Len(t, spoiled.body, out.Bytes)
	require.NotEqual(t, out.SHA256, sum(spoiled))
	slow := file()
	require.NoError(t, slow.err)
	require.Equal(t, out.SHA256, sum(slow))
	require.Equal(t, 4, v.Bill().Rows[0].Calls[fakevendor.File])
}

func TestTrickleEndsWithTheVendor(t *testing.T) {
	t.Parallel()
	v, err := fakevendor.New(fakevendor.Options{Faults: []fakevendor.Fault{{Do: fakevendor.Trickle, Every: fakevendor.Duration(time.Hour)}}})
	require.NoError(t, err)
	c := newClient(t, v.URL())
	slow := later(func() reply { return c.submit("job:1", order("a fox", 1)) })
	require.NoError(t, v.Wait(soon(t), fakevendor.Struck, "job:1", 1))
	require.NoError(t, v.Close())
	require.Error(t, await(t, slow).err)
}

func TestFaultsAreValidated(t *testing.T) {
	t.Parallel()
	v, _ := start(t, fakevendor.Options{})
	for want, f := range map[string]fakevendor.Fault{
		"call \"poll\"":        {Call: "poll"},
		"at \"later\"":         {At: "later"},
		"do \"explode\"":       {Do: "explode"},
		"only a submit has it": {Call: fakevendor.Get, At: fakevendor.During},
		"spoil only after":     {Do: fakevendor.Truncated, At: fakevendor.Before},
		"nth -1":               {Nth: -1},
		"times -2":             {Times: -2},
		"status 99":            {Status: 99},
		"retry_after -1":       {RetryAfter: -1},
		"chunk -1":             {Chunk: -1},
		"must not be negative": {Delay: -1},
		"begins any":           {Call: fakevendor.Get, Work: &fakevendor.Work{}},
		"early -1":             {Work: &fakevendor.Work{Early: -1}},
		"queue, duration":      {Work: &fakevendor.Work{Queue: -1}},
		"outcome \"queued\"":   {Work: &fakevendor.Work{Outcome: fakevendor.Outcome{Status: fakevendor.Queued}}},
		"delivered -1":         {Work: &fakevendor.Work{Outcome: fakevendor.Outcome{Delivered: -1}}},
		"callback 0: status":   {Work: &fakevendor.Work{Callbacks: []fakevendor.Callback{{Status: "done"}}}},
		"callback 0: times":    {Work: &fakevendor.Work{Callbacks: []fakevendor.Callback{{Times: -1}}}},
		"callback 0: delay":    {Work: &fakevendor.Work{Callbacks: []fakevendor.Callback{{Delay: -1}}}},
	} {
		require.ErrorContains(t, v.AddFaults(fakevendor.Fault{}, f), want)
		require.ErrorContains(t, v.AddFaults(f), "fault 0")
	}
	_, c := start(t, fakevendor.Options{}) // and none of them was added to v
	require.Equal(t, "[]\n", string(c.do(t.Context(), http.MethodGet, v.URL()+"/admin/faults", "", "").body))

	_, err := fakevendor.New(fakevendor.Options{Faults: []fakevendor.Fault{{Nth: -1}}})
	require.ErrorContains(t, err, "nth -1")
	_, err = fakevendor.New(fakevendor.Options{Work: fakevendor.Work{Early: -1}})
	require.ErrorContains(t, err, "early -1")
	_, err = fakevendor.New(fakevendor.Options{Price: -1})
	require.ErrorContains(t, err, "price")
	_, err = fakevendor.New(fakevendor.Options{Addr: "256.0.0.1:0"})
	require.Error(t, err)
}

func TestFaultsAreData(t *testing.T) {
	t.Parallel()
	want := fakevendor.Fault{
		Call: fakevendor.Submit, KeyPrefix: "job:", Delay: fakevendor.Duration(90 * time.Second),
		Work: &fakevendor.Work{Duration: fakevendor.Duration(5 * time.Minute), Outcome: fakevendor.Outcome{Status: fakevendor.Failed}},
	}
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.JSONEq(t, `{"call":"submit","key_prefix":"job:","delay":"1m30s","work":{"duration":"5m0s","outcome":{"status":"failed"}}}`, string(data))
	var got fakevendor.Fault
	require.NoError(t, json.Unmarshal(data, &got))
	require.Equal(t, want, got)

	for _, text := range []string{`"-1s"`, `"soon"`, `5`} {
		require.Error(t, json.Unmarshal(fmt.Appendf(nil, `{"delay":%s}`, text), &got))
	}
}
