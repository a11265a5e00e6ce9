package postgres

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// statement is one bulk statement. Rows travel as one array a column, so that one text and
// one plan serve batches of every size.
type statement struct {
	sql     string
	columns []string // name:type
}

var (
	insertAccounts = insertInto("accounts", "id:text", "tenant:text", "name:text", "status:text", "overdraft:bigint", "created_at:timestamptz")
	insertGrants   = insertInto("grants", "id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "amount:bigint",
		"source:text", "priority:int", "reason:text", "actor:text", "created_at:timestamptz")
	insertAdjusts = insertInto("adjustments", "id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "amount:bigint",
		"about_job:text", "reason:text", "actor:text", "created_at:timestamptz")
	insertEntries = insertInto("credit_transactions", "id:text", "account_id:text", "seq:bigint", "kind:text", "delta:bigint",
		"balance_after:bigint", "floor:bigint", "job_id:text", "about_job:text", "reason:text", "actor:text", "evidence:jsonb", "created_at:timestamptz")
	insertJobs = insertInto("jobs", "job_id:text", "account_id:text", "tenant:text", "key:text", "fingerprint:bytea", "type:text", "cost:bigint",
		"units:int", "input:text", "metadata:text", "max_attempts:int", "wait_until:timestamptz", "retry_of:text", "created_at:timestamptz")
	insertOpen  = insertInto("open_jobs", openColumns...)
	updateOpen  = moveOpen()
	insertEnded = insertInto("ended_jobs", "job_id:text", "state:text", "end_reason:text", "held:bigint", "charged:bigint", "shortfall:bigint",
		"delivered:int", "attempts:int", "starts:int", "epoch:int", "n:int", "token:text", "result:text", "error:text", "evidence:jsonb", "percent:int",
		"progress:text", "started_at:timestamptz", "ended_at:timestamptz")
	insertAttempts = insertInto("attempts", "job_id:text", "n:int", "token:text", "epoch:int", "worker:text", "counted:boolean", "outcome:text",
		"error:text", "run_after:timestamptz", "vendor_ref:text", "started_at:timestamptz", "ended_at:timestamptz")
	upsertCalls = upsertInto("vendor_calls", []string{"job_id", "n"}, "job_id:text", "n:int", "provider:text", "status:text", "ref:text", "token:text",
		"error:text", "claimed_at:timestamptz", "sent_at:timestamptz", "accepted_at:timestamptz", "heard_at:timestamptz", "called_at:timestamptz",
		"ended_at:timestamptz")
)

// openColumns leaves out what a generator reports meanwhile (percent, progress), which no
// command writes.
var openColumns = []string{"job_id:text", "account_id:text", "held:bigint", "state:text", "epoch:int", "attempts:int", "starts:int",
	"lost:int", "counted:boolean", "n:int",
	"queued_at:timestamptz", "check_at:timestamptz", "run_after:timestamptz", "enqueued_at:timestamptz", "seen_at:timestamptz",
	"refused_at:timestamptz", "worker:text", "token:text", "first_started_at:timestamptz", "started_at:timestamptz",
	"deadline:timestamptz", "cancel_at:timestamptz"}

// insertInto keeps the order of the rows.
func insertInto(name string, columns ...string) *statement {
	s := &statement{columns: columns}
	names := strings.Join(s.names(), ", ")
	s.sql = "INSERT INTO " + name + " (" + names + ") SELECT " + names + " FROM " + s.unnest() + " ORDER BY place"
	return s
}

// upsertInto is insertInto for rows that may be there already, by their key.
func upsertInto(name string, key []string, columns ...string) *statement {
	s := insertInto(name, columns...)
	set := make([]string, 0, len(columns))
	for _, c := range s.names()[len(key):] {
		set = append(set, c+" = excluded."+c)
	}
	s.sql += " ON CONFLICT (" + strings.Join(key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
	return s
}

// moveOpen updates open jobs. Which job it is, whose, and what was held never changes.
func moveOpen() *statement {
	s := &statement{columns: openColumns}
	names := s.names()
	set := make([]string, 0, len(names))
	for _, c := range names[3:] {
		set = append(set, c+" = v."+c)
	}
	s.sql = "UPDATE open_jobs o SET " + strings.Join(set, ", ") + " FROM " + s.unnest() + " WHERE o.job_id = v.job_id"
	return s
}

func (s *statement) names() []string {
	list := make([]string, len(s.columns))
	for i, c := range s.columns {
		list[i], _, _ = strings.Cut(c, ":")
	}
	return list
}

// unnest is the rows as a table; jsonb travels as text and place keeps the order.
func (s *statement) unnest() string {
	params, casts := make([]string, len(s.columns)), make([]string, len(s.columns))
	for i, c := range s.columns {
		name, kind, _ := strings.Cut(c, ":")
		wire := kind
		if kind == "jsonb" {
			wire = "text"
		}
		params[i] = fmt.Sprintf("$%d::%s[]", i+1, wire)
		casts[i] = name + "::" + kind
	}
	return "(SELECT " + strings.Join(casts, ", ") + ", place FROM unnest(" + strings.Join(params, ", ") + ") WITH ORDINALITY r (" +
		strings.Join(s.names(), ", ") + ", place)) v"
}

// bulk is a statement with its rows.
type bulk struct {
	*statement
	rows [][]any
}

func (t *bulk) add(row ...any) { t.rows = append(t.rows, row) }

// queue adds the statement to a pipeline, unless it has no rows.
func (t *bulk) queue(b *pgx.Batch) {
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
