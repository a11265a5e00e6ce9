package reconciler

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// ago is a moment before noon, the time of decision in these tests.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

var policy = Policy{OrphanThreshold: 5 * time.Minute, MaxQueueOutage: 30 * time.Minute, AttemptGrace: 30 * time.Second, MaxUnknown: 24 * time.Hour, MaxStarts: 20}

type change func(*Policy, *ledger.Job)

func opened(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.CreatedAt, j.Open.QueuedAt = ago(d), ago(d) }
}
func enqueued(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.Open.EnqueuedAt = ago(d) }
}
func seen(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.Open.SeenAt = ago(d) }
}
func refused(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.Open.RefusedAt = ago(d) }
}
func runAfter(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.Open.RunAfter = noon.Add(d) }
}
func waitUntil(d time.Duration) change {
	return func(_ *Policy, j *ledger.Job) { j.WaitUntil = noon.Add(d) }
}
func cancelled(_ *Policy, j *ledger.Job) { j.Open.CancelAt = ago(time.Second) }
func used(attempts, lost int) change {
	return func(_ *Policy, j *ledger.Job) { j.Open.Attempts, j.Open.Starts, j.Open.Lost = attempts, lost, lost }
}

// running says when the attempt began, when its deadline is or was, when its worker last
// renewed (0: it has no row) and how long its lease holds.
func running(started, deadline, renewed, alive time.Duration) change {
	return func(_ *Policy, j *ledger.Job) {
		o := j.Open
		o.State, o.Token, o.Worker = ledger.StateRunning, "t", "w"
		o.StartedAt, o.Deadline = ago(started), noon.Add(deadline)
		if renewed > 0 {
			o.WorkerRenewedAt, o.WorkerAliveUntil = ago(renewed), noon.Add(alive)
		}
	}
}

// reached is a relay at work since then that reaches the queue; out one that does not.
func reached(since time.Duration) change {
	return func(p *Policy, _ *ledger.Job) { p.Queue = QueueHealth{ReachedFrom: ago(since)} }
}
func out(since time.Duration) change {
	return func(p *Policy, _ *ledger.Job) { p.Queue = QueueHealth{OutSince: ago(since)} }
}

func subject(changes ...change) (Policy, ledger.Job) {
	p := policy
	j := ledger.Job{ID: "j", MaxAttempts: 3, CreatedAt: ago(time.Hour), Open: &ledger.OpenState{Held: 5,
		State: ledger.StateQueued, Epoch: 1, QueuedAt: ago(time.Hour)}}
	for _, c := range changes {
		c(&p, &j)
	}
	return p, j
}

const (
	second = time.Second
	minute = time.Minute
)

func TestPolicy(t *testing.T) {
	t.Parallel()
	dead := running(10*minute, 5*minute, 6*minute, -5*minute)
	live := running(10*minute, 5*minute, 1*second, 9*second)
	for _, c := range []struct {
		name   string
		with   []change
		action ledger.SweepAction
		reason ledger.EndReason
	}{
		{"cancelled, queued", []change{cancelled, opened(second)}, ledger.SweepFail, ledger.EndCancelled},
		{"cancelled, its worker dead, attempts left", []change{cancelled, used(1, 1), dead}, ledger.SweepFail, ledger.EndCancelled},
		{"cancelled, worker without a row", []change{cancelled, used(1, 1), running(second, minute, 0, 0)}, ledger.SweepFail, ledger.EndCancelled},
		{"cancelled, worker live", []change{cancelled, used(1, 1), live}, ledger.SweepWait, WaitRunning},
		{"cancelled before max_wait in the table", []change{cancelled, waitUntil(-second)}, ledger.SweepFail, ledger.EndCancelled},

		{"queued past max_wait", []change{waitUntil(-second), opened(second)}, ledger.SweepFail, ledger.EndMaxWait},
		{"queued past max_wait, just seen", []change{waitUntil(-second), seen(0)}, ledger.SweepFail, ledger.EndMaxWait},
		{"queued past max_wait, waiting for run_after", []change{waitUntil(-second), runAfter(minute)}, ledger.SweepFail, ledger.EndMaxWait},
		{"queued at max_wait", []change{waitUntil(0), seen(0)}, ledger.SweepWait, WaitRecent},
		{"running past max_wait", []change{waitUntil(-second), used(1, 1), live}, ledger.SweepWait, WaitRunning},

		{"queued, attempts used up", []change{used(3, 3), opened(0)}, ledger.SweepFail, ledger.EndExhausted},
		{"queued, starts used up", []change{used(0, 20), opened(0)}, ledger.SweepFail, ledger.EndExhausted},
		{"queued, one of each left", []change{used(2, 19), opened(0)}, ledger.SweepWait, WaitRecent},
		{"queued, used up, just seen, run_after", []change{used(3, 3), seen(0), runAfter(minute)}, ledger.SweepFail, ledger.EndExhausted},

		{"orphan: last attempt's worker dead", []change{used(3, 3), dead}, ledger.SweepRefund, ledger.EndOrphaned},
		{"orphan: last attempt's worker has no row", []change{used(3, 3), running(6*minute, minute, 0, 0)}, ledger.SweepRefund, ledger.EndOrphaned},
		{"the same, started within the threshold", []change{used(3, 3), running(5*minute, minute, 0, 0)}, ledger.SweepWait, WaitRunning},
		{"dead for just the threshold", []change{used(3, 3), running(10*minute, minute, 5*minute, -4*minute)}, ledger.SweepWait, WaitRunning},
		{"past its deadline, worker dead a moment ago", []change{used(3, 3), running(10*minute, -minute, minute, -50*second)}, ledger.SweepWait, WaitRunning},
		{"orphan with starts used up too", []change{used(3, 20), dead}, ledger.SweepRefund, ledger.EndOrphaned},
		{"long lease: silent, but alive", []change{used(3, 3), running(10*minute, 5*minute, 6*minute, second)}, ledger.SweepWait, WaitRunning},
		{"orphan whatever the queue says", []change{used(3, 3), dead, out(second)}, ledger.SweepRefund, ledger.EndOrphaned},

		{"worker dead, attempts left", []change{used(2, 2), dead}, ledger.SweepWait, WaitWatcher},
		{"worker dead, attempts left, starts used up", []change{used(2, 20), dead}, ledger.SweepWait, WaitWatcher},
		{"past the deadline, attempts left", []change{used(2, 2), running(10*minute, -second, second, 9*second)}, ledger.SweepWait, WaitWatcher},

		{"live past deadline and grace, used up", []change{used(3, 3), running(10*minute, -31*second, second, 9*second)}, ledger.SweepFail, ledger.EndExhausted},
		{"live past deadline, at the grace, used up", []change{used(3, 3), running(10*minute, -30*second, second, 9*second)}, ledger.SweepWait, WaitRunning},
		{"live before its deadline, used up", []change{used(3, 3), live}, ledger.SweepWait, WaitRunning},
		{"live, starts used up", []change{used(1, 20), live}, ledger.SweepWait, WaitRunning},

		{"run_after to come, refused", []change{runAfter(second), refused(minute), reached(2 * minute)}, ledger.SweepWait, WaitRunAfter},
		{"run_after to come, queue out", []change{runAfter(second), out(time.Hour)}, ledger.SweepWait, WaitRunAfter},
		{"run_after come a moment ago, refused since", []change{runAfter(-minute), refused(second), reached(2 * minute)}, ledger.SweepWait, WaitRecent},
		{"run_after long ago, refused since", []change{runAfter(-6 * minute), refused(second), reached(2 * minute)}, ledger.SweepRefund, ledger.EndOrphaned},

		{"orphan: refused", []change{refused(minute), reached(2 * minute)}, ledger.SweepRefund, ledger.EndOrphaned},
		{"orphan: refused as the relay started", []change{refused(minute), reached(minute)}, ledger.SweepRefund, ledger.EndOrphaned},
		{"refused before the relay started", []change{refused(2 * minute), reached(minute)}, ledger.SweepWait, WaitUnproven},
		{"never tried", []change{reached(2 * time.Hour)}, ledger.SweepWait, WaitUnproven},
		{"refused before it was requeued", []change{opened(6 * minute), refused(7 * minute), reached(time.Hour)}, ledger.SweepWait, WaitUnproven},
		{"refused before it was seen", []change{seen(6 * minute), refused(7 * minute), reached(time.Hour)}, ledger.SweepWait, WaitUnproven},
		{"refused, relays gone", []change{refused(minute)}, ledger.SweepWait, WaitUnproven},
		{"refused, queue out now", []change{refused(minute), out(30 * second)}, ledger.SweepWait, WaitUnproven},
		{"refused, opened just the threshold ago", []change{opened(5 * minute), refused(minute), reached(time.Hour)}, ledger.SweepWait, WaitRecent},
		{"refused, enqueued within the threshold", []change{enqueued(4 * minute), refused(minute), reached(time.Hour)}, ledger.SweepWait, WaitRecent},
		{"refused, seen within the threshold", []change{seen(4 * minute), refused(minute), reached(time.Hour)}, ledger.SweepWait, WaitRecent},

		{"orphan: queue out", []change{out(30 * minute)}, ledger.SweepRefund, ledger.EndOrphaned},
		{"queue out not long enough", []change{out(30*minute - second)}, ledger.SweepWait, WaitUnproven},
		{"queue out, job heard of within the outage limit", []change{opened(30 * minute), out(time.Hour)}, ledger.SweepWait, WaitUnproven},
		{"queue out, run_after within the outage limit", []change{runAfter(-29 * minute), out(time.Hour)}, ledger.SweepWait, WaitUnproven},
		{"no relay at work", nil, ledger.SweepWait, WaitUnproven},
		{"just opened", []change{opened(0)}, ledger.SweepWait, WaitRecent},
		{"running", []change{used(1, 1), live}, ledger.SweepWait, WaitRunning},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, j := subject(c.with...)
			d := p.Decide(j, noon)
			require.Equal(t, c.action, d.Action)
			require.Equal(t, c.reason, d.Reason)
			require.True(t, json.Valid(d.Evidence))
		})
	}
}

func TestEndedJobIsLeft(t *testing.T) {
	t.Parallel()
	d := policy.Decide(ledger.Job{End: &ledger.EndState{}}, noon)
	require.Equal(t, ledger.SweepDecision{Action: ledger.SweepWait, Reason: ledger.SweepEnded}, d)
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		want string
		with []change
	}{
		{`{"last_sign_of_life":"2026-03-01T11:00:00.000Z","sign":"deduct","threshold":"5m","attempt":0,"epoch":1,"queue":"unknown","vendor":"no_reference"}`, nil},
		{`{"last_sign_of_life":"2026-03-01T11:50:00.000Z","sign":"enqueue","threshold":"5m","attempt":0,"epoch":1,"queue":"refused","vendor":"no_reference"}`,
			[]change{enqueued(10 * minute), refused(minute), reached(time.Hour)}},
		{`{"last_sign_of_life":"2026-03-01T11:51:00.000Z","sign":"sighting","threshold":"30m","attempt":0,"epoch":1,"queue":"unreachable","vendor":"no_reference"}`,
			[]change{enqueued(10 * minute), seen(9 * minute), out(time.Hour)}},
		{`{"last_sign_of_life":"2026-03-01T11:00:00.000Z","sign":"requeued","threshold":"5m","attempt":1,"epoch":1,"queue":"reached","vendor":"no_reference"}`,
			[]change{used(1, 1), reached(time.Hour)}},
		{`{"last_sign_of_life":"2026-03-01T11:54:00.000Z","sign":"lease","threshold":"5m","attempt":3,"epoch":1,"queue":"unknown","vendor":"no_reference"}`,
			[]change{used(3, 3), running(10*minute, minute, 6*minute, -minute)}},
		{`{"last_sign_of_life":"2026-03-01T11:50:00.000Z","sign":"start","threshold":"5m","attempt":3,"epoch":1,"queue":"unknown","vendor":"no_reference"}`,
			[]change{used(3, 3), running(10*minute, minute, 0, 0)}},
	} {
		p, j := subject(c.with...)
		require.Equal(t, c.want, string(p.Decide(j, noon).Evidence))
	}
}

func TestDurationText(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{5 * minute: "5m", 90 * second: "1m30s", time.Hour: "1h", 10 * second: "10s",
		time.Hour + second: "1h0m1s", 0: "0s", 10 * minute: "10m", 90 * minute: "1h30m", 20 * time.Hour: "20h"} {
		require.Equal(t, want, durationText(d))
	}
}

func TestHealthOf(t *testing.T) {
	t.Parallel()
	relay := func(started, round, outSince time.Duration) ledger.RelayStatus {
		r := ledger.RelayStatus{StartedAt: ago(started), RoundAt: ago(round)}
		if outSince > 0 {
			r.OutageSince = ago(outSince)
		}
		return r
	}
	for name, c := range map[string]struct {
		relays []ledger.RelayStatus
		want   QueueHealth
	}{
		"none":               {nil, QueueHealth{}},
		"stale":              {[]ledger.RelayStatus{relay(time.Hour, 11*second, 0), relay(time.Hour, 11*second, 40*minute)}, QueueHealth{}},
		"fresh":              {[]ledger.RelayStatus{relay(time.Hour, 10*second, 0)}, QueueHealth{ReachedFrom: ago(time.Hour)}},
		"the longest at it":  {[]ledger.RelayStatus{relay(minute, 0, 0), relay(time.Hour, 0, 0)}, QueueHealth{ReachedFrom: ago(time.Hour)}},
		"out for all":        {[]ledger.RelayStatus{relay(time.Hour, 0, 40*minute), relay(time.Hour, 0, 20*minute)}, QueueHealth{OutSince: ago(20 * minute)}},
		"out for one":        {[]ledger.RelayStatus{relay(time.Hour, 0, 40*minute), relay(minute, 0, 0)}, QueueHealth{ReachedFrom: ago(minute)}},
		"out, another stale": {[]ledger.RelayStatus{relay(time.Hour, 0, 40*minute), relay(time.Hour, minute, 0)}, QueueHealth{OutSince: ago(40 * minute)}},
	} {
		require.Equal(t, c.want, HealthOf(c.relays, noon), name)
	}
}

// TestSignsOfLifeNeverDeferADeadline adds every sign of life there is to jobs that a deadline
// ends: they end all the same. And the other way round: a sign of life never makes a job end
// that would have been left, and no orphan is heard of.
func TestSignsOfLifeNeverDeferADeadline(t *testing.T) {
	t.Parallel()
	const draws = 50_000
	ended := map[ledger.EndReason]int{}
	for seed := range uint64(draws) {
		d := draw{rand.New(rand.NewPCG(seed, 1))}
		p, j := d.subject()
		before := p.Decide(j, noon)
		ended[before.Reason]++
		lively, o := j, *j.Open
		o.SeenAt, o.EnqueuedAt = noon, noon
		lively.Open = &o
		after := p.Decide(lively, noon)
		if before.Action == ledger.SweepFail {
			require.Equal(t, before.Reason, after.Reason, "seed %d", seed)
			require.Equal(t, before.Action, after.Action, "seed %d", seed)
		}
		if before.Action == ledger.SweepWait {
			require.Equal(t, ledger.SweepWait, after.Action, "seed %d", seed)
		}
		if o.State == ledger.StateQueued {
			require.NotEqual(t, ledger.EndOrphaned, after.Reason, "seed %d", seed)
		}
	}
	for _, reason := range []ledger.EndReason{ledger.EndCancelled, ledger.EndMaxWait, ledger.EndExhausted, ledger.EndOrphaned,
		WaitWatcher, WaitRunAfter, WaitRunning, WaitUnproven, WaitRecent} {
		require.Greater(t, ended[reason], 20, "the draws reach %s", reason)
	}
}

// draw makes jobs at random, the same for the same seed.
type draw struct{ *rand.Rand }

func (d draw) at() time.Time { return noon.Add(time.Duration(d.IntN(3660)-3600) * second) }

func (d draw) maybe() time.Time {
	if d.IntN(3) > 0 {
		return time.Time{}
	}
	return d.at()
}

func (d draw) subject() (Policy, ledger.Job) {
	p := policy
	p.Queue = HealthOf([]ledger.RelayStatus{{StartedAt: d.at(), RoundAt: noon, OutageSince: d.maybe()}}, noon)
	j := ledger.Job{ID: "j", MaxAttempts: 1 + d.IntN(3), WaitUntil: d.maybe(), Open: &ledger.OpenState{
		State: ledger.StateQueued, QueuedAt: d.at(), RunAfter: d.maybe(), EnqueuedAt: d.maybe(), SeenAt: d.maybe(),
		RefusedAt: d.maybe(), CancelAt: d.maybe(), Attempts: d.IntN(4), Starts: d.IntN(22), Lost: d.IntN(22)}}
	if d.IntN(2) == 0 {
		o := j.Open
		o.State, o.StartedAt, o.Deadline, o.WorkerRenewedAt = ledger.StateRunning, d.at(), d.at(), d.maybe()
		if d.IntN(2) == 0 {
			o.WorkerRenewedAt = noon.Add(-second)
		}
		if !o.WorkerRenewedAt.IsZero() {
			o.WorkerAliveUntil = o.WorkerRenewedAt.Add(10 * second)
		}
	}
	return p, j
}

// TestAWaitNeverMovesMoney: whatever the table leaves, the ledger leaves.
func TestAWaitNeverMovesMoney(t *testing.T) {
	onBoth(t, func(t *testing.T, w *world) {
		w.grant(alice, 100)
		job := w.open(alice, 8)
		before := w.count("SELECT count(*) FROM credit_transactions")
		for _, r := range rules {
			if r.action != ledger.SweepWait {
				continue
			}
			s, err := w.ledger.Sweep(w.ctx, ledger.SweepJob{JobID: job, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
				return ledger.SweepDecision{Action: r.action, Reason: r.reason}
			}})
			require.NoError(t, err)
			require.NotNil(t, s.Job.Open, r.name)
		}
		require.EqualValues(t, 92, w.available(alice))
		require.Equal(t, before, w.count("SELECT count(*) FROM credit_transactions"))
	})
}
