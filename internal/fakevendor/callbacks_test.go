package fakevendor_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

// heard is a callback as a receiver sees it.
type heard struct {
	id, timestamp, signature string
	body                     []byte
	what                     string
	data                     generation
}

// receiver takes callbacks. Each is answered with the next status, 204 when
// there is none left.
type receiver struct {
	t    *testing.T
	url  string
	got  chan heard
	next chan int
}

func receive(t *testing.T, statuses ...int) *receiver {
	t.Helper()
	r := &receiver{t: t, got: make(chan heard, 100), next: make(chan int, len(statuses))}
	for _, status := range statuses {
		r.next <- status
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var n struct {
			Type string     `json:"type"`
			Data generation `json:"data"`
		}
		if err != nil || json.Unmarshal(body, &n) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		status := http.StatusNoContent
		select {
		case status = <-r.next:
		default:
		}
		w.WriteHeader(status)
		r.got <- heard{
			id: q.Header.Get("Webhook-Id"), timestamp: q.Header.Get("Webhook-Timestamp"),
			signature: q.Header.Get("Webhook-Signature"), body: body, what: n.Type, data: n.Data,
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) order(n int) string {
	return fmt.Sprintf(`{"input":{"prompt":"a fox","n":%d},"webhook_url":%q}`, n, r.url)
}

// hear takes the next callbacks, which must be of these types.
func (r *receiver) hear(types ...string) []heard {
	r.t.Helper()
	list := make([]heard, 0, len(types))
	for _, want := range types {
		h := await(r.t, r.got)
		require.Equal(r.t, "generation."+want, h.what)
		require.Equal(r.t, want, string(h.data.Status))
		list = append(list, h)
	}
	return list
}

// quiet expects that nothing more was sent than has been heard.
func (r *receiver) quiet(v *fakevendor.Vendor, sent int) {
	r.t.Helper()
	require.Equal(r.t, sent, v.Bill().Calls[fakevendor.CallbackSent])
	require.Empty(r.t, r.got)
}

// secret makes one from a word.
func secret(word string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(word))
}

// sign as the standard says, written independently of the vendor.
func sign(word string, h heard) string {
	mac := hmac.New(sha256.New, []byte(word))
	mac.Write([]byte(h.id + "." + h.timestamp + "." + string(h.body)))
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestCallbacksTellAndAreSigned(t *testing.T) {
	t.Parallel()
	r := receive(t)
	v, c := start(t, fakevendor.Options{Work: fakevendor.Work{Hold: true}, WebhookSecrets: []string{secret("old")}})
	g := c.accepted("job:1", r.order(2))

	require.NoError(t, v.Progress(g.ID, 50, 1))
	processing := r.hear("processing")[0]
	require.Equal(t, g.ID, processing.data.ID)
	require.Equal(t, 50, processing.data.Progress)
	require.Equal(t, sign("old", processing), processing.signature)
	sent, err := strconv.ParseInt(processing.timestamp, 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), time.Unix(sent, 0), patience)

	require.NoError(t, v.SetWebhookSecrets(secret("old"), secret("new")))
	require.NoError(t, v.Progress(g.ID, 60, 1)) // tells nobody
	require.NoError(t, v.Finish(g.ID, fakevendor.Outcome{}))
	succeeded := r.hear("succeeded")[0]
	require.Len(t, succeeded.data.Outputs, 2)
	require.NotEqual(t, processing.id, succeeded.id)
	require.Equal(t, []string{sign("old", succeeded), sign("new", succeeded)}, strings.Fields(succeeded.signature))

	require.ErrorContains(t, v.SetWebhookSecrets("whsec_!"), "base64")
	require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "job:1", 2))
	r.quiet(v, 2)
}

func TestCallbacksOfEachEnd(t *testing.T) {
	t.Parallel()
	r := receive(t)
	v, c := start(t, held)
	failed := c.accepted("job:1", r.order(1))
	require.NoError(t, v.Finish(failed.ID, fakevendor.Outcome{Status: fakevendor.Failed, Code: "refused"}))
	require.Equal(t, "refused", r.hear("failed")[0].data.Error.Code)
	c.cancel(c.accepted("job:2", r.order(1)).ID)
	require.Empty(t, r.hear("cancelled")[0].signature, "no secret, no signature")
}

func TestCallbacksAreRetried(t *testing.T) {
	t.Parallel()
	r := receive(t, 500, 302, 503)
	v, c := start(t, fakevendor.Options{CallbackRetries: []time.Duration{1, 1, 1}})
	c.accepted("job:1", r.order(1))
	tries := r.hear("processing", "processing", "processing", "processing", "succeeded")
	for _, again := range tries[1:4] {
		require.Equal(t, tries[0].id, again.id)
		require.Equal(t, tries[0].body, again.body)
	}
	require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "job:1", 2))
	r.quiet(v, 5)
}

func TestCallbacksAreGivenUp(t *testing.T) {
	t.Parallel()
	r := receive(t, 500, 500)
	v, c := start(t, fakevendor.Options{CallbackRetries: []time.Duration{1}})
	c.accepted("job:1", r.order(1))
	r.hear("processing", "processing", "succeeded")
	require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "job:1", 1))
	r.quiet(v, 3)
}

func TestCallbacksByScript(t *testing.T) {
	t.Parallel()
	const processing, succeeded, failed = fakevendor.Processing, fakevendor.Succeeded, fakevendor.Failed
	for name, test := range map[string]struct {
		script []fakevendor.Callback
		want   []string
		check  func(*testing.T, generation, []heard)
	}{
		"twice": {
			script: []fakevendor.Callback{{Times: 2}},
			want:   []string{"succeeded", "succeeded"},
			check: func(t *testing.T, _ generation, got []heard) {
				require.Equal(t, got[0].id, got[1].id)
			},
		},
		"succeeded before processing": {
			script: []fakevendor.Callback{{}, {Status: processing}},
			want:   []string{"succeeded", "processing"},
			check: func(t *testing.T, _ generation, got []heard) {
				require.Empty(t, got[1].data.Outputs)
				require.Nil(t, got[1].data.EndedAt)
			},
		},
		"late failed": {
			script: []fakevendor.Callback{{}, {Status: failed, Delay: fakevendor.Duration(time.Millisecond)}},
			want:   []string{"succeeded", "failed"},
			check: func(t *testing.T, _ generation, got []heard) {
				require.NotNil(t, got[1].data.Error)
				require.Empty(t, got[1].data.Outputs)
			},
		},
		"unknown generation": {
			script: []fakevendor.Callback{{ID: "gen_stranger"}, {}},
			want:   []string{"succeeded", "succeeded"},
			check: func(t *testing.T, g generation, got []heard) {
				require.Equal(t, "gen_stranger", got[0].data.ID)
				require.Equal(t, g.ID, got[1].data.ID)
			},
		},
		"forged": {
			script: []fakevendor.Callback{{Forged: true}, {}},
			want:   []string{"succeeded", "succeeded"},
			check: func(t *testing.T, _ generation, got []heard) {
				require.NotEqual(t, sign("s", got[0]), got[0].signature)
				require.True(t, strings.HasPrefix(got[0].signature, "v1,"))
				require.Equal(t, sign("s", got[1]), got[1].signature)
			},
		},
		"untrue": {
			script: []fakevendor.Callback{{Status: fakevendor.Queued}, {Status: succeeded}},
			want:   []string{"queued", "succeeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := receive(t)
			v, c := start(t, fakevendor.Options{
				WebhookSecrets: []string{secret("s")},
				Faults:         []fakevendor.Fault{{Work: &fakevendor.Work{Callbacks: test.script}}},
			})
			g := c.accepted("job:1", r.order(1))
			got := r.hear(test.want...)
			if test.check != nil {
				test.check(t, g, got)
			}
			require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "job:1", len(test.want)))
			r.quiet(v, len(test.want))
			require.Equal(t, fakevendor.Succeeded, c.get(g.ID).generation(t, http.StatusOK).Status, "whatever was said")
		})
	}
}

func TestCallbacksAreLost(t *testing.T) {
	t.Parallel()
	r := receive(t)
	v, c := start(t, fakevendor.Options{Work: fakevendor.Work{Silent: true}})
	c.accepted("job:1", r.order(1))
	require.NoError(t, v.Wait(soon(t), fakevendor.Ended, "job:1", 1))
	require.NoError(t, v.Close()) // nothing can be on its way
	r.quiet(v, 0)
}

func TestCallbackBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	r := receive(t)
	v, c := start(t, fakevendor.Options{Work: fakevendor.Work{
		Hold: true, Callbacks: []fakevendor.Callback{{Status: fakevendor.Succeeded, Early: true, Times: 2}},
	}})
	require.NoError(t, v.AddFaults(fakevendor.Fault{At: fakevendor.After, Gate: "answer"}))
	answered := later(func() reply { return c.submit("job:1", r.order(2)) })
	early := r.hear("succeeded", "succeeded")
	require.Len(t, early[0].data.Outputs, 2)
	require.Empty(t, answered)
	v.Open("answer")
	g := await(t, answered).generation(t, http.StatusCreated)
	require.Equal(t, early[0].data.ID, g.ID)
	require.Equal(t, fakevendor.Queued, g.Status, "the answer is that of the acceptance")
	require.Equal(t, fakevendor.Succeeded, c.get(g.ID).generation(t, http.StatusOK).Status)
	r.quiet(v, 2)
}

func TestEarlyCallbackThatIsRefusedComesAgain(t *testing.T) {
	t.Parallel()
	r := receive(t, 404)
	_, c := start(t, fakevendor.Options{
		CallbackRetries: []time.Duration{1},
		Work:            fakevendor.Work{Hold: true, Callbacks: []fakevendor.Callback{{Status: fakevendor.Failed, Early: true}}},
	})
	g := c.accepted("job:1", r.order(1))
	both := r.hear("failed", "failed")
	require.Equal(t, both[0].id, both[1].id)
	require.Equal(t, fakevendor.Failed, c.get(g.ID).generation(t, http.StatusOK).Status)
}

func TestCallbackByHand(t *testing.T) {
	t.Parallel()
	r := receive(t, 418)
	v, c := start(t, held)
	g := c.accepted("job:1", r.order(1))
	status, err := v.Call(soon(t), g.ID, fakevendor.Callback{Status: fakevendor.Failed})
	require.NoError(t, err)
	require.Equal(t, 418, status)
	r.hear("failed")
	require.Equal(t, fakevendor.Queued, c.get(g.ID).generation(t, http.StatusOK).Status)

	_, err = v.Call(soon(t), "gen_none", fakevendor.Callback{})
	require.ErrorIs(t, err, fakevendor.ErrUnknown)
	_, err = v.Call(soon(t), g.ID, fakevendor.Callback{Status: "done"})
	require.ErrorContains(t, err, "status")
	_, err = v.Call(soon(t), c.accepted("job:2", order("a fox", 1)).ID, fakevendor.Callback{})
	require.ErrorContains(t, err, "no webhook_url")
}
