package reads

import (
	"context"

	"github.com/makegood/makegood/ledger"
)

// Account reads one account with its newest movement.
func (db *DB) Account(ctx context.Context, name ledger.AccountName) (ledger.Account, error) {
	return one(ctx, db, "read account", "SELECT "+AccountColumns+AccountFrom+" WHERE a.tenant = $1 AND a.name = $2",
		[]any{name.Tenant, name.Name}, value(ScanAccount), ledger.NotFound("account", name.Name))
}

// Accounts lists a tenant's accounts by (created_at, id), newest first.
func (db *DB) Accounts(ctx context.Context, tenant string, page ledger.Page) ([]ledger.Account, error) {
	w := where{dialect: db.dialect}
	w.add("a.tenant = ?", tenant)
	if page.AfterID != "" {
		w.add("(a.created_at, a.id) < (?, ?)", page.AfterAt, page.AfterID)
	}
	query := "SELECT " + AccountColumns + AccountFrom + w.page("a.created_at DESC, a.id DESC", page.Limit)
	return list(ctx, db, "list accounts", query, w.args, value(ScanAccount))
}

// Grants lists an account's grants, oldest first. The balance that Remaining is derived from
// comes with the same statement: from a later one it would not fit the grants.
func (db *DB) Grants(ctx context.Context, name ledger.AccountName) ([]ledger.Grant, error) {
	var balance int64
	grants, err := list(ctx, db, "list grants", "SELECT "+GrantColumns+", coalesce(t.balance_after, 0)"+GrantFrom+newestMovement+
		" WHERE a.tenant = $1 AND a.name = $2 ORDER BY g.created_at, g.id", []any{name.Tenant, name.Name},
		func(r Row) (ledger.Grant, error) { return value(ScanGrant)(also{r, &balance}) })
	if err != nil {
		return nil, err
	}
	if len(grants) == 0 { // no grants, or no account?
		_, err = db.Account(ctx, name)
		return grants, err
	}
	ledger.FillRemaining(grants, balance)
	return grants, nil
}

// also scans one column more than a scanner knows of.
type also struct {
	Row
	last any
}

func (a also) Scan(dest ...any) error { return a.Row.Scan(append(dest, a.last)...) }

// Grant reads one grant.
func (db *DB) Grant(ctx context.Context, tenant, id string) (ledger.Grant, error) {
	return one(ctx, db, "read grant", "SELECT "+GrantColumns+GrantFrom+" WHERE g.tenant = $1 AND g.id = $2",
		[]any{tenant, id}, value(ScanGrant), ledger.NotFound("grant", id))
}
