package ledgertest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var table = []scenario{
	{"EachCommandInEachStateTwice", eachCommandInEachState},
	{"WrongTokenInEachState", wrongTokenInEachState},
	{"OtherContentUnderTheSameIDInEachState", otherContentInEachState},
}

// states are the states of a job, and how it gets there: every attempt is called t1.
var states = []struct {
	name string
	path func(t *testing.T, w *world, id string)
}{
	{"queued", func(*testing.T, *world, string) {}},
	{"running", func(t *testing.T, w *world, id string) { w.begin(t, id, "t1") }},
	{"waiting", func(t *testing.T, w *world, id string) {
		w.begin(t, id, "t1")
		_, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1", After: time.Minute})
		require.NoError(t, err)
	}},
	{"cancel-requested", func(t *testing.T, w *world, id string) {
		w.begin(t, id, "t1")
		_, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
		require.NoError(t, err)
	}},
	{"completed", func(t *testing.T, w *world, id string) {
		w.begin(t, id, "t1")
		_, err := w.Complete(bg, complete(id, "t1"))
		require.NoError(t, err)
	}},
	{"failed", func(t *testing.T, w *world, id string) {
		w.begin(t, id, "t1")
		_, err := w.Fail(bg, ledger.FailJob{JobID: id, Token: "t1"})
		require.NoError(t, err)
	}},
	{"cancelled", func(t *testing.T, w *world, id string) {
		_, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
		require.NoError(t, err)
	}},
	{"refunded", func(t *testing.T, w *world, id string) {
		_, err := w.Sweep(bg, refund(id))
		require.NoError(t, err)
	}},
}

func complete(id, token string) ledger.CompleteJob {
	text := "a cat"
	return ledger.CompleteJob{JobID: id, Token: token, Actual: 7, Delivered: 1, Result: ledger.Result{Text: &text}}
}

func refund(id string) ledger.SweepJob {
	return ledger.SweepJob{JobID: id, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
		return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndOrphaned, Evidence: []byte(`{"attempt":1}`)}
	}}
}

// rows of the table: the answers in the order of states. An answer is an error's code, or
// what was answered and the job's state after it.
var rows = []struct {
	name string
	do   func(w *world, id, token string) (string, error)
	want string
}{
	{"open again", func(w *world, id, _ string) (string, error) {
		c := job(ada, 10)
		c.ID = id
		a, err := w.Open(bg, c)
		return answered("", &a.Job), err
	}, "queued running queued running completed failed failed refunded"},
	{"start", func(w *world, id, _ string) (string, error) {
		a, err := w.Start(bg, ledger.StartJob{JobID: id, Token: "t2", Worker: "w2"})
		return answered(string(a.Verdict)+a.Why, &a.Job), err
	}, "run:running droprunning:running run:running droprunning:running dropended:completed dropended:failed dropended:failed dropended:refunded"},
	{"start with the first token", func(w *world, id, token string) (string, error) {
		a, err := w.Start(bg, ledger.StartJob{JobID: id, Token: token, Worker: "w1"})
		return answered(string(a.Verdict)+a.Why, &a.Job), err
	}, "run:running run:running dropreplaced:queued run:running dropended:completed dropended:failed dropended:failed dropended:refunded"},
	{"yield", func(w *world, id, token string) (string, error) {
		a, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: token, After: time.Minute})
		return answered("", &a.Job), err
	}, "fenced queued queued failed already_settled failed already_settled already_settled"},
	{"give back", func(w *world, id, token string) (string, error) {
		a, err := w.Yield(bg, ledger.YieldJob{JobID: id, Token: token, GiveBack: true})
		return answered("", &a.Job), err
	}, "fenced queued queued failed already_settled failed already_settled already_settled"},
	{"complete", func(w *world, id, token string) (string, error) {
		a, err := w.Complete(bg, complete(id, token))
		return answered("", &a.Job), err
	}, "fenced completed completed completed completed already_settled already_settled already_settled"},
	{"fail", func(w *world, id, token string) (string, error) {
		a, err := w.Fail(bg, ledger.FailJob{JobID: id, Token: token})
		return answered("", &a.Job), err
	}, "fenced failed fenced failed already_settled failed already_settled already_settled"},
	{"cancel", func(w *world, id, _ string) (string, error) {
		a, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
		return answered("", &a.Job), err
	}, "failed running failed running already_settled already_settled failed already_settled"},
	{"sweep refund", func(w *world, id, _ string) (string, error) {
		a, err := w.Sweep(bg, refund(id))
		return answered("", &a.Job), err
	}, "refunded refunded refunded refunded completed failed failed refunded"},
	{"sweep wait", func(w *world, id, _ string) (string, error) {
		a, err := w.Sweep(bg, ledger.SweepJob{JobID: id, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
			return ledger.SweepDecision{Action: ledger.SweepWait, Reason: "recent"}
		}})
		return answered("", &a.Job), err
	}, "queued running queued running completed failed failed refunded"},
	{"put back, worker alive", func(w *world, id, token string) (string, error) {
		a, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: token, Renewed: w.clock.Now()})
		return answered("", &a.Job), err
	}, "queued running queued running completed failed failed refunded"},
	{"put back, worker dead", func(w *world, id, token string) (string, error) {
		renewed := w.clock.Now()
		w.clock.Advance(time.Minute)
		a, err := w.PutBack(bg, ledger.PutBackJob{JobID: id, Token: token, Renewed: renewed})
		return answered("", &a.Job), err
	}, "queued queued queued queued completed failed failed refunded"},
	{"sighted", func(w *world, id, _ string) (string, error) {
		a, err := w.Sight(bg, ledger.SightJob{JobID: id, Epoch: 1, Sign: ledger.SignEnqueued, Next: time.Minute})
		return answered("", &a.Job), err
	}, "queued running queued running completed failed failed refunded"},
	{"lost by the queue", func(w *world, id, _ string) (string, error) {
		a, err := w.Sight(bg, ledger.SightJob{JobID: id, Epoch: 1, Sign: ledger.SignLost})
		return answered("", &a.Job), err
	}, "queued running queued running completed failed failed refunded"},
}

func answered(what string, j *ledger.Job) string {
	if j.ID == "" {
		return ""
	}
	if what != "" {
		what += ":"
	}
	return what + string(j.State())
}

// prepare makes a job in a state.
func (w *world) prepare(t *testing.T, path func(*testing.T, *world, string)) string {
	t.Helper()
	id := w.submit(t, 10)
	path(t, w, id)
	return id
}

func (w *world) try(id, token string, do func(*world, string, string) (string, error)) string {
	text, err := do(w, id, token)
	if err != nil {
		return string(codeOf(err))
	}
	return text
}

// still asserts that nothing about the job changes while f runs.
func (w *world) still(t *testing.T, id, what string, f func()) {
	t.Helper()
	kinds, sum := w.kinds(t, id)
	before, balance := w.job(t, id), w.balance(t, ada)
	f()
	kindsAfter, sumAfter := w.kinds(t, id)
	require.Equal(t, kinds, kindsAfter, what)
	require.Equal(t, sum, sumAfter, what)
	require.Equal(t, balance, w.balance(t, ada), what)
	after := w.job(t, id)
	if before.Open != nil && after.Open != nil { // a sighting may repeat at another time
		after.Open.CheckAt, after.Open.EnqueuedAt = before.Open.CheckAt, before.Open.EnqueuedAt
		after.Open.WorkerAliveUntil, after.Open.WorkerRenewedAt = before.Open.WorkerAliveUntil, before.Open.WorkerRenewedAt
	}
	if before.Call != nil && after.Call != nil { // and so may a vendor's word
		after.Call.HeardAt, after.Call.CalledAt = before.Call.HeardAt, before.Call.CalledAt
	}
	require.Equal(t, before, after, what)
}

func eachCommandInEachState(t *testing.T, w *world) {
	w.fund(t, ada, 10_000)
	for _, row := range rows {
		want := strings.Fields(row.want)
		require.Len(t, want, len(states), row.name)
		for i, state := range states {
			what := row.name + " when " + state.name
			id := w.prepare(t, state.path)
			require.Equal(t, want[i], w.try(id, "t1", row.do), what)
			w.still(t, id, what+", again", func() {
				require.Equal(t, want[i], w.try(id, "t1", row.do), what+", again")
			})
			w.check(t, id)
		}
	}
	w.audit(t, ada)
}

// check compares a job with its entries: ended and charged means delivered or given back.
func (w *world) check(t *testing.T, id string) {
	t.Helper()
	j := w.job(t, id)
	kinds, sum := w.kinds(t, id)
	if j.End == nil {
		require.Equal(t, -j.Open.Held, sum)
		return
	}
	require.Equal(t, -j.End.Charged, sum, kinds)
	if j.End.State != ledger.StateCompleted {
		require.Zero(t, sum, kinds)
		require.Nil(t, j.End.Result)
	}
}

func wrongTokenInEachState(t *testing.T, w *world) {
	w.fund(t, ada, 10_000)
	for _, row := range rows {
		switch row.name {
		case "yield", "give back", "complete", "fail", "put back, worker dead":
		default:
			continue
		}
		for _, state := range states {
			what := row.name + " when " + state.name
			id := w.prepare(t, state.path)
			w.still(t, id, what, func() {
				got := w.try(id, "somebody-else", row.do)
				want := string(ledger.CodeFenced)
				switch {
				case strings.HasPrefix(row.name, "put back"):
					j := w.job(t, id)
					want = string(j.State())
				case w.job(t, id).End != nil:
					want = string(ledger.CodeSettled)
				}
				require.Equal(t, want, got, what)
			})
		}
	}
	w.audit(t, ada)
}

func otherContentInEachState(t *testing.T, w *world) {
	w.fund(t, ada, 10_000)
	w.fund(t, bob, 10_000)
	for _, state := range states {
		id := w.prepare(t, state.path)
		other := map[string]ledger.OpenJob{}
		for _, what := range []string{"cost", "input", "account", "type", "units"} {
			c := job(ada, 10)
			c.ID = id
			switch what {
			case "cost":
				c.Cost = 11
			case "input":
				c.Input = []byte(`{"prompt":"a dog"}`)
			case "account":
				c.AccountName = bob
			case "type":
				c.Type = "video"
			case "units":
				c.Units = 2
			}
			other[what] = c
		}
		for what, c := range other {
			w.still(t, id, what, func() {
				_, err := w.Open(bg, c)
				require.ErrorIs(t, err, ledger.ErrKeyReused, "%s when %s", what, state.name)
			})
		}
	}
	require.Equal(t, int64(10_000), w.balance(t, bob).Available)
}
