package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
)

// refusal is a command that must be refused.
type refusal struct {
	name, command, stdin string
	code                 int
	problem, says        string
}

const someJob = "01JD8Z7V3Q6X4T2M9K5R1W0YHB"

var refusals = []refusal{
	{name: "unknown account, show", command: "account show nobody", code: 4, problem: "not_found", says: `"nobody"`},
	{name: "unknown account, statement", command: "account statement nobody", code: 4, problem: "not_found"},
	{name: "unknown account, adjust", command: "account adjust nobody 5 --reason r --actor a", code: 4, problem: "not_found"},
	{name: "unknown account, submit", command: "job submit --account nobody --type image --prompt p", code: 4, problem: "not_found"},
	{name: "unknown account, list", command: "job list --account nobody", code: 4, problem: "not_found"},
	{name: "unknown account, verify", command: "verify --account nobody", code: 4, problem: "not_found"},
	{name: "another tenant's account", command: "account show ada --tenant other", code: 4, problem: "not_found"},
	{name: "unknown job, show", command: "job show " + someJob, code: 4, problem: "not_found"},
	{name: "unknown job, watch", command: "job watch " + someJob, code: 4, problem: "not_found"},
	{name: "unknown job, cancel", command: "job cancel " + someJob, code: 4, problem: "not_found"},
	{name: "unknown job, credit", command: "job credit " + someJob + " 5 --reason r --actor a", code: 4, problem: "not_found"},
	{name: "unknown job, statement", command: "account statement ada --job " + someJob, code: 4, problem: "not_found"},
	{name: "unknown job, retry", command: "job submit --account ada --type image --prompt p --retry-of " + someJob, code: 4, problem: "not_found"},
	{name: "no id, cancel", command: "job cancel 17", code: 2, problem: "invalid_request", says: "26 characters"},
	{name: "too poor", command: "job submit --account ada --type image --prompt p --cost 101", code: 3, problem: "insufficient_credits", says: "needs 101, has 100"},
	{name: "unknown type", command: "job submit --account ada --type opera --prompt p", code: 2, problem: "invalid_request", says: "it makes: image"},
	{name: "no input", command: "job submit --account ada --type image", code: 2, problem: "invalid_request", says: "--prompt or --input"},
	{name: "two inputs", command: "job submit --account ada --type image --prompt p --input {}", code: 2, problem: "invalid_request"},
	{name: "broken input", command: `job submit --account ada --type image --input {"prompt":`, code: 2, problem: "invalid_request"},
	{name: "missing file", command: "job submit --account ada --type image --input @/none", code: 2, problem: "invalid_request", says: "/none"},
	{name: "huge input", command: "job submit --account ada --type image --input -", stdin: `{"prompt":"` + strings.Repeat("a", 64<<10) + `"}`, code: 2, problem: "invalid_request"},
	{name: "huge metadata", command: "job submit --account ada --type image --prompt p --metadata k=" + strings.Repeat("a", 4<<10), code: 2, problem: "invalid_request", says: "4096"},
	{name: "grant key reused", command: "account grant ada 6 --reason r --key used", code: 2, problem: "idempotency_key_reused", says: "use a new key"},
	{name: "job key reused", command: "job submit --account ada --type image --prompt other --key used", code: 2, problem: "idempotency_key_reused", says: "use a new key"},
	{name: "job key of another account", command: "job submit --account grace --type image --prompt p --cost 0 --key used", code: 2, problem: "idempotency_key_reused"},
	{name: "another overdraft", command: "account create ada --overdraft 9", code: 1, problem: "conflict"},
	{name: "empty account", command: "account create ''", code: 2, problem: "invalid_request", says: "empty"},
	{name: "long account", command: "account create " + strings.Repeat("a", 256), code: 2, problem: "invalid_request", says: "255"},
	{name: "spaced account", command: "account create ' ada'", code: 2, problem: "invalid_request", says: "white space"},
	{name: "account with a control character", command: "account create 'a\tb'", code: 2, problem: "invalid_request", says: "control"},
	{name: "account that is no UTF-8", command: "account create 'a\xff'", code: 2, problem: "invalid_request", says: "UTF-8"},
	{name: "long key", command: "account grant ada 5 --reason r --key " + strings.Repeat("k", 256), code: 2, problem: "invalid_request", says: "255"},
	{name: "empty reason", command: "account grant ada 5 --reason ''", code: 2, problem: "invalid_request", says: "say in a few words why"},
	{name: "no actor", command: "account adjust ada 5 --reason r", code: 2, problem: "invalid_request", says: "--actor"},
	{name: "bad page", command: "account list --limit 201", code: 2, problem: "invalid_request", says: "1 to 200"},
	{name: "bad cursor", command: "job list --cursor x", code: 2, problem: "invalid_request", says: "next_cursor"},
	{name: "bad month", command: "account statement ada --month 2026-13", code: 2, problem: "invalid_request", says: "YYYY-MM"},
	{name: "month and from", command: "account statement ada --month 2026-01 --from 2026-01-01T00:00:00Z", code: 2, problem: "invalid_request"},
	{name: "backwards", command: "account statement ada --from 2026-02-01T00:00:00Z --to 2026-01-01T00:00:00Z", code: 2, problem: "invalid_request", says: "before"},
	{name: "bad time", command: "account show ada --at yesterday", code: 2, problem: "invalid_request"},
	{name: "bad state", command: "job list --state done", code: 2, problem: "invalid_request", says: "completed"},
	{name: "bad shell", command: "completion tcsh", code: 2, problem: "invalid_request", says: "fish"},
	{name: "unknown command", command: "acount list", code: 2, problem: "invalid_request", says: "account"},
	{name: "unknown flag", command: "account list --newest", code: 2, problem: "invalid_request", says: "--newest"},
	{name: "bad setting", command: "account list --log-level loud", code: 2, problem: "invalid_request", says: "LOG_LEVEL"},
}

// badAmounts are refused wherever an amount is wanted.
var badAmounts = []string{"-0.6", "0.5", "NaN", "Infinity", "-Infinity", "1e400", "''", "null", "9007199254740992", "-9007199254740992", "0x10", "1_000", "10,0", "' 1'"}

func amountRefusals() (list []refusal) {
	places := map[string]string{
		"grant": "account grant ada %s --reason r", "adjust": "account adjust ada %s --reason r --actor a",
		"cost": "job submit --account ada --type image --prompt p --cost=%s", "overdraft": "account create new --overdraft=%s",
	}
	add := func(place, amount string) {
		list = append(list, refusal{name: place + " " + amount, command: strings.Replace(places[place], "%s", amount, 1), code: 2, problem: "invalid_request"})
	}
	for place := range places {
		for _, amount := range badAmounts {
			add(place, amount)
		}
	}
	for _, place := range []string{"grant", "cost", "overdraft"} {
		add(place, "-1")
	}
	add("grant", "0")
	add("adjust", "0")
	return list
}

// words splits a command as a shell does, with ' alone.
func words(command string) (list []string) {
	for n, part := range strings.Split(command, "'") {
		switch {
		case n%2 == 0:
			list = append(list, strings.Fields(part)...)
		case strings.HasSuffix(list[len(list)-1], "="):
			list[len(list)-1] += part
		default:
			list = append(list, part)
		}
	}
	return list
}

func TestRefusalsSayWhyAndMoveNothing(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		i.must(t, "account", "create", "grace")
		i.must(t, "account", "grant", "ada", "5", "--reason", "r", "--key", "used")
		i.must(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "p", "--key", "used")
		state := func() string {
			report := decode(t, verifyForm, i.must(t, "verify", "--json"))
			return i.must(t, "account", "list", "--json") + i.must(t, "job", "list", "--json") +
				i.must(t, "account", "statement", "ada", "--format", "csv") + encoded(t, report["counts"]) + encoded(t, report["conservation"])
		}
		before := state()
		for _, r := range append(amountRefusals(), refusals...) {
			args := words(r.command)
			got := i.runWith(t, r.stdin, append(args, "--json")...)
			require.Equal(t, r.code, got.code, "%s: %s", r.name, got.err)
			require.Empty(t, got.out, r.name)
			problem := decode(t, problemForm, got.err)
			require.Equal(t, r.problem, problem["code"], "%s: %s", r.name, got.err)
			require.Contains(t, problem["detail"], r.says, r.name)
			if r.says == "" || !strings.Contains(i.flags[0], "sqlite:") {
				continue // how it reads to a person is the same on both
			}
			got = i.runWith(t, r.stdin, args...)
			require.Equal(t, r.code, got.code, r.name)
			require.True(t, strings.HasPrefix(got.err, "makegood: "), "%s: %q", r.name, got.err)
			require.Equal(t, 1, strings.Count(got.err, "\n"), "one clear line: %q", got.err)
		}
		require.Equal(t, before, state())

		poor := i.run(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "p", "--cost", "150", "--credit-scale", "2")
		require.Equal(t, "makegood: insufficient credits: needs 1.50, has 1.00\n", poor.err)
		rich := decode(t, problemForm, i.run(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "p", "--cost", "150", "--json").err)
		require.EqualValues(t, 150, rich["required"])
		require.EqualValues(t, 100, rich["available"])
	})
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

func TestConnectionsThatFail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, r := range []struct {
		command       string
		code          int
		problem, says string
	}{
		{"account list --database-url postgres://u:s3cret@127.0.0.1:1/db", app.ExitUnavailable, "ledger_unavailable", "127.0.0.1:1 cannot be reached (connection refused)"},
		{"verify --database-url postgres://u:s3cret@127.0.0.1:1/db", app.ExitUnavailable, "ledger_unavailable", "cannot be reached"},
		{"migrate up --database-url postgres://u:s3cret@127.0.0.1:1/db", app.ExitUnavailable, "ledger_unavailable", "cannot be reached"},
		{"migrate status --database-url postgres://u:s3cret@127.0.0.1:1/db", app.ExitUnavailable, "ledger_unavailable", "cannot be reached"},
		{"up --redis-url redis://127.0.0.1:1 --database-url postgres://u:s3cret@127.0.0.1:1/db", app.ExitUnavailable, "ledger_unavailable", "cannot be reached"},
		{"account list --database-url mysql://u:s3cret@db/m", app.ExitUsage, "invalid_request", "DATABASE_URL: mysql:"},
		{"account list --redis-url http://u:s3cret@db", app.ExitUsage, "invalid_request", "REDIS_URL: http:"},
		{"account list --database-url sqlite:" + dir + "/typo.db", app.ExitFailed, "conflict", "does not exist"},
		{"verify --database-url sqlite:" + dir + "/typo.db", app.ExitFailed, "conflict", "does not exist"},
		{"migrate status --database-url sqlite:" + dir + "/typo.db", app.ExitFailed, "conflict", "does not exist"},
		{"migrate up --database-url sqlite:" + dir + "/none/x.db", app.ExitFailed, "conflict", "create it first"},
		{"up --database-url sqlite:" + dir + "/none/x.db", app.ExitFailed, "conflict", "create it first"},
		{"migrate up --app-role x --database-url sqlite:" + dir + "/x.db", app.ExitUsage, "invalid_request", "SQLite has no roles"},
	} {
		got := installation{}.run(t, append(words(r.command), "--json")...)
		require.Equal(t, r.code, got.code, "%s: %s", r.command, got.err)
		problem := decode(t, problemForm, got.err)
		require.Equal(t, r.problem, problem["code"], r.command)
		require.Contains(t, problem["detail"], r.says, r.command)
		require.NotContains(t, got.err, "s3cret")
		require.Empty(t, got.out)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "a mistyped name creates nothing")
}

func TestSubmitWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	i := stores["sqlite and embedded Redis"](t).migrated(t)
	got := i.run(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "p", "--json", "--redis-url", "redis://127.0.0.1:1")
	require.Equal(t, app.ExitDone, got.code, got.err)
	require.Equal(t, "queued", decode(t, jobForm, got.out)["state"])
	require.Contains(t, got.err, "accepted")
	require.Contains(t, got.err, "waits")
}

func TestPromptsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "prompts.jsonl")
	require.NoError(t, os.WriteFile(file, []byte("{\"account\":\n\n{\"account\":\"ada\",\"type\":\"opera\",\"prompt\":\"p\"}\n"), 0o600))
	got := installation{}.run(t, "demo", "--prompts", file, "--out", t.TempDir())
	require.Equal(t, app.ExitUsage, got.code, got.err)
	require.Contains(t, got.err, "line 1: ")
	require.Contains(t, got.err, "line 3: type: ")
}
