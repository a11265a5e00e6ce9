package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/makegood/makegood/ledger"
)

// contended lists the errors of a transaction that was merely in another's way.
var contended = map[string]bool{
	"23505": true, // unique_violation: somebody else wrote the same key first
	"40001": true, // serialization_failure
	"40P01": true, // deadlock_detected
}

// blocked lists the errors of a transaction that waited in vain. It was rolled back, and no
// row of its own is to blame, so trying its commands one by one would only wait longer.
var blocked = map[string]bool{
	"55P03": true, // lock_not_available: lock_timeout
	"57014": true, // query_canceled: statement_timeout
	"25P03": true, // idle_in_transaction_session_timeout
}

// trouble lists the classes of errors that are the server's and no row's: it went away, or
// had no room. Whatever else it says is about what was sent.
var trouble = map[string]bool{"08": true, "25": true, "53": true, "57": true, "58": true}

// unfitError is a fault that no second try mends, found on this side of the connection.
type unfitError struct{ error }

func (e unfitError) Unwrap() error { return e.error }

// errTooYoung is a job that appeared while its transaction was taking its locks.
var errTooYoung = errors.New("the job was committed while its account was being locked")

// failed says what an error left behind. committing tells that COMMIT was under way: a broken
// connection then says nothing about whether it happened.
func failed(err error, committing bool) *ledger.StoreError {
	return &ledger.StoreError{Fate: fate(err, committing), Err: err}
}

func fate(err error, committing bool) ledger.Fate {
	ended := ledger.FateUnreached
	if committing && !pgconn.SafeToRetry(err) { // it is safe when nothing was sent
		ended = ledger.FateUnknown
	}
	if errors.Is(err, errTooYoung) {
		return ledger.FateContended
	}
	if _, ok := errors.AsType[unfitError](err); ok {
		return ledger.FateRejected
	}
	pg, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok:
		return ended
	case contended[pg.Code]:
		return ledger.FateContended
	case blocked[pg.Code]:
		return ledger.FateUnreached
	case pg.SeverityUnlocalized == "FATAL", pg.SeverityUnlocalized == "PANIC", trouble[pg.Code[:min(2, len(pg.Code))]]:
		return ended
	case strings.HasPrefix(pg.Code, "XX") && committing:
		return ended // an internal error may come out of the commit itself
	}
	return ledger.FateRejected
}
