package reads

import (
	"context"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Balance is the newest balance and what open jobs hold, in one statement: a job that opens
// or ends meanwhile counts in both or in neither.
func (db *DB) Balance(ctx context.Context, name ledger.AccountName) (ledger.Balance, error) {
	return one(ctx, db, "read balance", `SELECT coalesce(t.balance_after, 0),
		(SELECT CAST(coalesce(sum(o.held), 0) AS bigint) FROM open_jobs o WHERE o.account_id = a.id)`+AccountFrom+
		" WHERE a.tenant = $1 AND a.name = $2", []any{name.Tenant, name.Name},
		func(r Row) (b ledger.Balance, err error) {
			err = r.Scan(&b.Available, &b.Held)
			return b, err
		}, ledger.NotFound("account", name.Name))
}

// BalanceAt is the balance after the last movement up to a moment.
func (db *DB) BalanceAt(ctx context.Context, name ledger.AccountName, at time.Time) (int64, error) {
	return one(ctx, db, "read balance", `SELECT coalesce((SELECT t.balance_after FROM credit_transactions t
		WHERE t.account_id = a.id AND t.created_at <= $3 AND t.seq IS NOT NULL ORDER BY t.created_at DESC, t.seq DESC LIMIT 1), 0)
		FROM accounts a WHERE a.tenant = $1 AND a.name = $2`, []any{name.Tenant, name.Name, db.dialect.Time(at)},
		scalar[int64], ledger.NotFound("account", name.Name))
}
