package reads

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/makegood/makegood/ledger"
)

// failed judges an error of the database. What the caller's context ended stays that; a
// database that was not reached, or was too busy, makes the ledger unavailable; the rest (a
// missing table, say) is a fault that trying again does not mend.
func failed(ctx context.Context, what string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		// Asked of the context and not of err: drivers have deadlines of their own, and may
		// say "interrupted" for ours.
		return ended(ctx, what, err)
	case refused(err):
		return fmt.Errorf("%s: %w", what, err)
	}
	return ledger.Unavailable(fmt.Errorf("%s: %w", what, err))
}

// unreadable says that a row came and could not be understood.
func unreadable(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil { // database/sql closes the rows under the scanner
		return ended(ctx, what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func ended(ctx context.Context, what string, err error) error {
	if errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ctx.Err(), err)
}

// The drivers' errors, by what they can tell; so neither store links the other's driver.
type (
	postgresError interface {
		error
		SQLState() string
	}
	sqliteError interface {
		error
		Code() int
	}
)

// passing lists the SQLSTATEs, or their beginnings, of a PostgreSQL that could not answer now:
// no connection, no login, no room, shutting down, timed out, a standby, a lock in the way.
var passing = []string{"08", "25", "28", "3D", "40", "53", "55P03", "57", "58"}

// wrong lists SQLite's primary result codes for a statement or value that it does not take:
// ERROR, TOOBIG, CONSTRAINT, MISMATCH, RANGE. All others are about the file.
var wrong = map[int]bool{1: true, 18: true, 19: true, 20: true, 25: true}

// refused reports that the database was reached and did not take the statement.
func refused(err error) bool {
	if e, ok := errors.AsType[postgresError](err); ok {
		for _, state := range passing {
			if strings.HasPrefix(e.SQLState(), state) {
				return false
			}
		}
		return true
	}
	e, ok := errors.AsType[sqliteError](err)
	return ok && wrong[e.Code()&0xff]
}

// unwritable reports that PostgreSQL was asked for text that it cannot hold: a NUL, or bytes
// that are not UTF-8. No row has it.
func unwritable(err error) bool {
	e, ok := errors.AsType[postgresError](err)
	return ok && e.SQLState() == "22021"
}
