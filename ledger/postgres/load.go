package postgres

import (
	"context"
	"errors"
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

// The reads. Accounts of earlier jobs, grants and adjustments found by key come along, so
// that a replay can name them.
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
	readAttempts   = "SELECT " + reads.AttemptColumns + reads.AttemptFrom + " WHERE x.job_id = ANY($1) ORDER BY x.n"
	readGrants     = "SELECT " + reads.GrantColumns + reads.GrantFrom + " WHERE g.id = ANY($1)"
	readGrantsKey  = "SELECT " + reads.GrantColumns + reads.GrantFrom + " JOIN unnest($1::text[], $2::text[]) k (tenant, key) ON g.tenant = k.tenant AND g.key = k.key"
	readAdjusts    = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " WHERE d.id = ANY($1)"
	readAdjustsKey = "SELECT " + reads.AdjustmentColumns + reads.AdjustmentFrom + " JOIN unnest($1::text[], $2::text[]) k (tenant, key) ON d.tenant = k.tenant AND d.key = k.key"
	readCredited   = `SELECT about_job, sum(delta)::bigint FROM credit_transactions WHERE about_job = ANY($1) AND kind = 'adjust' GROUP BY about_job`
)

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
	if begin {
		p.Queue("BEGIN ISOLATION LEVEL READ COMMITTED")
	}
	tenants, accounts := make([]string, len(n.Accounts)), make([]string, len(n.Accounts))
	for i, a := range n.Accounts {
		tenants[i], accounts[i] = a.Tenant, a.Name
	}
	p.read(lockAccounts, ignore, list(n.Jobs), tenants, accounts)
	if len(n.Jobs) > 0 {
		p.read(lockJobs, ignore, n.Jobs)
	}
	now := time.Time{}
	p.read("SELECT clock_timestamp()", func(r pgx.Rows) error { return r.Scan(&now) })
	var loads []func(*ledger.Book)
	p.read(readAccounts, keep(&loads, reads.ScanAccount, (*ledger.Book).LoadAccount), list(n.Jobs), tenants, accounts,
		list(n.Grants), names(n.GrantKeys, tenantOf), names(n.GrantKeys, keyOf),
		list(n.Adjustments), names(n.AdjustKeys, tenantOf), names(n.AdjustKeys, keyOf))
	p.rest(&loads, n)
	if err := conn.SendBatch(ctx, &p.Batch).Close(); err != nil {
		return nil, err
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
func (p *pipeline) rest(loads *[]func(*ledger.Book), n *ledger.Names) {
	if ids := slices.Concat(n.Jobs, n.JobRefs); len(ids) > 0 {
		p.read(readJobs, keep(loads, reads.ScanJob, (*ledger.Book).LoadJob), ids)
	}
	if len(n.JobKeys) > 0 {
		p.read(readJobsByKey, keep(loads, reads.ScanJob, (*ledger.Book).LoadJob), names(n.JobKeys, tenantOf), names(n.JobKeys, keyOf))
	}
	if len(n.Jobs) > 0 {
		p.read(readAttempts, keep(loads, reads.ScanAttempt, (*ledger.Book).LoadAttempt), n.Jobs)
	}
	if len(n.Grants) > 0 {
		p.read(readGrants, keep(loads, reads.ScanGrant, (*ledger.Book).LoadGrant), n.Grants)
		p.read(readGrantsKey, keep(loads, reads.ScanGrant, (*ledger.Book).LoadGrant), names(n.GrantKeys, tenantOf), names(n.GrantKeys, keyOf))
	}
	if len(n.Adjustments) > 0 {
		p.read(readAdjusts, keep(loads, reads.ScanAdjustment, (*ledger.Book).LoadAdjustment), n.Adjustments)
		p.read(readAdjustsKey, keep(loads, reads.ScanAdjustment, (*ledger.Book).LoadAdjustment), names(n.AdjustKeys, tenantOf), names(n.AdjustKeys, keyOf))
	}
	if len(n.Credited) > 0 {
		p.read(readCredited, func(r pgx.Rows) error {
			var id string
			var sum int64
			err := r.Scan(&id, &sum)
			*loads = append(*loads, func(b *ledger.Book) { b.LoadCredited(id, sum) })
			return err
		}, n.Credited)
	}
}

// keep scans a row and remembers to load it: the Book is made when the time is known.
func keep[R any](loads *[]func(*ledger.Book), scan func(reads.Row) (R, error), load func(*ledger.Book, R)) func(pgx.Rows) error {
	return func(r pgx.Rows) error {
		row, err := scan(r)
		if err != nil {
			return errors.Join(errors.New("read a row under lock"), err)
		}
		*loads = append(*loads, func(b *ledger.Book) { load(b, row) })
		return nil
	}
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
