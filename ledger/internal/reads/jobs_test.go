package reads_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

func jobInEachState(t *testing.T, w *world) {
	a := w.account(t, ada)
	w.insert(t, "workers", row{"id": "w", "renewed_at": now, "alive_until": now.Add(time.Minute)})
	w.insert(t, "jobs", jobRow(a, "completed"), jobRow(a, "failed"), jobRow(a, "queued").with(row{"key": "k", "wait_until": now}),
		jobRow(a, "refunded"), jobRow(a, "running"))
	w.insert(t, "open_jobs", openRow(a, "queued"), runningRow(a, "running", "w", "t1"))
	w.insert(t, "ended_jobs",
		endedRow("completed", "completed").with(row{"token": "t1", "result": `{"artifacts": [{"key": "k"}]}`, "started_at": now}),
		endedRow("failed", "failed").with(row{"error": `{"code": "c", "message": "m"}`}),
		endedRow("refunded", "refunded").with(row{"evidence": `{"seen": 1}`}))
	job := func(state ledger.State) ledger.Job {
		j, err := w.Job(bg, "north", string(state))
		require.NoError(t, err)
		require.Equal(t, state, j.State())
		list, err := w.Jobs(bg, ledger.JobFilter{Tenant: "north", State: state}, ledger.Page{Limit: 9})
		require.NoError(t, err)
		require.Equal(t, []ledger.Job{j}, list)
		return j
	}
	asked := ledger.Job{ID: "queued", Key: "k", Tenant: "north", AccountID: a, Account: "ada", Type: "image", Cost: 5, Units: 2,
		Input: json.RawMessage(`{"a": 1}`), Metadata: json.RawMessage(`{}`), MaxAttempts: 3, WaitUntil: now, CreatedAt: now, Fingerprint: []byte("f")}
	asked.Open = &ledger.OpenState{Held: 5, State: ledger.StateQueued, Epoch: 1, Counted: true, N: 1, QueuedAt: now, CheckAt: now}
	require.Equal(t, asked, job(ledger.StateQueued))
	require.Equal(t, &ledger.OpenState{Held: 5, State: ledger.StateRunning, Epoch: 1, Attempts: 1, Starts: 1, Counted: true, N: 1, QueuedAt: now, CheckAt: now,
		Worker: "w", Token: "t1", FirstStartedAt: now, StartedAt: now, Deadline: now.Add(time.Minute), WorkerRenewedAt: now,
		WorkerAliveUntil: now.Add(time.Minute)}, job(ledger.StateRunning).Open)
	done := job(ledger.StateCompleted)
	require.Nil(t, done.Open)
	require.Equal(t, &ledger.EndState{State: ledger.StateCompleted, Reason: ledger.EndDelivered, Held: 5, Charged: 4, Attempts: 1, Starts: 2,
		Epoch: 1, N: 1, Token: "t1", Result: &ledger.Result{Artifacts: []ledger.Artifact{{Key: "k"}}}, StartedAt: now, EndedAt: now}, done.End)
	require.Equal(t, &ledger.JobError{Code: "c", Message: "m"}, job(ledger.StateFailed).End.Error)
	require.JSONEq(t, `{"seen": 1}`, string(job(ledger.StateRefunded).End.Evidence))
}

func jobsFiltered(t *testing.T, w *world) {
	a := w.account(t, ada)
	b := w.account(t, ledger.AccountName{Tenant: "north", Name: "bob"})
	w.insert(t, "jobs", jobRow(a, "1").with(row{"created_at": now.Add(-time.Hour)}), jobRow(b, "2"), jobRow(a, "3").with(row{"type": "clip"}),
		jobRow(a, "4"), jobRow(a, "5"))
	w.insert(t, "open_jobs", openRow(a, "4"), openRow(a, "5"), openRow(a, "3"))
	w.insert(t, "ended_jobs", endedRow("1", "completed"), endedRow("2", "completed"))
	find := func(f ledger.JobFilter, p ledger.Page) []string {
		f.Tenant = "north"
		jobs, err := w.Jobs(bg, f, p)
		require.NoError(t, err)
		return ids(jobs)
	}
	page := ledger.Page{Limit: 2}
	require.Equal(t, []string{"5", "4"}, find(ledger.JobFilter{}, page))
	page.AfterID = "4"
	require.Equal(t, []string{"3", "2"}, find(ledger.JobFilter{}, page))
	require.Equal(t, []string{"3"}, find(ledger.JobFilter{State: ledger.StateQueued}, page))
	page.AfterID = ""
	require.Equal(t, []string{"2"}, find(ledger.JobFilter{Account: "bob"}, page))
	require.Equal(t, []string{"3"}, find(ledger.JobFilter{Type: "clip"}, page))
	require.Equal(t, []string{"2"}, find(ledger.JobFilter{State: ledger.StateCompleted, Since: now}, page))
	_, err := w.Jobs(bg, ledger.JobFilter{Tenant: "north", Account: "nobody"}, page)
	require.ErrorIs(t, err, ledger.ErrNotFound)
}

// jobWithoutAccountRow: the machinery sees every open job, so that each one ends (I7).
func jobWithoutAccountRow(t *testing.T, w *world) {
	w.insert(t, "jobs", jobRow("north-gone", "j"))
	w.insert(t, "open_jobs", openRow("north-gone", "j"))
	for _, find := range []func() ([]ledger.Job, error){
		func() ([]ledger.Job, error) { return w.Due(bg, 9) },
		func() ([]ledger.Job, error) { return w.OpenJobs(bg, "", 9) },
	} {
		jobs, err := find()
		require.NoError(t, err)
		require.Equal(t, []string{"j"}, ids(jobs))
		require.Empty(t, jobs[0].Account)
	}
}

func attempts(t *testing.T, w *world) {
	over := row{"job_id": "j", "n": 2, "token": "t2", "epoch": 1, "worker": "w", "counted": w.flag(true), "outcome": "failed",
		"error": `{"code": "c", "message": "m"}`, "started_at": now, "ended_at": now}
	w.insert(t, "attempts", over, over.with(row{"n": 1, "token": "t1", "counted": w.flag(false), "outcome": "yielded", "error": nil, "run_after": now}))
	list, err := w.Attempts(bg, "j")
	require.NoError(t, err)
	require.Equal(t, []ledger.Attempt{
		{JobID: "j", N: 1, Token: "t1", Epoch: 1, Worker: "w", Outcome: ledger.AttemptYielded, RunAfter: now, StartedAt: now, EndedAt: now},
		{JobID: "j", N: 2, Token: "t2", Epoch: 1, Worker: "w", Counted: true, Outcome: ledger.AttemptFailed,
			Error: &ledger.JobError{Code: "c", Message: "m"}, StartedAt: now, EndedAt: now},
	}, list)
}

func due(t *testing.T, w *world) {
	a := w.account(t, ada)
	check := func(id string, in time.Duration) row { return openRow(a, id).with(row{"check_at": now.Add(in)}) }
	w.insert(t, "jobs", jobRow(a, "1"), jobRow(a, "2"), jobRow(a, "3"), jobRow(a, "4"), jobRow(a, "5"))
	w.insert(t, "open_jobs", check("1", 0), check("2", time.Microsecond), check("3", -time.Hour), check("4", -time.Minute),
		runningRow(a, "5", "w", "t").with(row{"check_at": now.Add(-2 * time.Hour)}))
	jobs, err := w.Due(bg, 9)
	require.NoError(t, err)
	require.Equal(t, []string{"3", "4", "1"}, ids(jobs))
	jobs, err = w.Due(bg, 1)
	require.NoError(t, err)
	require.Equal(t, []string{"3"}, ids(jobs))
	jobs, err = w.OpenJobs(bg, "2", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"3", "4"}, ids(jobs))
}

func leases(t *testing.T, w *world) {
	a := w.account(t, ada)
	w.insert(t, "jobs", jobRow(a, "1"), jobRow(a, "2"), jobRow(a, "3"))
	w.insert(t, "open_jobs", runningRow(a, "1", "w", "t1"), runningRow(a, "2", "w", "t2").with(row{"cancel_at": now}),
		runningRow(a, "3", "other", "t3").with(row{"cancel_at": now}))
	lease := ledger.WorkerLease{ID: "w", Host: "h", PID: 7}
	for range 2 {
		w.clock = w.clock.Add(time.Second)
		cancelled, err := w.RenewWorker(bg, lease, time.Minute)
		require.NoError(t, err)
		require.Equal(t, []string{"2"}, cancelled)
	}
	lease.RenewedAt, lease.AliveUntil = w.clock, w.clock.Add(time.Minute)
	list, err := w.Workers(bg)
	require.NoError(t, err)
	require.Equal(t, []ledger.WorkerLease{lease}, list)
	require.NoError(t, w.RemoveWorker(bg, "w"))
	list, err = w.Workers(bg)
	require.NoError(t, err)
	require.Empty(t, list)
}

func staleProgress(t *testing.T, w *world) {
	a := w.account(t, ada)
	w.insert(t, "jobs", jobRow(a, "j"))
	w.insert(t, "open_jobs", runningRow(a, "j", "w", "t2"))
	require.NoError(t, w.SaveProgress(bg, "j", "t2", 40, "drawing"))
	require.NoError(t, w.SaveProgress(bg, "j", "t1", 90, "late"))
	j, err := w.Job(bg, "north", "j")
	require.NoError(t, err)
	require.Equal(t, []any{40, "drawing"}, []any{j.Open.Percent, j.Open.Progress})
}

func relays(t *testing.T, w *world) {
	report := func(outage time.Time) ledger.RelayStatus {
		require.NoError(t, w.ReportRelay(bg, ledger.RelayStatus{ID: "r", OutageSince: outage}))
		list, err := w.Relays(bg)
		require.NoError(t, err)
		require.Len(t, list, 1)
		return list[0]
	}
	require.Equal(t, ledger.RelayStatus{ID: "r", StartedAt: now, RoundAt: now}, report(time.Time{}))
	w.clock = now.Add(time.Second)
	require.Equal(t, ledger.RelayStatus{ID: "r", StartedAt: now, RoundAt: w.clock, OutageSince: now}, report(now))
	require.Equal(t, ledger.RelayStatus{ID: "r", StartedAt: now, RoundAt: w.clock}, report(time.Time{}))
	require.NoError(t, w.RemoveRelay(bg, "r"))
	list, err := w.Relays(bg)
	require.NoError(t, err)
	require.Empty(t, list)
}

func sweeps(t *testing.T, w *world) {
	s := ledger.SweepReport{ID: "s", StartedAt: now, EndedAt: now, Seen: 1, Refunded: 1, Decisions: []byte("[]")}
	require.NoError(t, w.SaveSweep(bg, s))
	s.Seen = 2
	require.NoError(t, w.SaveSweep(bg, s))
	var rows, seen int
	require.NoError(t, w.sql.QueryRowContext(bg, "SELECT count(*), max(seen) FROM sweeps").Scan(&rows, &seen))
	require.Equal(t, []int{1, 1}, []int{rows, seen})
}

func forgetSweeps(t *testing.T, w *world) {
	for i := range 5 {
		at := now.Add(time.Duration(i) * time.Hour)
		for name, s := range map[string]ledger.SweepReport{"idle": {Seen: 9, Remaining: 9}, "refunded": {Refunded: 1}, "failed": {Errors: 1}} {
			s.ID, s.StartedAt, s.EndedAt, s.Decisions = fmt.Sprint(name, " ", i), at, at, []byte("[]")
			require.NoError(t, w.SaveSweep(bg, s))
		}
	}
	idle := func() (left string) {
		require.NoError(t, w.sql.QueryRowContext(bg, "SELECT min(id) FROM sweeps WHERE refunded = 0 AND errors = 0").Scan(&left))
		return left
	}
	require.NoError(t, w.ForgetSweeps(bg, now, 10))
	require.Equal(t, "idle 0", idle(), "one of that very time is not older")
	require.NoError(t, w.ForgetSweeps(bg, now.Add(4*time.Hour), 1))
	require.Equal(t, "idle 1", idle(), "the oldest first, and no more than that")
	require.NoError(t, w.ForgetSweeps(bg, now.Add(4*time.Hour), 10))
	require.Equal(t, "idle 4", idle())
	var rest int
	require.NoError(t, w.sql.QueryRowContext(bg, "SELECT count(*) FROM sweeps WHERE refunded + errors > 0").Scan(&rest))
	require.Equal(t, 10, rest, "what decided something is kept for ever")
}
