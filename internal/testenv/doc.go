// Package testenv gives tests private, throw-away PostgreSQL and Redis servers.
//
// A test asks for what it needs and gets something that is its own:
//
//	func TestMain(m *testing.M) { testenv.Main(m) }
//
//	func TestCharge(t *testing.T) {
//		t.Parallel()
//		owner := testenv.Postgres(t)          // a schema of its own
//		_, app := testenv.AppRole(t, owner)   // a role that may do nothing yet
//		queue := testenv.Redis(t)             // a database number of its own
//		…
//	}
//
// [Postgres] and [Redis] share one server each, so asking is cheap and tests
// run in parallel. The shared servers are those that TEST_DATABASE_URL and
// TEST_REDIS_URL name; where these are not set, a server is started once per
// process. The command in internal/testenv/run starts both once for a whole
// `go test ./...`. [OwnPostgres] and [OwnRedis] start a server that the test
// may kill, stop, freeze and start again. A program that is no test asks for
// [OpenPlace].
//
// Nothing is ever skipped: a missing server program is installed where the
// system is Debian or one of its descendants and the user may do so, and is an
// error that says what to install everywhere else.
//
// # What the servers are like
//
// They listen on 127.0.0.1 only, on a port below the ephemeral range, so that
// no outgoing connection can take the port of a server that is down for a
// moment. They trust every client on that address. Started by root they run as
// an unprivileged user, since PostgreSQL refuses root. Shared servers do not
// flush to disk (no test of theirs can tell); a test's own PostgreSQL does, and
// its own Redis keeps an append-only file, so what survives a kill is real.
//
// Two things are wider than a schema or a database number. Advisory locks and
// NOTIFY channels of PostgreSQL belong to the whole database: derive their
// names from current_schema(). Channels of Redis belong to the whole server.
//
// # What is left behind
//
// Nothing, even after kill -9. Every server has a keeper, a small shell script
// in a session of its own that holds one end of a pipe whose other end is ours.
// When we are gone, however we went, the pipe closes; the keeper then kills the
// server and removes its directory. An ordinary stop takes the same path: it
// closes the pipe. Should something kill keeper and owner together, the next
// start sweeps up: a directory whose lock nobody holds is an orphan's.
package testenv
