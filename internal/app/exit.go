package app

import (
	"context"
	"errors"

	"github.com/alecthomas/kong"

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/migrations"
)

// Exit codes of every program.
const (
	ExitDone        = 0
	ExitFailed      = 1 // also a conflict, and a job that was waited for and not delivered
	ExitUsage       = 2 // or an input that is refused
	ExitNoCredit    = 3
	ExitNotFound    = 4
	ExitBroken      = 5 // an invariant does not hold
	ExitUnavailable = 6 // try again
	ExitInterrupted = 130
)

// Coded gives errors that are not the ledger's the code that fits: a mistake on the command
// line or in a setting is invalid, a port, file or schema that is not ours to use a conflict.
func Coded(err error) error {
	if _, ok := errors.AsType[*ledger.Error](err); ok {
		return err
	}
	_, usage := errors.AsType[*kong.ParseError](err)
	_, setting := errors.AsType[*config.Error](err)
	_, schema := errors.AsType[*migrations.SchemaError](err)
	_, address := errors.AsType[*telemetry.ListenError](err)
	switch {
	case usage, setting:
		return &ledger.Error{Code: ledger.CodeInvalid, Detail: err.Error()}
	case schema, address:
		return &ledger.Error{Code: ledger.CodeConflict, Detail: err.Error()}
	}
	return err
}

// ExitCode is what a program that ends with err tells its caller.
func ExitCode(err error) int {
	err = Coded(err)
	switch {
	case err == nil:
		return ExitDone
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, ledger.ErrInvalid), errors.Is(err, ledger.ErrKeyReused):
		return ExitUsage
	case errors.Is(err, ledger.ErrInsufficientCredits):
		return ExitNoCredit
	case errors.Is(err, ledger.ErrNotFound):
		return ExitNotFound
	case errors.Is(err, ledger.ErrUnavailable):
		return ExitUnavailable
	}
	return ExitFailed
}
