package reads

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Account reads one account with its newest movement.
func (db *DB) Account(ctx context.Context, name ledger.AccountName) (ledger.Account, error) {
	a, err := ScanAccount(db.read.QueryRowContext(ctx, db.dialect.SQL("SELECT "+AccountColumns+AccountFrom+
		" WHERE a.tenant = $1 AND a.name = $2"), name.Tenant, name.Name))
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Account{}, ledger.NotFound("account", name.Name)
	}
	return *a, failed("read account", err)
}

// Accounts lists a tenant's accounts, newest first.
func (db *DB) Accounts(ctx context.Context, tenant string, page ledger.Page) (list []ledger.Account, err error) {
	w := where{dialect: db.dialect}
	w.add("a.tenant = ?", tenant)
	if page.AfterID != "" {
		w.add("(a.created_at, a.id) < (?, ?)", page.AfterAt, page.AfterID)
	}
	w.args = append(w.args, limit(page.Limit))
	err = db.rows(ctx, "list accounts", "SELECT "+AccountColumns+AccountFrom+w.String()+
		" ORDER BY a.created_at DESC, a.id DESC LIMIT $"+itoa(len(w.args)), w.args, func(r *sql.Rows) error {
		a, err := ScanAccount(r)
		list = append(list, *a)
		return err
	})
	return list, err
}

// Balance is the newest balance and what open jobs hold.
func (db *DB) Balance(ctx context.Context, name ledger.AccountName) (b ledger.Balance, err error) {
	err = db.read.QueryRowContext(ctx, db.dialect.SQL(`SELECT coalesce(t.balance_after, 0),
		(SELECT CAST(coalesce(sum(o.held), 0) AS bigint) FROM open_jobs o WHERE o.account_id = a.id)`+AccountFrom+
		" WHERE a.tenant = $1 AND a.name = $2"), name.Tenant, name.Name).Scan(&b.Available, &b.Held)
	if errors.Is(err, sql.ErrNoRows) {
		return b, ledger.NotFound("account", name.Name)
	}
	return b, failed("read balance", err)
}

// BalanceAt is the balance after the last movement up to a moment.
func (db *DB) BalanceAt(ctx context.Context, name ledger.AccountName, at time.Time) (balance int64, err error) {
	a, err := db.Account(ctx, name)
	if err != nil {
		return 0, err
	}
	err = db.read.QueryRowContext(ctx, db.dialect.SQL(`SELECT balance_after FROM credit_transactions
		WHERE account_id = $1 AND created_at <= $2 AND seq IS NOT NULL ORDER BY created_at DESC, id DESC LIMIT 1`),
		a.ID, db.dialect.Time(at)).Scan(&balance)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return balance, failed("read balance", err)
}

// Grants lists an account's grants, oldest first.
func (db *DB) Grants(ctx context.Context, name ledger.AccountName) (list []ledger.Grant, err error) {
	a, err := db.Account(ctx, name)
	if err != nil {
		return nil, err
	}
	err = db.rows(ctx, "list grants", "SELECT "+GrantColumns+GrantFrom+" WHERE g.account_id = $1 ORDER BY g.created_at, g.id",
		[]any{a.ID}, func(r *sql.Rows) error {
			g, err := ScanGrant(r)
			list = append(list, *g)
			return err
		})
	ledger.FillRemaining(list, a.Balance)
	return list, err
}

// Grant reads one grant.
func (db *DB) Grant(ctx context.Context, tenant, id string) (ledger.Grant, error) {
	g, err := ScanGrant(db.read.QueryRowContext(ctx, db.dialect.SQL("SELECT "+GrantColumns+GrantFrom+
		" WHERE g.tenant = $1 AND g.id = $2"), tenant, id))
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.Grant{}, ledger.NotFound("grant", id)
	}
	return *g, failed("read grant", err)
}

// Entries lists entries, newest first.
func (db *DB) Entries(ctx context.Context, f ledger.EntryFilter, page ledger.Page) (list []ledger.Entry, err error) {
	a, err := db.Account(ctx, f.Account)
	if err != nil {
		return nil, err
	}
	w := where{dialect: db.dialect}
	w.add("t.account_id = ?", a.ID)
	if !f.From.IsZero() {
		w.add("t.created_at >= ?", f.From)
	}
	if !f.To.IsZero() {
		w.add("t.created_at < ?", f.To)
	}
	if f.JobID != "" {
		w.add("(t.job_id = ? OR t.about_job = ?)", f.JobID, f.JobID)
	}
	if page.AfterID != "" {
		w.add("(t.created_at, t.id) < (?, ?)", page.AfterAt, page.AfterID)
	}
	w.args = append(w.args, limit(page.Limit))
	return db.entries(ctx, w.String()+" ORDER BY t.created_at DESC, t.id DESC LIMIT $"+itoa(len(w.args)), w.args)
}

// JobEntries lists what belongs to one job, oldest first.
func (db *DB) JobEntries(ctx context.Context, jobID string) ([]ledger.Entry, error) {
	return db.entries(ctx, " WHERE t.job_id = $1 OR t.about_job = $1 ORDER BY t.created_at, t.id", []any{jobID})
}

func (db *DB) entries(ctx context.Context, clause string, args []any) (list []ledger.Entry, err error) {
	err = db.rows(ctx, "list entries", "SELECT "+entryColumns+entryFrom+clause, args, func(r *sql.Rows) error {
		e, err := scanEntry(r)
		list = append(list, e)
		return err
	})
	return list, err
}

// Credited sums the adjustments about a job.
func (db *DB) Credited(ctx context.Context, jobID string) (sum int64, err error) {
	err = db.read.QueryRowContext(ctx, db.dialect.SQL(
		"SELECT CAST(coalesce(sum(delta), 0) AS bigint) FROM credit_transactions WHERE about_job = $1 AND kind = 'adjust'"), jobID).Scan(&sum)
	return sum, failed("sum adjustments", err)
}
