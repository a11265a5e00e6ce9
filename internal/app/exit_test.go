package app_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/migrations"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		code int
		says ledger.Code
	}{
		{nil, app.ExitDone, ""},
		{errors.New("who knows"), app.ExitFailed, ""},
		{ledger.ErrInvalid, app.ExitUsage, ledger.CodeInvalid},
		{ledger.ErrKeyReused, app.ExitUsage, ledger.CodeKeyReused},
		{ledger.ErrInsufficientCredits, app.ExitNoCredit, ledger.CodeInsufficient},
		{ledger.NotFound("job", "x"), app.ExitNotFound, ledger.CodeNotFound},
		{ledger.ErrConflict, app.ExitFailed, ledger.CodeConflict},
		{ledger.ErrAlreadySettled, app.ExitFailed, ledger.CodeSettled},
		{ledger.Unavailable(errors.New("down")), app.ExitUnavailable, ledger.CodeUnavailable},
		{&config.Error{Name: "TENANT", Problem: "empty"}, app.ExitUsage, ledger.CodeInvalid},
		{&migrations.SchemaError{Have: 1, Want: 2}, app.ExitFailed, ledger.CodeConflict},
		{&telemetry.ListenError{Addr: ":1", Problem: "is in use"}, app.ExitFailed, ledger.CodeConflict},
		{context.Canceled, app.ExitInterrupted, ""},
	} {
		err := test.err
		if err != nil {
			err = fmt.Errorf("doing something: %w", err)
		}
		require.Equal(t, test.code, app.ExitCode(err), "%v", err)
		if coded, ok := errors.AsType[*ledger.Error](app.Coded(err)); ok || test.says != "" {
			require.Equal(t, test.says, coded.Code)
			require.Contains(t, app.Coded(err).Error(), test.err.Error())
		}
	}
}
