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
	"55P03": true, // lock_not_available: lock_timeout
	"57014": true, // query_canceled: statement_timeout
	"25P03": true, // idle_in_transaction_session_timeout
}

// fate says what an error left behind. committing tells that COMMIT was under way: a broken
// connection then says nothing about whether it happened.
func fate(err error, committing bool) ledger.Fate {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch {
		case contended[pg.Code]:
			return ledger.FateContended
		case strings.HasPrefix(pg.Code, "22"), strings.HasPrefix(pg.Code, "23"):
			return ledger.FateRejected
		case strings.HasPrefix(pg.Code, "57P"), strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"),
			strings.HasPrefix(pg.Code, "58"), strings.HasPrefix(pg.Code, "25"):
			// The server ended the connection or had no room: see below.
		default:
			return ledger.FateRejected
		}
	}
	if committing {
		return ledger.FateUnknown
	}
	return ledger.FateUnreached
}
