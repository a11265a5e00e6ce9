package reconciler

import (
	"database/sql"
	"errors"
	"fmt"

	"github.com/makegood/makegood/ledger"
)

// findAccount turns the account's name into the id that entries refer to.
func (v *verifier) findAccount() error {
	o := v.options
	if o.Account == "" {
		return nil
	}
	query := "SELECT id FROM accounts WHERE tenant = ? AND name = ?"
	if o.Dialect == Postgres {
		query = "SELECT id FROM accounts WHERE tenant = $1 AND name = $2"
	}
	err := v.tx.QueryRowContext(v.ctx, query, o.Tenant, o.Account).Scan(&v.accountID)
	if errors.Is(err, sql.ErrNoRows) {
		return ledger.NotFound("account", o.Account)
	}
	return err
}

// accountName is nil for an account without a row.
func (v *verifier) accountName(id string) (*string, error) {
	var name string
	err := v.tx.QueryRowContext(v.ctx, "SELECT name FROM accounts WHERE id = "+quote(id)).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("name account %s: %w", id, err)
	}
	return &name, nil
}

// movement is an entry with a place in a chain.
type movement struct {
	account, id, jobID string
	kind               ledger.Kind
	delta, seq         int64
	balance, floor     sql.NullInt64
}

func (v *verifier) movements() (*stream[movement], error) {
	return newStream(v, "SELECT account_id, id, job_id, kind, delta, seq, balance_after, floor FROM credit_transactions"+
		v.of("account_id", "seq IS NOT NULL")+" ORDER BY account_id, seq, id",
		func(m movement) string { return m.account },
		func(rows *sql.Rows) (m movement, err error) {
			return m, rows.Scan(&m.account, &m.id, &m.jobID, &m.kind, &m.delta, &m.seq, &m.balance, &m.floor)
		})
}

func (v *verifier) accounts() (*stream[string], error) {
	return newStream(v, "SELECT id FROM accounts"+v.of("id")+" ORDER BY id",
		func(id string) string { return id },
		func(rows *sql.Rows) (id string, err error) { err = rows.Scan(&id); return id, err })
}

// checkChains follows each account's movements from the first to the newest (I4), in the
// order of the index that finds balances. A movement that is missing at the end of a chain
// leaves no trace there; checkJobs misses it.
func (v *verifier) checkChains() error {
	accounts, err := v.accounts()
	if err != nil {
		return err
	}
	moves, err := v.movements()
	if err != nil {
		return err
	}
	for {
		key, ok, err := lowest(accounts.nextKey, moves.nextKey)
		if err != nil || !ok {
			return err
		}
		known := false
		err = accounts.take(key, func(string) {
			known = true
			v.report.Counts.Accounts++
		})
		if err != nil {
			return err
		}
		chain := chain{v: v, known: known}
		if err := moves.take(key, chain.follow); err != nil {
			return err
		}
		v.report.Conservation.Available += chain.balance
	}
}

// chain is how far the check of one account has come.
type chain struct {
	v            *verifier
	known        bool // the account has a row
	seq, balance int64
}

// follow checks the next movement. After a fault it goes on from what it found, so that one
// fault is one row of the report.
func (c *chain) follow(m movement) {
	switch {
	case !c.known:
		c.broken(m, "the entry's account does not exist", nil, m.account)
		c.known = true // say so once
	case m.seq != c.seq+1:
		c.broken(m, "the account's chain has a gap or a double place before this entry", c.seq+1, m.seq)
	case !m.balance.Valid || m.balance.Int64 != c.balance+m.delta:
		c.broken(m, "balance_after is not the balance before plus delta", c.balance+m.delta, number(m.balance))
	case m.kind == ledger.KindDeduct && (!m.floor.Valid || m.balance.Int64 < m.floor.Int64):
		c.broken(m, "the deduct went below the floor it was allowed to reach", number(m.floor), m.balance.Int64)
	}
	c.seq, c.balance = m.seq, m.balance.Int64
}

func (c *chain) broken(m movement, detail string, expected, found any) {
	c.v.broken(Broken{Invariant: "I4", Table: "credit_transactions", ID: m.id, JobID: jobOf(m.kind, m.jobID), Detail: detail,
		Expected: expected, Found: found, accountID: m.account})
}

func number(n sql.NullInt64) any {
	if !n.Valid {
		return nil
	}
	return n.Int64
}

// jobOf is an entry's job; nil for kinds whose job_id is an operation without a job.
func jobOf(kind ledger.Kind, id string) *string {
	switch kind {
	case ledger.KindGrant, ledger.KindAdjust, ledger.KindExpire, ledger.KindRevoke:
		return nil
	}
	return &id
}

// lowest finds the lowest key that any of the streams comes to next.
func lowest(keys ...func() (string, bool, error)) (low string, found bool, err error) {
	for _, next := range keys {
		key, ok, err := next()
		if err != nil {
			return "", false, err
		}
		if ok && (!found || key < low) {
			low, found = key, true
		}
	}
	return low, found, nil
}
