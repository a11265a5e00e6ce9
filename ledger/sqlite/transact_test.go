package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var bg = context.Background()

func openJob(id, key string, cost int64) ledger.OpenJob {
	return ledger.OpenJob{AccountName: shared, ID: id, Key: key, Type: "image", Cost: cost, Units: 1, MaxAttempts: 2,
		Input: json.RawMessage(`{"prompt":"a ‹cat› & \"dog\""}`), Metadata: json.RawMessage(`{"order":7}`)}
}

func grant(t *testing.T, l *ledger.Ledger, amount int64) {
	t.Helper()
	_, err := l.Grant(bg, ledger.GrantCredits{AccountName: shared, Amount: amount, Reason: "bought", Source: "purchase", Key: "g"})
	require.NoError(t, err)
}

// TestLifeOfAJob: what the commands decided is what is read afterwards, by the next command
// and by the reads, in each state of a job.
func TestLifeOfAJob(t *testing.T) {
	s := open(t)
	l := ledger.Direct(s)
	grant(t, l, 100)
	same := func(j ledger.Job) {
		t.Helper()
		read, err := s.Job(bg, "t", j.ID)
		require.NoError(t, err)
		require.Equal(t, j, read)
	}
	opened, err := l.Open(bg, openJob("", "k", 30))
	require.NoError(t, err)
	same(opened.Job)
	again, err := l.Open(bg, openJob("", "k", 30))
	require.NoError(t, err)
	require.Equal(t, opened.Job, again.Job)
	_, err = l.Open(bg, openJob("", "k", 31))
	require.ErrorIs(t, err, ledger.ErrKeyReused)

	id := opened.Job.ID
	started, err := l.Start(bg, ledger.StartJob{JobID: id, Token: "t1", Worker: "w"})
	require.NoError(t, err)
	same(started.Job)
	yielded, err := l.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1", After: time.Second,
		Error: &ledger.JobError{Code: "busy", Message: "come back"}})
	require.NoError(t, err)
	same(yielded.Job)
	replay, err := l.Yield(bg, ledger.YieldJob{JobID: id, Token: "t1"})
	require.NoError(t, err)
	require.True(t, replay.Replayed)

	_, err = l.Start(bg, ledger.StartJob{JobID: id, Token: "t2", Worker: "w"})
	require.NoError(t, err)
	words := "done"
	completed, err := l.Complete(bg, ledger.CompleteJob{JobID: id, Token: "t2", Actual: 20, Delivered: 1, Result: ledger.Result{
		Artifacts: []ledger.Artifact{{Key: "x/1.png", Bytes: 3}}, Text: &words, Usage: map[string]int64{"tokens": 5}}})
	require.NoError(t, err)
	same(completed.Job)

	attempts, err := s.Attempts(bg, id)
	require.NoError(t, err)
	require.Len(t, attempts, 2)
	require.Equal(t, ledger.AttemptYielded, attempts[0].Outcome)
	require.Equal(t, "busy", attempts[0].Error.Code)
	_, err = l.CreditJob(bg, ledger.AdjustCredits{AccountName: shared, Amount: 15, AboutJob: id, Reason: "blurred", Actor: "ann"})
	require.NoError(t, err)
	_, err = l.CreditJob(bg, ledger.AdjustCredits{AccountName: shared, Amount: 6, AboutJob: id, Reason: "blurred", Actor: "ann"})
	require.ErrorIs(t, err, ledger.ErrInvalid, "15 of 20 came back already")

	entries, err := s.JobEntries(bg, id)
	require.NoError(t, err)
	var kinds []string
	for _, e := range entries {
		kinds = append(kinds, fmt.Sprintf("%s %d → %d", e.Kind, e.Delta, e.BalanceAfter))
	}
	require.Equal(t, []string{"deduct -30 → 70", "task_started 0 → 0", "task_completed 0 → 0", "settle 10 → 80", "adjust 15 → 95"}, kinds)
	workers, err := s.Workers(bg)
	require.NoError(t, err)
	require.Len(t, workers, 1)
}

// TestRefundKeepsEvidence: the sweep's way to end a job, and a job that was only queued.
func TestRefundKeepsEvidence(t *testing.T) {
	s := open(t)
	l := ledger.Direct(s)
	grant(t, l, 100)
	opened, err := l.Open(bg, openJob("", "", 30))
	require.NoError(t, err)
	swept, err := l.Sweep(bg, ledger.SweepJob{JobID: opened.Job.ID, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
		return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndOrphaned, Evidence: []byte(`{"seen":1}`)}
	}})
	require.NoError(t, err)
	read, err := s.Job(bg, "t", opened.Job.ID)
	require.NoError(t, err)
	require.Equal(t, swept.Job, read)
	entries, err := s.JobEntries(bg, read.ID)
	require.NoError(t, err)
	require.JSONEq(t, `{"seen":1}`, string(entries[1].Evidence))
	balance, err := s.Balance(bg, shared)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: 100}, balance)
}

// TestNewAndEndedInOneBatch: such a job never was among the open ones; one that was touched
// before it ended is no longer.
func TestNewAndEndedInOneBatch(t *testing.T) {
	s := open(t)
	grant(t, ledger.Direct(s), 100)
	opened, err := ledger.Direct(s).Open(bg, openJob("", "", 1))
	require.NoError(t, err)
	now := time.UnixMicro(5).UTC()
	end := &ledger.EndState{State: ledger.StateFailed, Reason: ledger.EndCancelled, EndedAt: now}
	brief := opened.Job
	brief.ID, brief.CreatedAt, brief.Open, brief.End = ledger.NewID(), now, nil, end
	touched := opened.Job
	touched.Open, touched.End = nil, end
	require.NoError(t, s.Transact(bg, &ledger.Names{Jobs: []string{touched.ID}}, func(b *ledger.Book) error {
		c := b.Changes()
		c.Jobs = append(c.Jobs, &brief)
		c.Touched[brief.ID], c.Touched[touched.ID] = &brief, &touched
		c.Ended = append(c.Ended, &brief, &touched)
		return nil
	}))
	for _, j := range []ledger.Job{brief, touched} {
		read, err := s.Job(bg, "t", j.ID)
		require.NoError(t, err)
		require.Equal(t, j, read)
	}
	left, err := s.OpenJobs(bg, "", 10)
	require.NoError(t, err)
	require.Empty(t, left)

	// Ended once more, the row to remove is missing: a fault, not a silent nothing.
	err = s.Transact(bg, &ledger.Names{}, func(b *ledger.Book) error {
		b.Changes().Ended = append(b.Changes().Ended, &touched)
		return nil
	})
	require.ErrorIs(t, err, errMissingRow)
	require.Equal(t, ledger.FateRejected, fate(t, err))
}

// TestNothingIsWritten: a decision that fails, panics, or is refused by the schema leaves the
// books as they were and the store ready for the next.
func TestNothingIsWritten(t *testing.T) {
	s := open(t)
	refused := errors.New("refused")
	add := func(b *ledger.Book, e ledger.Entry) {
		b.Changes().Accounts = append(b.Changes().Accounts, &ledger.Account{ID: "A", Tenant: "t", Name: "x", Status: "active", CreatedAt: b.Now()})
		e.ID, e.AccountID, e.JobID, e.Kind, e.CreatedAt = "e", "A", "g", ledger.KindGrant, b.Now()
		b.Changes().Entries = append(b.Changes().Entries, e)
	}
	err := s.Transact(bg, &ledger.Names{}, func(b *ledger.Book) error {
		add(b, ledger.Entry{Seq: 1, Delta: 1, BalanceAfter: 1})
		return refused
	})
	require.Equal(t, refused, err)
	require.PanicsWithValue(t, "fault", func() {
		_ = s.Transact(bg, &ledger.Names{}, func(b *ledger.Book) error {
			add(b, ledger.Entry{Seq: 1, Delta: 1, BalanceAfter: 1})
			panic("fault")
		})
	})
	err = s.Transact(bg, &ledger.Names{}, func(b *ledger.Book) error {
		add(b, ledger.Entry{Seq: 1, Delta: 1, BalanceAfter: 2})
		return nil
	})
	require.Equal(t, ledger.FateRejected, fate(t, err))
	accounts, err := s.Accounts(bg, "t", ledger.Page{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, accounts)
	grant(t, ledger.Direct(s), 5)
}

// TestDiskFull: nothing is written, the text says why, and with space it goes on.
func TestDiskFull(t *testing.T) {
	s := open(t)
	l := ledger.Direct(s)
	grant(t, l, 1000)
	setMax := func(pages int) {
		_, err := s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages))
		require.NoError(t, err)
	}
	setMax(1)
	big := openJob("", "big", 1)
	big.Input = json.RawMessage(`"` + strings.Repeat("x", 60_000) + `"`)
	_, err := l.Open(bg, big)
	require.ErrorContains(t, err, "the disk that holds the ledger is full")
	require.Equal(t, ledger.FateUnreached, fate(t, err))
	setMax(1 << 30)
	opened, err := l.Open(bg, big)
	require.NoError(t, err)
	require.False(t, opened.Replayed)
}

// TestClock: an injected clock times decisions and reads, in UTC and microseconds.
func TestClock(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 678_901_234, time.FixedZone("x", 3600))
	s, err := Open(bg, t.TempDir()+"/l.db", Options{Migrate: true, Clock: func() time.Time { return at }})
	require.NoError(t, err)
	defer s.Close()
	want := at.UTC().Truncate(time.Microsecond)
	now, err := s.Now(bg)
	require.NoError(t, err)
	require.Equal(t, want, now)
	require.NoError(t, s.Transact(bg, &ledger.Names{}, func(b *ledger.Book) error {
		require.Equal(t, want, b.Now())
		return nil
	}))
}

// TestLoadsProbe: what a transaction loads costs the rows named, never the size of a table.
func TestLoadsProbe(t *testing.T) {
	s := open(t)
	for _, query := range loads {
		rows, err := s.read.Query("EXPLAIN QUERY PLAN "+query, `["x"]`)
		require.NoError(t, err)
		for rows.Next() {
			var id, parent, unused int
			var step string
			require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
			if strings.HasPrefix(step, "SCAN") {
				require.Contains(t, step, "json_each", query)
			}
		}
		require.NoError(t, rows.Close())
	}
}

// TestBookkeeping: leases and progress share the one writer with transactions.
func TestBookkeeping(t *testing.T) {
	s := open(t)
	l := ledger.New(s, ledger.Options{Lanes: 1})
	defer l.Close()
	grant(t, l, 100)
	opened, err := l.Open(bg, openJob("", "", 1))
	require.NoError(t, err)
	_, err = l.RenewWorker(bg, ledger.WorkerLease{ID: "w", Host: "h", PID: 1}, time.Hour)
	require.NoError(t, err)
	started, err := l.Start(bg, ledger.StartJob{JobID: opened.Job.ID, Token: "t1", Worker: "w"})
	require.NoError(t, err)
	require.NoError(t, l.SaveProgress(bg, opened.Job.ID, "t1", 40, "drawing"))
	j, err := s.Job(bg, "t", opened.Job.ID)
	require.NoError(t, err)
	require.Equal(t, 40, j.Open.Percent)
	require.True(t, j.Open.WorkerAliveUntil.After(started.Job.Open.WorkerAliveUntil), "a start does not shorten a lease")
}
