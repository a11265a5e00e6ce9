package fakevendor_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

func TestBillOfAJob(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	first := c.accepted("a:1", order("a fox", 2))
	beside := c.accepted("a:2", order("a fox", 2)) // while the first is open
	c.accepted("b:1", order("a fox", 1))
	c.accepted("plain", order("a fox", 1))
	c.lookup("c:1")

	bill := v.Bill()
	require.Len(t, bill.Job("a"), 2)
	require.Len(t, bill.Job("plain"), 1)
	require.Equal(t, map[string][]fakevendor.Row{"a": bill.Job("a")}, bill.Duplicates())
	require.Len(t, bill.Overlaps(), 1)
	require.Equal(t, beside.ID, bill.Overlaps()[0].ID)
	require.Equal(t, []string{first.ID}, bill.Overlaps()[0].Beside)
	require.Equal(t, 6, bill.Units)
	require.Len(t, bill.Keys, 5)
	require.Empty(t, bill.Keys[3].Calls[fakevendor.Submit])
	require.Equal(t, fakevendor.Key{Key: "c:1", Job: "c", Calls: map[fakevendor.Kind]int{fakevendor.Lookup: 1}}, bill.Keys[3])
	require.Equal(t, 2, bill.Count(fakevendor.Submit, "a:"))

	require.NoError(t, v.Finish(first.ID, fakevendor.Outcome{Status: fakevendor.Failed}))
	bill = v.Bill()
	require.Empty(t, bill.Duplicates(), "a failure bills nothing")
	require.Len(t, bill.Overlaps(), 1, "and money was at risk twice all the same")

	c.accepted("b:2", order("a fox", 1))
	require.NoError(t, v.Finish(beside.ID, fakevendor.Outcome{Status: fakevendor.Failed}))
	c.accepted("a:3", order("a fox", 1))
	require.Empty(t, v.Bill().Job("a")[2].Beside, "the earlier ones had ended")
}

func TestBooksSurvive(t *testing.T) {
	t.Parallel()
	r := receive(t)
	o := fakevendor.Options{Data: filepath.Join(t.TempDir(), "books"), PublicURL: "http://vendor.example", Price: 3, Work: fakevendor.Work{Hold: true}}
	v, err := fakevendor.New(o)
	require.NoError(t, err)
	c := newClient(t, v.URL())
	require.NoError(t, v.AddFaults(
		fakevendor.Fault{KeyPrefix: "failed:", Do: fakevendor.Answer, At: fakevendor.During, Status: 503, RetryAfter: 4},
		fakevendor.Fault{KeyPrefix: "lost:", Do: fakevendor.Answer, At: fakevendor.After},
		fakevendor.Fault{KeyPrefix: "own:", Work: &fakevendor.Work{}},
	))
	open := c.submit("open:1", order("a fox", 2))
	id := open.generation(t, http.StatusCreated).ID
	require.NoError(t, v.Progress(id, 20, 1))
	c.get(id)
	ended := c.accepted("ended:1", order("a fox", 2)).ID
	require.NoError(t, v.Finish(ended, fakevendor.Outcome{Status: fakevendor.Failed, Code: "refused"}))
	require.Equal(t, 503, c.submit("failed:1", order("a fox", 1)).status)
	require.Equal(t, 500, c.submit("lost:1", order("a fox", 1)).status)
	before := c.get(id).generation(t, http.StatusOK)
	bill := v.Bill()
	require.NoError(t, v.Close())

	v, c = start(t, o)
	require.Equal(t, bill, v.Bill())
	require.Equal(t, before, c.get(id).generation(t, http.StatusOK))
	require.Equal(t, open.body, c.submit("open:1", order("a fox", 2)).body)
	c.submit("open:1", order("a dog", 2)).refused(t, http.StatusUnprocessableEntity, "idempotency_key_reused")
	failed := c.submit("failed:1", order("a fox", 1))
	failed.refused(t, 503, "vendor_fault")
	require.Equal(t, "4", failed.header.Get("Retry-After"))
	require.Equal(t, 500, c.submit("lost:1", order("a fox", 1)).status)
	require.Len(t, c.lookup("lost:1").found(t), 1)
	require.Equal(t, "refused", c.get(ended).generation(t, http.StatusOK).Error.Code)
	require.NoError(t, v.Finish(id, fakevendor.Outcome{}))
	require.Equal(t, 2, v.Bill().Job("open")[0].Units)
	require.Empty(t, r.got)
}

// Work goes on, and an end that nobody heard of is told again.
func TestWorkSurvives(t *testing.T) {
	t.Parallel()
	r := receive(t, 500)
	o := fakevendor.Options{Data: filepath.Join(t.TempDir(), "books"), CallbackRetries: []time.Duration{}}
	v, err := fakevendor.New(o)
	require.NoError(t, err)
	require.NoError(t, v.AddFaults(
		fakevendor.Fault{KeyPrefix: "told:", Times: -1, Work: &fakevendor.Work{Callbacks: []fakevendor.Callback{{}}}},
		fakevendor.Fault{KeyPrefix: "working:", Work: &fakevendor.Work{Queue: fakevendor.Duration(time.Hour)}},
	))
	c := newClient(t, v.URL())
	untold := c.accepted("told:1", r.order(1)).ID
	r.hear("succeeded") // and refused it
	c.accepted("told:2", r.order(1))
	r.hear("succeeded") // and received it
	require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "told:2", 1))
	working := c.accepted("working:1", r.order(1)).ID
	require.NoError(t, v.Close())

	v = fakevendor.Start(t, o)
	require.Equal(t, untold, r.hear("succeeded")[0].data.ID)
	require.NoError(t, v.Wait(soon(t), fakevendor.CallbackReceived, "told:1", 1))
	require.NoError(t, v.Finish(working, fakevendor.Outcome{}))
	require.Equal(t, working, r.hear("succeeded")[0].data.ID)
}

func TestBooksAfterACrash(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "books")
	v, err := fakevendor.New(fakevendor.Options{Data: name, Work: fakevendor.Work{Hold: true}})
	require.NoError(t, err)
	c := newClient(t, v.URL())
	c.accepted("job:1", order("a fox", 1))
	require.NoError(t, v.Close())
	whole, err := os.ReadFile(name)
	require.NoError(t, err)

	// A line that was being written never took effect.
	require.NoError(t, os.WriteFile(name, append(whole, `{"event":"accepted","gener`...), 0o600))
	v, err = fakevendor.New(fakevendor.Options{Data: name})
	require.NoError(t, err)
	require.Len(t, v.Bill().Rows, 1)
	newClient(t, v.URL()).accepted("job:2", order("a fox", 1))
	require.NoError(t, v.Close())
	v, err = fakevendor.New(fakevendor.Options{Data: name})
	require.NoError(t, err)
	require.Len(t, v.Bill().Rows, 2)
	require.NoError(t, v.Close())

	// Any other line must be right.
	require.NoError(t, os.WriteFile(name, append([]byte("nonsense\n"), whole...), 0o600))
	_, err = fakevendor.New(fakevendor.Options{Data: name})
	require.ErrorContains(t, err, "line 1")
	_, err = fakevendor.New(fakevendor.Options{Data: t.TempDir()})
	require.ErrorContains(t, err, "open the books")
	_, err = fakevendor.New(fakevendor.Options{Data: os.DevNull})
	require.ErrorContains(t, err, "not a regular file")
}
