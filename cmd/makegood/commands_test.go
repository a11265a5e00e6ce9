package main

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/ledger"
)

func TestMigrateCommands(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		for _, command := range [][]string{{"account", "list"}, {"verify"}, {"job", "list"}, {"reconcile"}} {
			r := i.run(t, append(command, "--json")...)
			require.Equal(t, app.ExitFailed, r.code, command)
			require.Empty(t, r.out)
			require.Contains(t, decode(t, problemForm, r.err)["detail"], "makegood migrate up", command)
		}
		require.EqualValues(t, 2, decode(t, migrateForm, i.must(t, "migrate", "up", "--json"))["applied"])
		require.EqualValues(t, 0, decode(t, migrateForm, i.must(t, "migrate", "up", "--json"))["applied"])
		steps := decode(t, stepsForm, i.must(t, "migrate", "status", "--json")).list("data")
		require.Len(t, steps, 2)
		require.Equal(t, true, steps[1]["applied"])
	})
}

func TestAccountCommands(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.must(t, "migrate", "up")
		created := decode(t, accountForm, i.must(t, "account", "create", "grace", "--overdraft", "1e1", "--json"))
		require.EqualValues(t, 10, created["overdraft_limit"])

		grant := []string{"account", "grant", "ada", "10.0", "--reason", "welcome", "--key", "g-1", "--json"}
		first := decode(t, grantForm, i.must(t, grant...))
		require.EqualValues(t, 10, first["amount"])
		require.Equal(t, first, decode(t, grantForm, i.must(t, grant...)), "the same again gives nothing")

		before := time.Now()
		for _, amount := range []string{"-4", "+1"} {
			decode(t, adjustmentForm, i.must(t, "account", "adjust", "ada", amount, "--reason", "a slip", "--actor", "grace", "--json"))
		}
		shown := decode(t, accountForm, i.must(t, "account", "show", "ada", "--json"))
		require.Equal(t, map[string]any{"available": 7.0, "held": 0.0}, shown["balance"])
		require.EqualValues(t, 7, shown.at("grants", 0, "remaining"))
		past := decode(t, accountForm, i.must(t, "account", "show", "ada", "--at", before.UTC().Format(time.RFC3339Nano), "--json"))
		require.Equal(t, map[string]any{"available": 10.0, "held": 0.0}, past["balance"])

		page := decode(t, listForm(accountForm), i.must(t, "account", "list", "--limit", "1", "--json"))
		require.Equal(t, "ada", page.at("data", 0, "account"), "the newest first")
		page = decode(t, listForm(accountForm), i.must(t, "account", "list", "--json", "--cursor", page.text("next_cursor")))
		require.Len(t, page["data"], 1)
		require.Nil(t, page["next_cursor"])

		require.Contains(t, i.must(t, "account", "show", "ada", "--credit-scale", "2"), "0.07")
		require.Contains(t, i.must(t, "account", "grant", "ada", "150", "--reason", "x", "--credit-scale", "2"), "granted 1.50 to ada; available 1.57")
		require.Contains(t, i.must(t, "account", "adjust", "ada", "-150", "--reason", "x", "--actor", "g", "--credit-scale", "2"), "by -1.50; available 0.07")
		require.Contains(t, i.must(t, "verify", "--credit-scale", "1"), "= available 0.7 + held 0.0")
	})
}

func TestStatementCommand(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		job := decode(t, jobForm, i.must(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "<b>dunes</b>", "--json")).text("id")
		i.must(t, "job", "cancel", job)
		i.must(t, "account", "adjust", "ada", "-1", "--reason", "=1+1 <script>", "--actor", "grace")

		whole := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--json"))
		require.Equal(t, map[string]any{"grant": 100.0, "deduct": -5.0, "refund": 5.0, "adjust": -1.0}, whole["by_kind"])
		require.EqualValues(t, 0, whole["opening"])
		require.EqualValues(t, 99, whole["closing"])
		require.Equal(t, "grant", whole.at("entries", 0, "kind"), "oldest first")
		format := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--format", "json"))
		require.Equal(t, whole["entries"], format["entries"])

		dispute := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--job", job, "--json"))
		require.Equal(t, map[string]any{"deduct": -5.0, "refund": 5.0}, dispute["by_kind"])
		require.Len(t, dispute["entries"], 3)

		month := time.Now().UTC().Format("2006-01")
		require.Len(t, decode(t, statementForm, i.must(t, "account", "statement", "ada", "--month", month, "--json"))["entries"], 5)
		old := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--month", "2020-02", "--json"))
		require.Equal(t, "2020-02-01T00:00:00.000Z", old["from"])
		require.Equal(t, "2020-03-01T00:00:00.000Z", old["to"])
		require.Empty(t, old["entries"])
		require.Equal(t, map[string]any{}, old["by_kind"])
		refund := dispute.text("entries", 2, "created_at")
		from := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--json", "--from", refund))
		require.EqualValues(t, 95, from["opening"])
		to := decode(t, statementForm, i.must(t, "account", "statement", "ada", "--json", "--to", refund))
		require.EqualValues(t, 95, to["closing"])

		rows, err := csv.NewReader(strings.NewReader(i.must(t, "account", "statement", "ada", "--format", "csv"))).ReadAll()
		require.NoError(t, err)
		require.Len(t, rows, 6)
		require.Equal(t, "'=1+1 <script>", rows[5][8], "no formula in a spreadsheet")
		require.Contains(t, i.must(t, "account", "statement", "ada", "--credit-scale", "2"), "-0.05")

		page := i.must(t, "account", "statement", "ada", "--format", "html", "--credit-scale", "2")
		require.Contains(t, page, "=1&#43;1 &lt;script&gt;")
		require.Contains(t, page, "&#43;1.00")
		require.NotContains(t, page, "<script")
		require.NotRegexp(t, `(?i)(src|href)=|url\(|@import|https?://`, page, "nothing from elsewhere")
		require.Contains(t, i.must(t, "account", "statement", "ada", "--month", "2020-02", "--format", "html"), "Nothing happened")
	})
}

func TestJobCommands(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		submit := func(prompt string, more ...string) []string {
			return append([]string{"job", "submit", "--json", "--account", "ada", "--type", "image", "--prompt", prompt}, more...)
		}
		waiting := i.run(t, submit("dunes", "--key", "k", "--metadata", "order=17")...)
		require.Equal(t, app.ExitDone, waiting.code)
		require.Contains(t, waiting.err, "start `makegood up`", "nobody runs it, and that is said")
		queued := decode(t, jobForm, waiting.out)
		require.Equal(t, "queued", queued["state"])
		require.Equal(t, map[string]any{"available": 95.0, "held": 5.0}, queued["balance"])
		require.Equal(t, queued["id"], decode(t, jobForm, i.must(t, submit("dunes", "--key", "k", "--metadata", "order=17")...))["id"])
		require.EqualValues(t, 5, decode(t, accountForm, i.must(t, "account", "show", "ada", "--json", "--at", "2100-01-01T00:00:00Z")).at("balance", "held"))

		cancelled := decode(t, jobForm, i.must(t, "job", "cancel", queued.text("id"), "--json"))
		require.Equal(t, []any{"failed", "cancelled"}, []any{cancelled["state"], cancelled["end_reason"]})
		require.Equal(t, cancelled, decode(t, jobForm, i.must(t, "job", "cancel", queued.text("id"), "--json")), "the same again")

		i.up(t)
		free := decode(t, jobForm, i.must(t, submit("for nothing", "--cost", "0", "--wait")...))
		require.Equal(t, "completed", free["state"])
		done := decode(t, jobForm, i.must(t, submit("a harbour", "--wait", "--retry-of", queued.text("id"))...))
		require.Equal(t, "completed", done["state"])
		require.Equal(t, "image/png", done.at("result", "artifacts", 0, "content_type"))
		failed := i.run(t, submit("nothing "+app.FailWord, "--wait")...)
		require.Equal(t, app.ExitFailed, failed.code, "waited for, and not delivered")
		require.Equal(t, "failed", decode(t, jobForm, failed.out)["state"])
		require.Empty(t, failed.err)

		late := i.run(t, "job", "cancel", done.text("id"), "--json")
		require.Equal(t, app.ExitFailed, late.code)
		require.Equal(t, "already_settled", decode(t, problemForm, late.err)["code"])

		story := decode(t, storyForm, i.must(t, "job", "show", done.text("id"), "--json"))
		require.Len(t, story["attempt_log"], 1)
		require.Contains(t, i.must(t, "job", "show", done.text("id")), "charged")
		lines := strings.Split(strings.TrimSpace(i.must(t, "job", "watch", done.text("id"), "--json")), "\n")
		require.Equal(t, "completed", decode(t, jobForm, lines[len(lines)-1])["state"])

		credit := decode(t, adjustmentForm, i.must(t, "job", "credit", done.text("id"), "2", "--reason", "six fingers", "--actor", "grace", "--json"))
		require.Equal(t, done["id"], credit["about_job"])
		seen := map[any]bool{}
		for cursor := ""; ; {
			page := decode(t, listForm(jobForm), i.must(t, "job", "list", "--limit", "1", "--json", "--cursor="+cursor))
			for _, job := range page.list("data") {
				require.False(t, seen[job["id"]])
				seen[job["id"]] = true
			}
			if page["next_cursor"] == nil {
				break
			}
			cursor = page.text("next_cursor")
		}
		require.Len(t, seen, 4)
		for filter, rows := range map[string]int{"--state=failed": 2, "--type=video": 0, "--account=ada": 4, "--since=2100-01-01T00:00:00Z": 0, "--flagged": 0} {
			require.Len(t, decode(t, listForm(jobForm), i.must(t, "job", "list", "--json", filter))["data"], rows, filter)
		}
		report := decode(t, verifyForm, i.must(t, "verify", "--json"))
		require.Equal(t, true, report["ok"])
		require.Equal(t, true, decode(t, verifyForm, i.must(t, "verify", "--json", "--account", "ada"))["ok"])
	})
}

func TestFlaggedJobs(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		ids := make([]string, 3)
		for n := range ids {
			ids[n] = decode(t, jobForm, i.must(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "dunes", "--json")).text("id")
		}
		c := cli{streams: streams{nil, t.Output(), t.Output()}}
		_, err := newParser(&c, func(int) {}).Parse(append([]string{"verify"}, i.flags...))
		require.NoError(t, err)
		require.NoError(t, c.with(t.Context(), func(a *app.App) error { // a worker that does nothing
			for _, id := range ids[:2] {
				if _, err := a.Ledger.Start(t.Context(), ledger.StartJob{JobID: id, Token: id, Worker: "idle", LeaseTTL: time.Minute}); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Empty(t, decode(t, listForm(jobForm), i.must(t, "job", "list", "--flagged", "--json"))["data"])
		for _, id := range ids[:2] {
			i.must(t, "job", "cancel", id)
		}
		first := decode(t, listForm(jobForm), i.must(t, "job", "list", "--flagged", "--json", "--limit=1"))
		require.Equal(t, ids[1], first.at("data", 0, "id"))
		second := decode(t, listForm(jobForm), i.must(t, "job", "list", "--flagged", "--json", "--limit=1", "--cursor="+first.text("next_cursor")))
		require.Equal(t, ids[0], second.at("data", 0, "id"))
		require.Nil(t, second["next_cursor"])
		require.Contains(t, i.must(t, "job", "list", "--flagged"), "cancel_requested")
	})
}

func TestReconcileCommand(t *testing.T) {
	onEach(t, func(t *testing.T, i installation) {
		i.migrated(t)
		i.must(t, "job", "submit", "--account", "ada", "--type", "image", "--prompt", "dunes", "--max-wait", "1ms")
		later := decode(t, reconcileForm, i.must(t, "reconcile", "--dry-run", "--json"))
		require.EqualValues(t, 1, later["refunded"], "%v", later)
		require.EqualValues(t, 1, decode(t, accountForm, i.must(t, "account", "show", "ada", "--json"))["open_jobs"], "a dry run does nothing")
		require.Contains(t, i.must(t, "reconcile", "--dry-run"), "1 would be refunded")
		swept := decode(t, reconcileForm, i.must(t, "reconcile", "--json"))
		require.Equal(t, "max_wait", swept.at("decisions", 0, "reason"))
		require.EqualValues(t, 100, decode(t, accountForm, i.must(t, "account", "show", "ada", "--json")).at("balance", "available"))
	})
}

func TestConfigCommand(t *testing.T) {
	t.Parallel()
	i := installation{[]string{"--database-url=postgres://app:s3cret@db/m", "--redis-url=rediss://:s3cret@queue:6380"}}
	printed := i.must(t, "config", "--json")
	settings := map[any]any{}
	for _, row := range decode(t, configForm, printed).list("data") {
		settings[row["name"]] = row["value"]
	}
	require.Equal(t, "postgres://app:xxxxx@db/m", settings["DATABASE_URL"])
	require.Nil(t, settings["PUBLIC_URL"])
	require.NotContains(t, printed+i.must(t, "config"), "s3cret")
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	require.Equal(t, version+"\n", installation{}.must(t, "--version"))
	require.Contains(t, installation{}.must(t), "Usage: makegood <command>")
	require.Contains(t, installation{}.must(t, "account", "grant", "--help"), "Examples:")
}
