package postgres

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

func TestFate(t *testing.T) {
	t.Parallel()
	said := func(severity, code string) error {
		return fmt.Errorf("batch: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for name, test := range map[string]struct {
		err                error
		before, committing ledger.Fate
	}{
		"unique key":            {said("ERROR", "23505"), ledger.FateContended, ledger.FateContended},
		"deadlock":              {said("ERROR", "40P01"), ledger.FateContended, ledger.FateContended},
		"serialization":         {said("ERROR", "40001"), ledger.FateContended, ledger.FateContended},
		"lock timeout":          {said("ERROR", "55P03"), ledger.FateUnreached, ledger.FateUnreached},
		"statement timeout":     {said("ERROR", "57014"), ledger.FateUnreached, ledger.FateUnreached},
		"idle in transaction":   {said("FATAL", "25P03"), ledger.FateUnreached, ledger.FateUnreached},
		"check":                 {said("ERROR", "23514"), ledger.FateRejected, ledger.FateRejected},
		"append only":           {said("ERROR", "23001"), ledger.FateRejected, ledger.FateRejected},
		"number out of range":   {said("ERROR", "22003"), ledger.FateRejected, ledger.FateRejected},
		"no permission":         {said("ERROR", "42501"), ledger.FateRejected, ledger.FateRejected},
		"shutdown":              {said("FATAL", "57P01"), ledger.FateUnreached, ledger.FateUnknown},
		"crash of a neighbour":  {said("WARNING", "57P02"), ledger.FateUnreached, ledger.FateUnknown},
		"starting up":           {said("FATAL", "57P03"), ledger.FateUnreached, ledger.FateUnknown},
		"connection exception":  {said("ERROR", "08006"), ledger.FateUnreached, ledger.FateUnknown},
		"disk full":             {said("ERROR", "53100"), ledger.FateUnreached, ledger.FateUnknown},
		"panic in the server":   {said("PANIC", "XX000"), ledger.FateUnreached, ledger.FateUnknown},
		"a code that is none":   {said("ERROR", ""), ledger.FateRejected, ledger.FateRejected},
		"connection broke":      {io.ErrUnexpectedEOF, ledger.FateUnreached, ledger.FateUnknown},
		"nothing was sent":      {unsent{}, ledger.FateUnreached, ledger.FateUnreached},
		"a row not to be read":  {unfitError{errors.New("x")}, ledger.FateRejected, ledger.FateRejected},
		"a job that just began": {fmt.Errorf("read: %w", errTooYoung), ledger.FateContended, ledger.FateContended},
	} {
		require.Equal(t, test.before, fate(test.err, false), name)
		require.Equal(t, test.committing, fate(test.err, true), name)
		require.ErrorIs(t, failed(test.err, false), test.err, name)
	}
}

// unsent is an error as pgx reports it when it wrote nothing.
type unsent struct{}

func (unsent) Error() string     { return "dial: refused" }
func (unsent) SafeToRetry() bool { return true }
