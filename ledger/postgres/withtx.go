package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/internal/reads"
)

// txStore is a store inside somebody else's transaction.
type txStore struct {
	*reads.DB
	tx    pgx.Tx
	clock func() time.Time
}

// WithTx puts the ledger inside the caller's own transaction, for ledger.Direct: the charge
// commits or rolls back with the caller's rows. The transaction must be READ COMMITTED, as
// PostgreSQL's default is: with an older snapshot the balance read under lock would be old.
//
// What it costs: each command runs in a savepoint of its own, there is no group commit, and
// the account's lock is held until the caller ends the transaction, so end it soon, and take
// several accounts in one order everywhere. Reads answer outside of the transaction and do
// not see what it has not committed.
func (s *Store) WithTx(tx pgx.Tx) ledger.Store { return &txStore{s.DB, tx, s.clock} }

// Transact runs one command in a savepoint. The caller commits, so no commit of ours is ever
// unknown.
func (s *txStore) Transact(ctx context.Context, names *ledger.Names, decide func(*ledger.Book) error) error {
	var refusal error
	err := pgx.BeginFunc(ctx, s.tx, func(tx pgx.Tx) error {
		book, err := load(ctx, tx.Conn(), names, s.clock, false)
		if err != nil {
			return err
		}
		if refusal = decide(book); refusal != nil || book.Changes().Empty() {
			return refusal
		}
		return write(ctx, tx.Conn(), book, false)
	})
	switch {
	case refusal != nil:
		return refusal
	case err != nil:
		return failed(err, false)
	}
	return nil
}

// Close does nothing: the transaction is the caller's.
func (*txStore) Close() error { return nil }
