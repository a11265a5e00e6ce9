package postgres

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/ledger"
)

// table is one bulk statement: rows become one array a column, so that a statement of one
// text and one plan serves batches of every size.
type table struct {
	sql     string
	columns []string // name:type
	rows    [][]any
}

func (t *table) add(row ...any) { t.rows = append(t.rows, row) }

// insertInto makes a bulk insert; types are PostgreSQL's.
func insertInto(name string, columns ...string) *table {
	t := &table{columns: columns}
	t.sql = "INSERT INTO " + name + " (" + t.names("") + ") SELECT " + t.names("") + " FROM " + t.unnest() + " ORDER BY place"
	return t
}

func (t *table) names(prefix string) string {
	list := make([]string, len(t.columns))
	for i, c := range t.columns {
		name, _, _ := strings.Cut(c, ":")
		list[i] = prefix + name
	}
	return strings.Join(list, ", ")
}

// unnest is the rows as a table; jsonb travels as text and place keeps the order.
func (t *table) unnest() string {
	params, casts := make([]string, len(t.columns)), make([]string, len(t.columns))
	for i, c := range t.columns {
		name, kind, _ := strings.Cut(c, ":")
		wire := kind
		if kind == "jsonb" {
			wire = "text"
		}
		params[i] = "$" + itoa(i+1) + "::" + wire + "[]"
		casts[i] = name + "::" + kind
	}
	return "(SELECT " + strings.Join(casts, ", ") + ", place FROM unnest(" + strings.Join(params, ", ") + ") WITH ORDINALITY r (" +
		t.names("") + ", place)) v"
}

func itoa(n int) string {
	if n >= 10 {
		return string(rune('0'+n/10)) + string(rune('0'+n%10))
	}
	return string(rune('0' + n))
}

// queue adds the statement to a pipeline, unless it has no rows.
func (t *table) queue(b *pgx.Batch) {
	if len(t.rows) == 0 {
		return
	}
	args := make([]any, len(t.columns))
	for i := range t.columns {
		column := make([]any, len(t.rows))
		for r, row := range t.rows {
			column[r] = row[i]
		}
		args[i] = column
	}
	b.Queue(t.sql, args...)
}

var openColumns = []string{"job_id:text", "account_id:text", "held:bigint", "state:text", "epoch:int", "attempts:int", "starts:int",
	"queued_at:timestamptz", "check_at:timestamptz", "run_after:timestamptz", "enqueued_at:timestamptz", "seen_at:timestamptz",
	"refused_at:timestamptz", "worker:text", "token:text", "first_started_at:timestamptz", "started_at:timestamptz",
	"deadline:timestamptz", "cancel_at:timestamptz"}

// updateOpen moves open jobs on. What a generator reported meanwhile is not touched.
func updateOpen() *table {
	t := &table{columns: openColumns}
	set := make([]string, 0, len(openColumns))
	for _, c := range openColumns[3:] {
		name, _, _ := strings.Cut(c, ":")
		set = append(set, name+" = v."+name)
	}
	t.sql = "UPDATE open_jobs o SET " + strings.Join(set, ", ") + " FROM " + t.unnest() + " WHERE o.job_id = v.job_id"
	return t
}

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
	accounts := insertInto("accounts", "id:text", "tenant:text", "name:text", "status:text", "overdraft:bigint", "created_at:timestamptz")
	for _, a := range c.Accounts {
		accounts.add(a.ID, a.Tenant, a.Name, a.Status, a.Overdraft, a.CreatedAt)
	}
	grants := insertInto("grants", "id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "amount:bigint",
		"source:text", "priority:int", "reason:text", "actor:text", "created_at:timestamptz")
	for _, g := range c.Grants {
		grants.add(g.ID, g.AccountID, g.Tenant, null(g.Key), g.Fingerprint, g.Amount, g.Source, g.Priority, g.Reason, g.Actor, g.CreatedAt)
	}
	adjustments := insertInto("adjustments", "id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "amount:bigint",
		"about_job:text", "reason:text", "actor:text", "created_at:timestamptz")
	for _, a := range c.Adjustments {
		adjustments.add(a.ID, a.AccountID, a.Tenant, null(a.Key), a.Fingerprint, a.Amount, null(a.AboutJob), a.Reason, a.Actor, a.CreatedAt)
	}
	accounts.queue(b)
	grants.queue(b)
	adjustments.queue(b)
}

func writeEntries(b *pgx.Batch, c *ledger.Changes) {
	entries := insertInto("credit_transactions", "id:text", "account_id:text", "seq:bigint", "kind:text", "delta:bigint",
		"balance_after:bigint", "floor:bigint", "job_id:text", "about_job:text", "reason:text", "actor:text", "evidence:jsonb", "created_at:timestamptz")
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
	jobs := insertInto("jobs", "job_id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "type:text", "cost:bigint",
		"units:int", "input:text", "metadata:text", "max_attempts:int", "wait_until:timestamptz", "retry_of:text", "created_at:timestamptz")
	added := map[string]bool{}
	for _, j := range c.Jobs {
		added[j.ID] = true
		jobs.add(j.ID, j.AccountID, j.Tenant, null(j.Key), j.Fingerprint, j.Type, j.Cost, j.Units, string(j.Input), string(j.Metadata),
			j.MaxAttempts, when(j.WaitUntil), null(j.RetryOf), j.CreatedAt)
	}
	opened, moved := insertInto("open_jobs", openColumns...), updateOpen()
	for _, j := range c.SortedTouched() {
		o, t := j.Open, moved
		if added[j.ID] {
			t = opened
		}
		t.add(j.ID, j.AccountID, o.Held, string(o.State), o.Epoch, o.Attempts, o.Starts, o.QueuedAt, o.CheckAt, when(o.RunAfter),
			when(o.EnqueuedAt), when(o.SeenAt), when(o.RefusedAt), null(o.Worker), null(o.Token), when(o.FirstStartedAt), when(o.StartedAt),
			when(o.Deadline), when(o.CancelAt))
	}
	jobs.queue(b)
	opened.queue(b)
	moved.queue(b)
	writeEnded(b, c, added)
}

func writeEnded(b *pgx.Batch, c *ledger.Changes, added map[string]bool) {
	ended := insertInto("ended_jobs", "job_id:text", "state:text", "end_reason:text", "held:bigint", "charged:bigint", "shortfall:bigint",
		"delivered:int", "attempts:int", "starts:int", "epoch:int", "token:text", "result:text", "error:text", "evidence:jsonb", "percent:int",
		"progress:text", "started_at:timestamptz", "ended_at:timestamptz")
	var over []string
	for _, j := range c.Ended {
		e := j.End
		ended.add(j.ID, string(e.State), string(e.Reason), e.Held, e.Charged, e.Shortfall, e.Delivered, e.Attempts, e.Starts, e.Epoch,
			null(e.Token), document(e.Result), document(e.Error), null(string(e.Evidence)), e.Percent, e.Progress, when(e.StartedAt), e.EndedAt)
		if !added[j.ID] {
			over = append(over, j.ID)
		}
	}
	if len(over) > 0 {
		b.Queue("DELETE FROM open_jobs WHERE job_id = ANY($1)", over)
	}
	ended.queue(b)
	attempts := insertInto("attempts", "job_id:text", "n:int", "token:text", "epoch:int", "worker:text", "counted:boolean", "outcome:text",
		"error:text", "run_after:timestamptz", "started_at:timestamptz", "ended_at:timestamptz")
	for _, a := range c.Attempts {
		attempts.add(a.JobID, a.N, a.Token, a.Epoch, a.Worker, a.Counted, string(a.Outcome), document(a.Error), when(a.RunAfter), a.StartedAt, a.EndedAt)
	}
	attempts.queue(b)
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
