package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/makegood/makegood/ledger"
)

// books are the rows that a run left in the database, read with SQL of our own: what is
// checked is not read by the code under test.
type books struct {
	accounts map[string]string // name by id
	entries  []entryRow        // by time
	jobs     []jobRow
	attempts []attemptRow
}

type entryRow struct {
	AccountID    string
	Seq          int64 // 0 for a marker
	Kind         ledger.Kind
	Delta        int64
	BalanceAfter int64
	JobID        string
}

type jobRow struct {
	JobID       string
	AccountID   string
	Key         string
	Cost        int64
	MaxAttempts int
	Open        bool
	// End is nil for a job that has not ended.
	End *endRow
}

type endRow struct {
	State     ledger.State
	Reason    ledger.EndReason
	Held      int64
	Charged   int64
	Shortfall int64
	Delivered int
	Attempts  int
	Starts    int
	Artifacts []ledger.Artifact
	At        time.Time
}

type attemptRow struct {
	JobID   string
	Worker  string
	Outcome ledger.AttemptOutcome
}

// readBooks reads everything in one snapshot.
func readBooks(ctx context.Context, db *pgxpool.Pool) (books, error) {
	b := books{accounts: map[string]string{}}
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err := pgx.BeginTxFunc(ctx, db, snapshot, func(tx pgx.Tx) error {
		var err error
		if b.accounts, err = readAccounts(ctx, tx); err != nil {
			return err
		}
		if b.entries, err = readAll[entryRow](ctx, tx, `
			SELECT account_id, coalesce(seq, 0), kind, delta, coalesce(balance_after, 0), job_id
			  FROM credit_transactions ORDER BY created_at, id`); err != nil {
			return err
		}
		if b.jobs, err = readJobs(ctx, tx); err != nil {
			return err
		}
		b.attempts, err = readAll[attemptRow](ctx, tx, `SELECT job_id, worker, outcome FROM attempts`)
		return err
	})
	if err != nil {
		return books{}, fmt.Errorf("read the books: %w", err)
	}
	return b, nil
}

func readAll[Row any](ctx context.Context, tx pgx.Tx, query string) ([]Row, error) {
	rows, err := tx.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
}

func readAccounts(ctx context.Context, tx pgx.Tx) (map[string]string, error) {
	type row struct{ ID, Name string }
	rows, err := readAll[row](ctx, tx, `SELECT id, name FROM accounts`)
	names := map[string]string{}
	for _, r := range rows {
		names[r.ID] = r.Name
	}
	return names, err
}

func readJobs(ctx context.Context, tx pgx.Tx) ([]jobRow, error) {
	rows, err := tx.Query(ctx, `
		SELECT j.job_id, j.account_id, coalesce(j.key, ''), j.cost, j.max_attempts, o.job_id IS NOT NULL, e.job_id IS NOT NULL,
		       coalesce(e.state, ''), coalesce(e.end_reason, ''), coalesce(e.held, 0), coalesce(e.charged, 0), coalesce(e.shortfall, 0),
		       coalesce(e.delivered, 0), coalesce(e.attempts, 0), coalesce(e.starts, 0), coalesce(e.result, '{}'), coalesce(e.ended_at, 'epoch')
		  FROM jobs j LEFT JOIN open_jobs o USING (job_id) LEFT JOIN ended_jobs e USING (job_id)
		 ORDER BY j.job_id`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (jobRow, error) {
		var (
			j      jobRow
			e      endRow
			ended  bool
			result string
		)
		err := row.Scan(&j.JobID, &j.AccountID, &j.Key, &j.Cost, &j.MaxAttempts, &j.Open, &ended, &e.State, &e.Reason, &e.Held, &e.Charged,
			&e.Shortfall, &e.Delivered, &e.Attempts, &e.Starts, &result, &e.At)
		if err != nil || !ended {
			return j, err
		}
		var r ledger.Result
		if err := json.Unmarshal([]byte(result), &r); err != nil {
			return j, fmt.Errorf("result of job %s: %w", j.JobID, err)
		}
		e.Artifacts, j.End = r.Artifacts, &e
		return j, nil
	})
}

// progress is how far the jobs have come.
type progress struct{ open, ended int }

func readProgress(ctx context.Context, db *pgxpool.Pool) (p progress, err error) {
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM open_jobs), (SELECT count(*) FROM ended_jobs)`).Scan(&p.open, &p.ended)
	return p, err
}

// working counts the workers and relays that have reported.
func working(ctx context.Context, db *pgxpool.Pool) (workers, relays int, err error) {
	err = db.QueryRow(ctx, `SELECT (SELECT count(*) FROM workers), (SELECT count(*) FROM relays)`).Scan(&workers, &relays)
	return workers, relays, err
}

// workerOf finds the id under which a process worked, "" when it died before it had one, and
// what time it is for the ledger.
func workerOf(ctx context.Context, db *pgxpool.Pool, pid int) (id string, now time.Time, err error) {
	err = db.QueryRow(ctx, `
		SELECT coalesce((SELECT id FROM workers WHERE pid = $1 ORDER BY renewed_at DESC LIMIT 1), ''), clock_timestamp()`, pid).Scan(&id, &now)
	return id, now, err
}
