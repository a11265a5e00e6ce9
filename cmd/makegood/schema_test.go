package main

import (
	"database/sql"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/internal/app"
)

// tamper runs a statement beside the program.
func (i installation) tamper(t *testing.T, statement string) {
	t.Helper()
	address := strings.TrimPrefix(i.flags[0], "--database-url=")
	driver := "pgx"
	if file, ok := strings.CutPrefix(address, "sqlite:"); ok {
		driver, address = "sqlite", file
	}
	db, err := sql.Open(driver, address)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
}

func TestSchemasOfAnotherVersion(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		refused := func(says string, commands ...string) {
			t.Helper()
			for _, command := range commands {
				got := i.run(t, append(strings.Fields(command), "--json")...)
				require.Equal(t, app.ExitFailed, got.code, "%s: %s", command, got.err)
				problem := decode(t, problemForm, got.err)
				require.Equal(t, "conflict", problem["code"])
				require.Contains(t, problem["detail"], says, command)
			}
		}
		i.tamper(t, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, true)")
		refused("newer than this program (schema 99,", "account list", "verify", "reconcile", "migrate up", "up --listen-addr 127.0.0.1:0")
		i.tamper(t, "DELETE FROM goose_db_version WHERE version_id > 1")
		refused("older than this program (schema 1,", "account list", "verify", "reconcile")
	})
}

func TestABrokenLedgerIsFiveToTheShell(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		guard := "credit_transactions_no_change ON credit_transactions"
		if strings.Contains(i.flags[0], "sqlite:") {
			guard = "credit_transactions_no_update"
		}
		i.tamper(t, "DROP TRIGGER "+guard)
		i.tamper(t, "UPDATE credit_transactions SET balance_after = balance_after + 1 WHERE kind = 'grant'")
		got := i.run(t, "verify", "--json")
		require.Equal(t, app.ExitBroken, got.code)
		report := decode(t, verifyForm, got.out)
		require.Equal(t, false, report["ok"])
		require.NotEmpty(t, report["broken"])
		require.Empty(t, got.err)
		require.Contains(t, i.run(t, "verify").out, "BROKEN")
	})
}
