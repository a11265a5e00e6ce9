package migrations_test

import (
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/migrations"
)

// granted makes a migrated schema and a role with what GrantAppRole gives.
func granted(t *testing.T) (owner, app *sql.DB, role string) {
	t.Helper()
	url := testenv.Postgres(t)
	owner = handle(t, "pgx", url)
	_, err := migrations.Up(t.Context(), owner, migrations.Postgres)
	require.NoError(t, err)
	role, appURL := testenv.AppRole(t, url)
	require.NoError(t, migrations.GrantAppRole(t.Context(), owner, role))
	return owner, handle(t, "pgx", appURL), role
}

// tables and what the programs' role may do to each.
var privileges = map[string]string{
	"credit_transactions": "INSERT SELECT",
	"installation":        "SELECT",
	"goose_db_version":    "SELECT",
	"accounts":            "DELETE INSERT SELECT UPDATE",
	"grants":              "DELETE INSERT SELECT UPDATE",
	"adjustments":         "DELETE INSERT SELECT UPDATE",
	"jobs":                "DELETE INSERT SELECT UPDATE",
	"open_jobs":           "DELETE INSERT SELECT UPDATE",
	"ended_jobs":          "DELETE INSERT SELECT UPDATE",
	"attempts":            "DELETE INSERT SELECT UPDATE",
	"workers":             "DELETE INSERT SELECT UPDATE",
	"relays":              "DELETE INSERT SELECT UPDATE",
	"sweeps":              "DELETE INSERT SELECT UPDATE",
	"vendor_calls":        "DELETE INSERT SELECT UPDATE",
	"vendor_events":       "DELETE INSERT SELECT UPDATE",
}

func privilegesOf(t *testing.T, owner *sql.DB, role string) map[string]string {
	t.Helper()
	rows, err := owner.Query(`SELECT c.relname, coalesce(string_agg(p, ' ' ORDER BY p) FILTER (WHERE has_table_privilege($1, c.oid, p)), '')
		FROM pg_class c CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) p
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r' GROUP BY c.relname`, role)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var table, may string
		require.NoError(t, rows.Scan(&table, &may))
		all[table] = may
	}
	require.NoError(t, rows.Err())
	return all
}

// A table that a later migration adds fails this until it is granted.
func TestAppRoleHasWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	owner, _, role := granted(t)
	require.Equal(t, privileges, privilegesOf(t, owner, role))

	t.Run("more is taken back", func(t *testing.T) {
		name := pgx.Identifier{role}.Sanitize()
		for _, statement := range []string{
			"GRANT ALL ON credit_transactions, goose_db_version TO " + name,
			"GRANT UPDATE (reason) ON credit_transactions TO " + name,
			"GRANT UPDATE, DELETE ON credit_transactions TO PUBLIC",
		} {
			_, err := owner.Exec(statement)
			require.NoError(t, err)
		}
		require.NoError(t, migrations.GrantAppRole(t.Context(), owner, role))
		require.Equal(t, privileges, privilegesOf(t, owner, role))
		var columns bool
		require.NoError(t, owner.QueryRow("SELECT has_any_column_privilege($1, 'credit_transactions', 'UPDATE')", role).Scan(&columns))
		require.False(t, columns)
	})
}

func TestAppRoleIsRefused(t *testing.T) {
	t.Parallel()
	_, app, _ := granted(t)
	for _, statement := range []string{
		"UPDATE credit_transactions SET delta = 1",
		"UPDATE credit_transactions SET delta = 1 WHERE false",
		"DELETE FROM credit_transactions",
		"TRUNCATE credit_transactions",
		"UPDATE goose_db_version SET version_id = 9",
		"UPDATE installation SET id = gen_random_uuid()",
	} {
		_, err := app.Exec(statement)
		require.ErrorContains(t, err, "permission denied", statement)
	}
	for _, statement := range []string{
		"ALTER TABLE credit_transactions DISABLE TRIGGER ALL",
		"ALTER TABLE credit_transactions DROP CONSTRAINT credit_transactions_job_kind",
		"DROP TRIGGER credit_transactions_no_change ON credit_transactions",
		"DROP TABLE credit_transactions",
	} {
		_, err := app.Exec(statement)
		require.ErrorContains(t, err, "must be owner", statement)
	}
	_, err := app.Exec("SET session_replication_role = replica")
	require.ErrorContains(t, err, "permission denied")
}

func TestGrantAppRoleRefusesRoles(t *testing.T) {
	t.Parallel()
	owner, _, _ := granted(t)
	var superuser string
	require.NoError(t, owner.QueryRow("SELECT current_user").Scan(&superuser))
	for role, says := range map[string]string{
		"nobody_of_ours":                         `role "nobody_of_ours" does not exist`,
		`x"; DROP TABLE credit_transactions; --`: "does not exist",
		"":                                       "does not exist",
		superuser:                                "nothing could be kept from it",
	} {
		require.ErrorContains(t, migrations.GrantAppRole(t.Context(), owner, role), says)
	}
	require.NoError(t, migrations.Check(t.Context(), owner, migrations.Postgres))

	empty := handle(t, "pgx", testenv.Postgres(t))
	require.ErrorContains(t, migrations.GrantAppRole(t.Context(), empty, superuser), "makegood migrate up")
}

// A role is quoted, whatever its name.
func TestGrantAppRoleQuotes(t *testing.T) {
	t.Parallel()
	owner, _, role := granted(t)
	odd := role + ` "O'Neil"; --`
	quoted := pgx.Identifier{odd}.Sanitize()
	_, err := owner.Exec("CREATE ROLE " + quoted)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := owner.Exec("DROP OWNED BY " + quoted + "; DROP ROLE " + quoted)
		require.NoError(t, err)
	})
	require.NoError(t, migrations.GrantAppRole(t.Context(), owner, odd))
	require.Equal(t, privileges, privilegesOf(t, owner, odd))
}
