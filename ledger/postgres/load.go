package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

// The locks, in the order that every transaction takes them: accounts, then jobs, each by
// id. An account of a job never changes after Open, so it may be looked up before the lock.
const (
	lockAccounts = `SELECT id FROM accounts WHERE id IN (
			SELECT j.account_id FROM jobs j WHERE j.job_id = ANY($1)
			UNION SELECT n.id FROM unnest($2::text[], $3::text[]) w (tenant, name) JOIN accounts n ON n.tenant = w.tenant AND n.name = w.name)
		ORDER BY id FOR NO KEY UPDATE`
	lockJobs = `SELECT job_id FROM open_jobs WHERE job_id = ANY($1) ORDER BY job_id FOR UPDATE`
)

// The reads. The accounts of grants and adjustments found come along, so that a replay can
// tell their balance. They may be others than the accounts named, and are not locked then:
// commands write only to accounts that they named, or whose jobs they named.
const (
	readAccounts = "SELECT " + reads.AccountColumns + reads.AccountFrom + ` WHERE a.id IN (
			SELECT j.account_id FROM jobs j WHERE j.job_id = ANY($1)
			UNION SELECT n.id FROM unnest($2::text[], $3::text[]) w (tenant, name) JOIN accounts n ON n.tenant = w.tenant AND n.name = w.name
			UNION SELECT g.account_id FROM grants g WHERE g.id = ANY($4)
			UNION SELECT g.account_id FROM unnest($5::text[], $6::text[]) w (tenant, key) JOIN grants g ON g.tenant = w.tenant AND g.key = w.key
			UNION SELECT d.account_id FROM adjustments d WHERE d.id = ANY($7)
			UNION SELECT d.account_id FROM unnest($8::text[], $9::text[]) w (tenant, key) JOIN adjustments d ON d.tenant = w.tenant AND d.key = w.key)`
	readJobs       = "SELECT " + reads.JobColumns + reads.JobFrom + " WHERE j.job_id = ANY($1)"
	readJobsByKey  = "SELECT " + reads.JobColumns + reads.JobFrom + " JOIN unnest($1::text[], $2::text[]) k (tenant, key) ON j.tenant = k.tenant AND j.key = k.key"
	readAttempts   = "SELECT " + reads.AttemptColumns + reads.AttemptFrom + " JOIN unnest($1::text[], $2::text[]) k (job_id, token) ON x.job_id = k.job_id AND x.token = k.token"
	readCalls      = "SELECT " + reads.CallColumns + reads.CallFrom + " WHERE v.job_id = ANY($1) ORDER BY v.job_id, v.n"
	readGrants     = "SELECT " + reads.GrantColumns + reads.GrantFrom + " WHERE g.id = ANY($1)"
	readGrantsKey  = "SELECT " + reads.GrantColumns + reads.GrantFrom + " JOIN unnest($1::text[], $2::text[]) k (tenant, key) ON g.tenant = k.tenant AND g.key = k.key"
	readAdjusts    = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " WHERE d.id = ANY($1)"
	readAdjustsKey = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " JOIN unnest($1::text[], $2::text[]) k (tenant, key) ON d.tenant = k.tenant AND d.key = k.key"
	readHeld       = `SELECT a.id, sum(o.held)::bigint FROM (SELECT DISTINCT tenant, name FROM unnest($1::text[], $2::text[]) w (tenant, name)) w
			JOIN accounts a ON a.tenant = w.tenant AND a.name = w.name JOIN open_jobs o ON o.account_id = a.id GROUP BY a.id`
	readCredited = `SELECT about_job, sum(delta)::bigint FROM credit_transactions WHERE about_job = ANY($1) AND kind = 'adjust' GROUP BY about_job`
)

const readCommitted = "read committed"

// pipeline queues statements with what to do with their rows.
type pipeline struct{ pgx.Batch }

func (p *pipeline) read(sql string, scan func(pgx.Rows) error, args ...any) {
	p.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}

func ignore(pgx.Rows) error { return nil }

// load begins (if asked), locks and reads in one round trip, and fills a Book.
func load(ctx context.Context, conn *pgx.Conn, n *ledger.Names, clock func() time.Time, begin bool) (*ledger.Book, error) {
	var p pipeline
	isolation := readCommitted
	if begin {
		p.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	} else {
		p.read("SELECT current_setting('transaction_isolation')", func(r pgx.Rows) error { return r.Scan(&isolation) })
	}
	tenants, accounts := columns(n.Accounts)
	locked := map[string]bool{}
	p.read(lockAccounts, func(r pgx.Rows) error {
		var id string
		err := r.Scan(&id)
		locked[id] = true
		return err
	}, list(n.Jobs), tenants, accounts)
	if len(n.Jobs) > 0 {
		p.read(lockJobs, ignore, n.Jobs)
	}
	now := time.Time{}
	p.read("SELECT clock_timestamp()", func(r pgx.Rows) error { return r.Scan(&now) })
	var loads []func(*ledger.Book)
	p.rest(&loads, n, locked)
	// Last: a grant that was found a moment ago, in an account that is not locked, must not
	// miss its account.
	p.read(readAccounts, keep(&loads, reads.ScanAccount, (*ledger.Book).LoadAccount), list(n.Jobs), tenants, accounts,
		list(n.Grants), names(n.GrantKeys, tenantOf), names(n.GrantKeys, keyOf),
		list(n.Adjustments), names(n.AdjustKeys, tenantOf), names(n.AdjustKeys, keyOf))
	if err := conn.SendBatch(ctx, &p.Batch).Close(); err != nil {
		return nil, err
	}
	if isolation != readCommitted {
		return nil, unfitError{fmt.Errorf("the ledger needs a transaction that is %s, this one is %s", readCommitted, isolation)}
	}
	if clock != nil {
		now = clock()
	}
	book := ledger.NewBook(now)
	for _, load := range loads {
		load(book)
	}
	return book, nil
}

// rest reads whatever else is named.
func (p *pipeline) rest(loads *[]func(*ledger.Book), n *ledger.Names, locked map[string]bool) {
	if ids := slices.Concat(n.Jobs, n.JobRefs); len(ids) > 0 {
		p.read(readJobs, keep(loads, onlyLocked(n.Jobs, locked), (*ledger.Book).LoadJob), ids)
	}
	if len(n.JobKeys) > 0 {
		p.read(readJobsByKey, keep(loads, reads.ScanJob, (*ledger.Book).LoadJob), names(n.JobKeys, tenantOf), names(n.JobKeys, keyOf))
	}
	if len(n.Attempts) > 0 {
		jobs, tokens := make([]string, len(n.Attempts)), make([]string, len(n.Attempts))
		for i, a := range n.Attempts {
			jobs[i], tokens[i] = a.JobID, a.Token
		}
		p.read(readAttempts, keep(loads, reads.ScanAttempt, (*ledger.Book).LoadAttempt), jobs, tokens)
	}
	if len(n.Calls) > 0 {
		p.read(readCalls, keep(loads, reads.ScanCall, (*ledger.Book).LoadCall), n.Calls)
	}
	if len(n.Grants) > 0 {
		p.read(readGrants, keep(loads, reads.ScanGrant, (*ledger.Book).LoadGrant), n.Grants)
	}
	if len(n.GrantKeys) > 0 {
		p.read(readGrantsKey, keep(loads, reads.ScanGrant, (*ledger.Book).LoadGrant), names(n.GrantKeys, tenantOf), names(n.GrantKeys, keyOf))
	}
	if len(n.Adjustments) > 0 {
		p.read(readAdjusts, keep(loads, reads.ScanAdjustment, (*ledger.Book).LoadAdjustment), n.Adjustments)
	}
	if len(n.AdjustKeys) > 0 {
		p.read(readAdjustsKey, keep(loads, reads.ScanAdjustment, (*ledger.Book).LoadAdjustment), names(n.AdjustKeys, tenantOf), names(n.AdjustKeys, keyOf))
	}
	if len(n.Credited) > 0 {
		p.read(readCredited, keepSum(loads, (*ledger.Book).LoadCredited), n.Credited)
	}
	if len(n.Held) > 0 {
		tenants, accounts := columns(n.Held)
		p.read(readHeld, keepSum(loads, (*ledger.Book).LoadHeld), tenants, accounts)
	}
}

// onlyLocked scans jobs. One of those named that was committed after its account was looked up
// for the lock is open and its account is not locked: the next try will find it.
func onlyLocked(named []string, locked map[string]bool) func(reads.Row) (*ledger.Job, error) {
	return func(r reads.Row) (*ledger.Job, error) {
		j, err := reads.ScanJob(r)
		if err == nil && j.Open != nil && j.Account != "" && !locked[j.AccountID] && slices.Contains(named, j.ID) {
			err = errTooYoung
		}
		return j, err
	}
}

// keep scans a row and remembers to load it: the Book is made when the time is known. A row
// that cannot be read fails the command that names it, not all that share its batch for ever.
func keep[R any](loads *[]func(*ledger.Book), scan func(reads.Row) (R, error), load func(*ledger.Book, R)) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		row, err := scan(r)
		if err != nil {
			return unfitError{fmt.Errorf("read a row under lock: %w", err)}
		}
		*loads = append(*loads, func(b *ledger.Book) { load(b, row) })
		return nil
	}
}

// keepSum is keep for a sum of credits about a job or an account.
func keepSum(loads *[]func(*ledger.Book), load func(*ledger.Book, string, int64)) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		var id string
		var sum int64
		err := r.Scan(&id, &sum)
		*loads = append(*loads, func(b *ledger.Book) { load(b, id, sum) })
		return err
	}
}

// columns turns names into one array a column.
func columns(names []ledger.AccountName) (tenants, accounts []string) {
	tenants, accounts = make([]string, len(names)), make([]string, len(names))
	for i, a := range names {
		tenants[i], accounts[i] = a.Tenant, a.Name
	}
	return tenants, accounts
}

// list keeps a nil slice from becoming NULL.
func list(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

func tenantOf(k ledger.TenantKey) string { return k.Tenant }
func keyOf(k ledger.TenantKey) string    { return k.Key }

func names(keys []ledger.TenantKey, part func(ledger.TenantKey) string) []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = part(k)
	}
	return out
}
