package testenv

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestPostgresSchemaIsOwn(t *testing.T) {
	t.Parallel()
	first, second := connect(t, Postgres(t)), connect(t, Postgres(t))
	for i, conn := range []*pgx.Conn{first, second} {
		execSQL(t, conn, "CREATE TABLE thing (n int)")
		execSQL(t, conn, "INSERT INTO thing VALUES ($1)", i)
	}
	require.Equal(t, 0, queryInt(t, first, "SELECT n FROM thing"))
	require.Equal(t, 1, queryInt(t, second, "SELECT n FROM thing"))
}

func TestPostgresSchemaIsDropped(t *testing.T) {
	t.Parallel()
	var schema string
	t.Run("user", func(t *testing.T) {
		conn := connect(t, Postgres(t))
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema))
		execSQL(t, conn, "CREATE TABLE thing (n int)")
	})
	conn := connect(t, Postgres(t))
	require.Equal(t, 0, queryInt(t, conn, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema))
}

func TestPostgresIsWhatProductionIs(t *testing.T) {
	t.Parallel()
	conn := connect(t, Postgres(t))
	for setting, want := range map[string]string{"server_encoding": "UTF8", "TimeZone": "UTC"} {
		var got string
		require.NoError(t, conn.QueryRow(t.Context(), "SELECT current_setting($1)", setting).Scan(&got))
		require.Equal(t, want, got, setting)
	}
	require.GreaterOrEqual(t, queryInt(t, conn, "SELECT current_setting('max_connections')::int"), 300)
}

func TestAppRoleMayDoNothingYet(t *testing.T) {
	t.Parallel()
	ownerURL := Postgres(t)
	owner := connect(t, ownerURL)
	execSQL(t, owner, "CREATE TABLE money (n int)")
	name, appURL := AppRole(t, ownerURL)
	app := connect(t, appURL)

	var user, schema, ownerSchema string
	require.NoError(t, app.QueryRow(t.Context(), "SELECT current_user, current_schema()").Scan(&user, &schema))
	require.NoError(t, owner.QueryRow(t.Context(), "SELECT current_schema()").Scan(&ownerSchema))
	require.Equal(t, name, user)
	require.Equal(t, ownerSchema, schema)

	for _, statement := range []string{
		"SELECT * FROM money", "INSERT INTO money VALUES (1)", "DELETE FROM money", "TRUNCATE money",
		"DROP TABLE money", "ALTER TABLE money DISABLE TRIGGER ALL",
		"CREATE TABLE mine (n int)", "CREATE TEMP TABLE mine (n int)", "CREATE TABLE public.mine (n int)",
		"CREATE SCHEMA mine", "CREATE ROLE mine", "SET ROLE postgres", "SET session_replication_role = replica",
	} {
		_, err := app.Exec(t.Context(), statement)
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused, statement)
		// insufficient_privilege, or the right's name for tables and roles
		require.Contains(t, []string{"42501", "42601"}, refused.Code, "%s: %v", statement, err)
	}

	execSQL(t, owner, "GRANT SELECT, INSERT ON money TO "+name)
	execSQL(t, app, "INSERT INTO money VALUES (7)")
	require.Equal(t, 7, queryInt(t, app, "SELECT n FROM money"))
}

func TestAppRolesAtOnce(t *testing.T) {
	t.Parallel()
	ownerURL := Postgres(t)
	t.Run("roles", func(t *testing.T) {
		for range 20 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				_, appURL := AppRole(t, ownerURL)
				connect(t, appURL)
			})
		}
	})
}

func TestOwnPostgresKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	s := OwnPostgres(t)
	url := s.URL()
	execSQL(t, connect(t, url), "CREATE TABLE thing (n int)")

	for i, end := range []func(){s.Kill, s.Stop, s.Kill} {
		conn := connect(t, url)
		execSQL(t, conn, "INSERT INTO thing VALUES ($1)", i)
		end()
		require.Error(t, conn.Ping(t.Context()), "the connection ends with its server")
		_, err := pgx.Connect(t.Context(), url)
		require.Error(t, err, "nobody answers while it is down")
		s.Start()
		require.Equal(t, url, s.URL())
		require.Equal(t, i+1, queryInt(t, connect(t, url), "SELECT count(*) FROM thing"))
	}
	require.Equal(t, 1, queryInt(t, connect(t, url), "SELECT (current_setting('fsync') = 'on')::int"))
}

func TestOwnPostgresIsPrivate(t *testing.T) {
	t.Parallel()
	a, b := OwnPostgres(t), OwnPostgres(t)
	require.NotEqual(t, a.URL(), b.URL())
	require.NotEqual(t, a.srv.keep.dir, b.srv.keep.dir)
	a.Kill()
	require.Equal(t, 1, queryInt(t, connect(t, b.URL()), "SELECT 1"))
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func execSQL(t *testing.T, conn *pgx.Conn, statement string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement, args...)
	require.NoError(t, err, statement)
}

func queryInt(t *testing.T, conn *pgx.Conn, query string, args ...any) int {
	t.Helper()
	var n int
	require.NoError(t, conn.QueryRow(t.Context(), query, args...).Scan(&n), query)
	return n
}
