package fakevendor_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

func TestOutcomes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		outcome   fakevendor.Outcome
		status    fakevendor.Status
		delivered int
		err       *fakevendor.Error
	}{
		"succeeded": {status: fakevendor.Succeeded, delivered: 4},
		"partial":   {outcome: fakevendor.Outcome{Delivered: 3}, status: fakevendor.Succeeded, delivered: 3},
		"too many":  {outcome: fakevendor.Outcome{Delivered: 9}, status: fakevendor.Succeeded, delivered: 4},
		"failed for good": {
			outcome: fakevendor.Outcome{Status: fakevendor.Failed, Code: "refused", Message: "no foxes"},
			status:  fakevendor.Failed, err: &fakevendor.Error{Code: "refused", Message: "no foxes"},
		},
		"failed for now": {
			outcome: fakevendor.Outcome{Status: fakevendor.Failed, Transient: true},
			status:  fakevendor.Failed, err: &fakevendor.Error{Code: "generation_failed", Transient: true},
		},
		"failed half-way": {
			outcome: fakevendor.Outcome{Status: fakevendor.Failed, Delivered: 1},
			status:  fakevendor.Failed, delivered: 1, err: &fakevendor.Error{Code: "generation_failed"},
		},
		"cancelled by the vendor": {outcome: fakevendor.Outcome{Status: fakevendor.Cancelled}, status: fakevendor.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, c := start(t, fakevendor.Options{Price: 7, Faults: []fakevendor.Fault{
				{Prompt: "fox", Work: &fakevendor.Work{Outcome: test.outcome}},
			}})
			id := c.accepted("job:1", order("a fox", 4)).ID
			require.NoError(t, v.Wait(soon(t), fakevendor.Ended, "job:1", 1))
			g := c.get(id).generation(t, http.StatusOK)
			require.Equal(t, test.status, g.Status)
			require.Len(t, g.Outputs, test.delivered)
			require.Equal(t, test.err, g.Error)
			require.EqualValues(t, 7*test.delivered, g.Cost)
			require.Equal(t, test.delivered, v.Bill().Rows[0].Units)
		})
	}
}

func TestWorkTakesItsTime(t *testing.T) {
	t.Parallel()
	const queue, duration = 30 * time.Millisecond, 50 * time.Millisecond
	v, c := start(t, fakevendor.Options{PollAfter: 1500 * time.Millisecond, Work: fakevendor.Work{
		Queue: fakevendor.Duration(queue), Duration: fakevendor.Duration(duration),
	}})
	r := c.submit("job:1", order("a fox", 1))
	require.Equal(t, "2", r.header.Get("Retry-After"), "the pace is rounded up to seconds")
	g := r.generation(t, http.StatusCreated)
	require.NoError(t, v.Wait(soon(t), fakevendor.Ended, "job:1", 1))

	took, err := v.Generation(g.ID)
	require.NoError(t, err)
	require.GreaterOrEqual(t, took.BeganAt.Sub(took.AcceptedAt), queue)
	require.GreaterOrEqual(t, took.EndedAt.Sub(took.AcceptedAt), queue+duration)
}

func TestProgressByTheClock(t *testing.T) {
	t.Parallel()
	v, c := start(t, fakevendor.Options{Work: fakevendor.Work{Duration: fakevendor.Duration(2 * time.Second)}})
	g := c.accepted("job:1", order("a fox", 1))
	last := 0
	require.Eventually(t, func() bool {
		now := c.get(g.ID).generation(t, http.StatusOK)
		require.GreaterOrEqual(t, now.Progress, last)
		last = now.Progress
		return last > 2
	}, patience, time.Millisecond)
	require.Less(t, last, 100)
	require.NoError(t, v.Finish(g.ID, fakevendor.Outcome{}), "a test need not wait for the clock")
}

func TestFinishAllEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	ended := c.accepted("a:1", order("a fox", 1))
	c.accepted("a:2", order("a fox", 1))
	c.accepted("b:1", order("a fox", 1))
	c.cancel(ended.ID)

	n, err := v.FinishAll("a:", fakevendor.Outcome{})
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, fakevendor.Queued, v.Generations("b:")[0].Status)
	require.ErrorIs(t, v.Finish("gen_none", fakevendor.Outcome{}), fakevendor.ErrUnknown)
	require.ErrorContains(t, v.Finish(v.Generations("b:")[0].ID, fakevendor.Outcome{Status: fakevendor.Queued}), "outcome")
}

func TestWaitTellsHowFarItCame(t *testing.T) {
	t.Parallel()
	v, c := start(t, held)
	g := c.accepted("job:1", order("a fox", 1))
	polled := make(chan error, 1)
	go func() { polled <- v.Wait(soon(t), fakevendor.Get, "job:", 3) }()
	for range 3 {
		c.get(g.ID)
	}
	require.NoError(t, await(t, polled))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := v.Wait(ctx, fakevendor.Get, "job:", 4)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, `3 of 4 times get for keys "job:"`)
}
