package testenv

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	setupTimeout = 30 * time.Second

	// A GRANT or DROP OWNED rewrites the database's own row; two at a time
	// fail with "tuple concurrently updated", so they queue for this lock.
	databaseACLLock = 0x6d616b65676f6f64
)

// Postgres returns the URL of an empty schema that is this test's own: it is
// the only one on the URL's search_path. The URL's role is a superuser. The
// schema is dropped when the test ends, by then everything that the test left
// open in it must be closed.
func Postgres(t testing.TB) string {
	t.Helper()
	superURL, err := shared.postgres()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	schema, ownURL, err := createSchema(t.Context(), superURL)
	if err != nil {
		t.Fatalf("testenv: create a schema: %v", err)
	}
	t.Cleanup(func() {
		if err := dropSchema(superURL, schema); err != nil {
			t.Errorf("testenv: drop schema %s: %v (does a connection of this test still hold it?)", schema, err)
		}
	})
	return ownURL
}

// createSchema makes an empty schema and a URL with only it on the search_path.
func createSchema(ctx context.Context, superURL string) (schema, ownURL string, err error) {
	schema = "test_" + random()
	if ownURL, err = withSearchPath(superURL, schema); err != nil {
		return "", "", err
	}
	return schema, ownURL, execute(ctx, superURL, "CREATE SCHEMA "+schema)
}

// dropSchema removes a schema with all that is in it. A transaction that was left open in it
// is an error, not waited for.
func dropSchema(superURL, schema string) error {
	return execute(context.Background(), superURL,
		"SET lock_timeout = '10s'; SET client_min_messages = warning; DROP SCHEMA "+schema+" CASCADE")
}

// AppRole creates a role that may log in, connect to the database and use the
// schema on ownerURL's search_path, and nothing else: no table is granted to
// it. It returns the role's name and ownerURL with that role instead. The role
// is dropped when the test ends, with its grants.
func AppRole(t testing.TB, ownerURL string) (name, appURL string) {
	t.Helper()
	u, err := url.Parse(ownerURL)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	schema := u.Query().Get("search_path")
	if schema == "" {
		t.Fatalf("testenv: AppRole wants a URL of testenv.Postgres, this one has no search_path")
	}
	name, password := "app_"+random(), random()
	grant := func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), fmt.Sprintf(`
			BEGIN;
			SELECT pg_advisory_xact_lock(%[1]d);
			CREATE ROLE %[2]s LOGIN PASSWORD '%[3]s' NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
			GRANT CONNECT ON DATABASE %[4]s TO %[2]s;
			GRANT USAGE ON SCHEMA %[5]s TO %[2]s;
			COMMIT`,
			int64(databaseACLLock), name, password,
			pgx.Identifier{conn.Config().Database}.Sanitize(), pgx.Identifier{schema}.Sanitize()))
		return err
	}
	if err := withConn(t.Context(), ownerURL, grant); err != nil {
		t.Fatalf("testenv: create role %s: %v", name, err)
	}
	t.Cleanup(func() {
		err := execute(context.Background(), ownerURL, fmt.Sprintf(`
			BEGIN;
			SET LOCAL lock_timeout = '20s';
			SELECT pg_advisory_xact_lock(%[1]d);
			DROP OWNED BY %[2]s;
			DROP ROLE %[2]s;
			COMMIT`, int64(databaseACLLock), name))
		if err != nil {
			t.Errorf("testenv: drop role %s: %v", name, err)
		}
	})
	u.User = url.UserPassword(name, password)
	return name, u.String()
}

// execute runs statements, which share one implicit transaction unless they
// say otherwise.
func execute(ctx context.Context, connURL, statements string) error {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	return withConn(ctx, connURL, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statements)
		return err
	})
}

func withSearchPath(connURL, schema string) (string, error) {
	u, err := url.Parse(connURL)
	if err != nil {
		return "", err
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}

// random returns letters and digits fit for a name in SQL, never twice the same.
func random() string { return strings.ToLower(rand.Text()) }
