package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/ledger"
)

// write writes a Book's changes, and commits if asked, in one round trip.
func write(ctx context.Context, conn *pgx.Conn, book *ledger.Book, commit bool) error {
	var b pgx.Batch
	c := book.Changes()
	writeAccounts(&b, c)
	writeEntries(&b, c)
	writeJobs(&b, c)
	if len(c.Renewals) > 0 {
		ids := slices.Sorted(maps.Keys(c.Renewals))
		until := make([]time.Time, len(ids))
		for i, id := range ids {
			until[i] = c.Renewals[id]
		}
		// A Start must not shorten the lease that its worker renewed itself.
		b.Queue(`INSERT INTO workers (id, renewed_at, alive_until) SELECT id, $3, until FROM unnest($1::text[], $2::timestamptz[]) w (id, until)
			ON CONFLICT (id) DO UPDATE SET renewed_at = greatest(workers.renewed_at, excluded.renewed_at),
				alive_until = greatest(workers.alive_until, excluded.alive_until)`, ids, until, book.Now())
	}
	if commit {
		b.Queue("COMMIT")
	}
	return conn.SendBatch(ctx, &b).Close()
}

func writeAccounts(b *pgx.Batch, c *ledger.Changes) {
	accounts := bulk{statement: insertAccounts}
	for _, a := range c.Accounts {
		accounts.add(a.ID, a.Tenant, a.Name, a.Status, a.Overdraft, a.CreatedAt)
	}
	grants := bulk{statement: insertGrants}
	for _, g := range c.Grants {
		grants.add(g.ID, g.AccountID, g.Tenant, null(g.Key), g.Fingerprint, g.Amount, g.Source, g.Priority, g.Reason, g.Actor, g.CreatedAt)
	}
	adjustments := bulk{statement: insertAdjusts}
	for _, a := range c.Adjustments {
		adjustments.add(a.ID, a.AccountID, a.Tenant, null(a.Key), a.Fingerprint, a.Amount, null(a.AboutJob), a.Reason, a.Actor, a.CreatedAt)
	}
	accounts.queue(b)
	grants.queue(b)
	adjustments.queue(b)
}

func writeEntries(b *pgx.Batch, c *ledger.Changes) {
	entries := bulk{statement: insertEntries}
	for _, e := range c.Entries {
		var seq, balance, floor any
		if e.Movement() {
			seq, balance = e.Seq, e.BalanceAfter
			if e.Kind == ledger.KindDeduct {
				floor = e.Floor
			}
		}
		entries.add(e.ID, e.AccountID, seq, string(e.Kind), e.Delta, balance, floor, e.JobID, null(e.AboutJob), e.Reason, e.Actor,
			null(string(e.Evidence)), e.CreatedAt)
	}
	entries.queue(b)
}

func writeJobs(b *pgx.Batch, c *ledger.Changes) {
	jobs := bulk{statement: insertJobs}
	added := map[string]bool{}
	for _, j := range c.Jobs {
		added[j.ID] = true
		jobs.add(j.ID, j.AccountID, j.Tenant, null(j.Key), j.Fingerprint, j.Type, j.Cost, j.Units, string(j.Input), string(j.Metadata),
			j.MaxAttempts, when(j.WaitUntil), null(j.RetryOf), j.CreatedAt)
	}
	opened, moved := bulk{statement: insertOpen}, bulk{statement: updateOpen}
	for _, j := range c.SortedTouched() {
		o, t := j.Open, &moved
		if o == nil {
			continue // it ended in the same batch
		}
		if added[j.ID] {
			t = &opened
		}
		t.add(j.ID, j.AccountID, o.Held, string(o.State), o.Epoch, o.Attempts, o.Starts, o.Lost, o.Counted, o.N, o.QueuedAt, o.CheckAt, when(o.RunAfter),
			when(o.EnqueuedAt), when(o.SeenAt), when(o.RefusedAt), null(o.Worker), null(o.Token), when(o.FirstStartedAt), when(o.StartedAt),
			when(o.Deadline), when(o.CancelAt))
	}
	jobs.queue(b)
	opened.queue(b)
	moved.queue(b)
	writeEnded(b, c, added)
}

func writeEnded(b *pgx.Batch, c *ledger.Changes, added map[string]bool) {
	ended := bulk{statement: insertEnded}
	var over []string
	for _, j := range c.Ended {
		e := j.End
		ended.add(j.ID, string(e.State), string(e.Reason), e.Held, e.Charged, e.Shortfall, e.Delivered, e.Attempts, e.Starts, e.Epoch, e.N,
			null(e.Token), document(e.Result), document(e.Error), null(string(e.Evidence)), e.Percent, e.Progress, when(e.StartedAt), e.EndedAt)
		if !added[j.ID] {
			over = append(over, j.ID)
		}
	}
	if len(over) > 0 {
		b.Queue("DELETE FROM open_jobs WHERE job_id = ANY($1)", over)
	}
	ended.queue(b)
	attempts := bulk{statement: insertAttempts}
	for _, a := range c.Attempts {
		attempts.add(a.JobID, a.N, a.Token, a.Epoch, a.Worker, a.Counted, string(a.Outcome), document(a.Error), when(a.RunAfter),
			null(a.VendorRef), a.StartedAt, a.EndedAt)
	}
	attempts.queue(b)
	calls := bulk{statement: upsertCalls}
	for _, v := range c.SortedCalls() {
		calls.add(v.JobID, v.N, v.Provider, string(v.Status), null(v.Ref), v.Token, document(v.Error), v.ClaimedAt, v.SentAt,
			when(v.AcceptedAt), when(v.HeardAt), when(v.CalledAt), when(v.EndedAt))
	}
	calls.queue(b)
}

// null is an optional text as PostgreSQL keeps it.
func null(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// when is an optional time as PostgreSQL keeps it.
func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t
}

// document is an optional value as JSON.
func document[T any](v *T) any {
	if v == nil {
		return nil
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // a Result and a JobError are always JSON
	}
	return string(raw)
}
