package fakevendor_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image/png"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

func TestALifeFromSubmitToFile(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Price: 40, Work: fakevendor.Work{Hold: true}})

	r := c.submit("job:1", order("a fox", 2))
	g := r.generation(t, http.StatusCreated)
	require.Regexp(t, `^gen_[0-9A-Z]{26}$`, g.ID)
	require.Equal(t, fakevendor.Queued, g.Status)
	require.Equal(t, "1", r.header.Get("Retry-After"))
	require.EqualValues(t, 100, *g.PollAfterMS)
	require.Nil(t, g.EndedAt)
	require.Empty(t, g.Outputs)

	require.NoError(t, v.Progress(g.ID, 30, 1))
	g = c.get(g.ID).generation(t, http.StatusOK)
	require.Equal(t, fakevendor.Processing, g.Status)
	require.Equal(t, 30, g.Progress)
	require.Len(t, g.Outputs, 1)

	require.NoError(t, v.Progress(g.ID, 10, 0))
	require.Equal(t, 30, c.get(g.ID).generation(t, http.StatusOK).Progress, "progress never falls")

	require.NoError(t, v.Finish(g.ID, fakevendor.Outcome{}))
	r = c.get(g.ID)
	g = r.generation(t, http.StatusOK)
	require.Equal(t, fakevendor.Succeeded, g.Status)
	require.Equal(t, 100, g.Progress)
	require.Empty(t, r.header.Get("Retry-After"))
	require.Nil(t, g.PollAfterMS)
	require.NotNil(t, g.EndedAt)
	require.Equal(t, 2, g.Usage.Units)
	require.EqualValues(t, 80, g.Cost)
	require.Len(t, g.Outputs, 2)
	require.NotEqual(t, g.Outputs[0].SHA256, g.Outputs[1].SHA256)

	c.key = "" // files need none
	for _, out := range g.Outputs {
		file := c.do(t.Context(), http.MethodGet, out.URL, "", "")
		require.NoError(t, file.err)
		require.Equal(t, http.StatusOK, file.status)
		require.Equal(t, out.ContentType, file.header.Get("Content-Type"))
		require.Len(t, file.body, out.Bytes)
		sum := sha256.Sum256(file.body)
		require.Equal(t, out.SHA256, hex.EncodeToString(sum[:]))
		picture, err := png.Decode(bytes.NewReader(file.body))
		require.NoError(t, err)
		require.Equal(t, 64, picture.Bounds().Dx())
	}
	for _, name := range []string{"2.png", "-1.png", "0.jpg", "x.png"} {
		c.do(t.Context(), http.MethodGet, "/v1/files/"+g.ID+"/"+name, "", "").refused(t, http.StatusNotFound, "not_found")
	}

	bill := v.Bill()
	require.Len(t, bill.Rows, 1)
	row := bill.Rows[0]
	require.Equal(t, "job", row.Job)
	require.Equal(t, "job:1", row.Key)
	require.Equal(t, 2, row.Units)
	require.EqualValues(t, 80, row.Cost)
	require.Equal(t, map[fakevendor.Kind]int{
		fakevendor.Submit: 1, fakevendor.Accepted: 1, fakevendor.Get: 3, fakevendor.File: 6, fakevendor.Ended: 1,
	}, row.Calls)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{})

	for body, want := range map[string]string{
		``:                                 "EOF",
		`{"input":`:                        "EOF",
		`[]`:                               "cannot unmarshal",
		`{}`:                               "input",
		`{"input":{}}`:                     "prompt is missing",
		`{"input":{"prompt":""}}`:          "prompt is missing",
		`{"input":{"prompt":7}}`:           "cannot unmarshal",
		order("a fox", 0):                  "input.n is 0",
		order("a fox", 101):                "input.n is 101",
		order("a fox", 1) + `{}`:           "follows",
		`{"input":{"prompt":"x","n":1.5}}`: "cannot unmarshal",
		`{"input":{"prompt":"x"},"webhook_url":"ftp://example"}`: "webhook_url",
		`{"input":{"prompt":"x"},"colour":"red"}`:                "unknown field",
	} {
		require.Contains(t, c.submit("k:1", body).refused(t, http.StatusBadRequest, "invalid_request"), want, body)
	}
	c.submit("", order("a fox", 1)).refused(t, http.StatusBadRequest, "idempotency_key_required")
	c.submit(strings.Repeat("k", 256), order("a fox", 1)).refused(t, http.StatusBadRequest, "idempotency_key_required")
	c.submit("k:1", strings.Repeat(" ", 1<<20+1)).refused(t, http.StatusRequestEntityTooLarge, "too_large")
	c.get("gen_none").refused(t, http.StatusNotFound, "not_found")
	c.cancel("gen_none").refused(t, http.StatusNotFound, "not_found")
	c.do(t.Context(), http.MethodGet, "/v1/generations", "", "").refused(t, http.StatusBadRequest, "invalid_request")

	require.Empty(t, v.Bill().Rows)
	c.accepted("k:1", order("a fox", 1)) // the key was not used up
	require.Len(t, v.Bill().Rows, 1)

	for _, key := range []string{"", "wrong"} {
		c.key = key
		c.submit("k:2", order("a fox", 1)).refused(t, http.StatusUnauthorized, "unauthenticated")
		c.do(t.Context(), http.MethodGet, "/books", "", "").refused(t, http.StatusUnauthorized, "unauthenticated")
	}
	bill := v.Bill()
	require.Len(t, bill.Rows, 1)
	require.Equal(t, 4, bill.Calls[fakevendor.Unauthenticated])
	require.Zero(t, bill.Count(fakevendor.Submit, "k:2"))
}

func TestSameKeySameContentIsReplayed(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{})

	first := c.submit("job:1", `{"input":{"prompt":"a fox","n":2}}`)
	again := c.submit("job:1", ` {"input": {"n":2, "prompt":"a fox"}} `)
	require.Equal(t, first.generation(t, http.StatusCreated), again.generation(t, http.StatusCreated))
	require.Equal(t, first.body, again.body)
	require.Empty(t, first.header.Get("Idempotency-Replayed"))
	require.Equal(t, "true", again.header.Get("Idempotency-Replayed"))

	c.submit("job:1", order("a dog", 2)).refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused")

	bill := v.Bill()
	require.Len(t, bill.Rows, 1)
	require.Equal(t, 3, bill.Rows[0].Calls[fakevendor.Submit])
	require.Equal(t, 1, bill.Rows[0].Calls[fakevendor.Replayed])
}

func TestSameKeyInFlightConflicts(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{})
	require.NoError(t, v.AddFaults(fakevendor.Fault{At: fakevendor.During, Gate: "go"}))

	first := later(func() reply { return c.submit("job:1", order("a fox", 1)) })
	require.NoError(t, v.Wait(soon(t), fakevendor.Held, "job:", 1))
	c.submit("job:1", order("a fox", 1)).refused(t, http.StatusConflict, "in_progress")
	require.Empty(t, c.lookup("job:1").found(t), "nothing is found before it is accepted")
	v.Open("go")
	g := await(t, first).generation(t, http.StatusCreated)
	require.Equal(t, g.ID, c.accepted("job:1", order("a fox", 1)).ID)
}

func TestManyAtOnceMakeOne(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Data: t.TempDir() + "/books"})

	var calls sync.WaitGroup
	statuses := make(chan int, 50)
	for range cap(statuses) {
		calls.Go(func() { statuses <- c.submit("job:1", order("a fox", 1)).status })
	}
	calls.Wait()
	close(statuses)
	for status := range statuses {
		require.Contains(t, []int{http.StatusCreated, http.StatusConflict}, status)
	}
	require.Len(t, v.Bill().Rows, 1)
	require.Equal(t, 50, v.Bill().Count(fakevendor.Submit, "job:1"))
}

func TestLookup(t *testing.T) {
	t.Parallel()
	_, c := start(t, held)
	g := c.accepted("job:1", order("a fox", 1))
	found := c.lookup("job:1").found(t)
	require.Len(t, found, 1)
	require.Equal(t, g.ID, found[0].ID)
	require.Empty(t, c.lookup("job:2").found(t))

	_, without := start(t, fakevendor.Options{NoLookup: true})
	without.accepted("job:1", order("a fox", 1))
	without.lookup("job:1").refused(t, http.StatusNotFound, "not_supported")
}

func TestCancelKeepsAndBillsWhatIsReady(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Price: 10, Work: fakevendor.Work{Hold: true, Early: 2}})

	g := c.accepted("job:1", order("a fox", 5))
	require.EqualValues(t, 50, v.Bill().Cost, "open work is billed in full")
	require.NoError(t, v.Progress(g.ID, 40, 0))
	cancelled := c.cancel(g.ID).generation(t, http.StatusOK)
	require.Equal(t, fakevendor.Cancelled, cancelled.Status)
	require.Len(t, cancelled.Outputs, 2)
	require.EqualValues(t, 20, cancelled.Cost)
	require.EqualValues(t, 20, v.Bill().Cost)
	c.cancel(g.ID).refused(t, http.StatusConflict, "already_ended")
	require.ErrorIs(t, v.Finish(g.ID, fakevendor.Outcome{}), fakevendor.ErrEnded)

	queued := c.accepted("job:2", order("a fox", 5))
	require.Empty(t, c.cancel(queued.ID).generation(t, http.StatusOK).Outputs)
	require.EqualValues(t, 20, v.Bill().Cost)

	_, without := start(t, fakevendor.Options{NoCancel: true, Work: fakevendor.Work{Hold: true}})
	without.cancel(without.accepted("job:1", order("a fox", 1)).ID).refused(t, http.StatusNotFound, "not_supported")
}

func TestCancelRacesWithTheEnd(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	for i := range 20 {
		g := c.accepted(fmt.Sprintf("race:%d", i), order("a fox", 1))
		cancelled := later(func() reply { return c.cancel(g.ID) })
		finished := v.Finish(g.ID, fakevendor.Outcome{})
		if finished != nil {
			require.ErrorIs(t, finished, fakevendor.ErrEnded)
			require.Equal(t, http.StatusOK, await(t, cancelled).status)
		} else {
			require.Equal(t, http.StatusConflict, await(t, cancelled).status)
		}
	}
}
