package docs_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/makegood/makegood/reconciler"
)

// The sessions share one build of the programs.
func TestCommandsRun(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.Command("go", "build", "-buildvcs=false", "-o", bin+"/", "./cmd/...")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, test := range map[string]func(t *testing.T, bin string){
		"readme": readme, "dispute": dispute, "copy": copySQLite, "sweep": sweepExample,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, bin)
		})
	}
}

// session is a shell in a folder of its own, with nothing set.
type session struct {
	t   *testing.T
	dir string
	env []string
}

func newSession(t *testing.T, bin string, env ...string) *session {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(bin, filepath.Join(dir, "bin")))
	env = append(env, "PATH="+os.Getenv("PATH"), "HOME="+dir, "TMPDIR="+os.TempDir(), "LISTEN_ADDR=127.0.0.1:0")
	return &session{t: t, dir: dir, env: env}
}

func (s *session) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", "exec "+line)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// run runs a line, which must succeed, and returns what it prints.
func (s *session) run(line string) string {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(line)
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(s.t, cmd.Run(), "%s\n%s%s", line, &out, &errs)
	return out.String()
}

// up starts a program in the background and waits until it says that it is ready. It is stopped
// with SIGTERM, and must then succeed, unless the test killed it.
func (s *session) up(line string) (kill func()) {
	s.t.Helper()
	cmd := s.command(line)
	out, err := cmd.StdoutPipe()
	require.NoError(s.t, err)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	require.NoError(s.t, cmd.Start())
	said := bufio.NewScanner(out)
	killed := false
	s.t.Cleanup(func() {
		if !killed {
			require.NoError(s.t, cmd.Process.Signal(syscall.SIGTERM))
			require.NoError(s.t, cmd.Wait(), "%s", &errs)
		}
	})
	require.True(s.t, said.Scan())
	require.Regexp(s.t, `^ready http://127\.0\.0\.1:\d+$`, said.Text())
	return func() {
		killed = true
		require.NoError(s.t, cmd.Process.Kill())
		_ = cmd.Wait() // says that it was killed
	}
}

// document reads what a line prints as one JSON document.
func (s *session) document(line string, into any) {
	s.t.Helper()
	require.NoError(s.t, json.Unmarshal([]byte(s.run(line)), into))
}

// newest is the id of the newest job.
func (s *session) newest() string {
	s.t.Helper()
	var jobs struct{ Data []struct{ ID string } }
	s.document("bin/makegood --json job list", &jobs)
	require.NotEmpty(s.t, jobs.Data)
	return jobs.Data[0].ID
}

var comment = regexp.MustCompile(`\s+# .*$`)

// commands are the lines of shell sessions, without their comments.
func commands(blocks []block) []string {
	var list []string
	for _, b := range blocks {
		for _, line := range b.lines {
			list = append(list, comment.ReplaceAllString(line, ""))
		}
	}
	return list
}

// play runs lines in order, with the newest job for JOB, and holds what they print against what
// is expected of a command that begins so. Each expectation must meet its command.
func (s *session) play(lines []string, expected map[string]string) {
	s.t.Helper()
	met := map[string]bool{}
	for _, line := range lines {
		if strings.Contains(line, "JOB") {
			line = strings.ReplaceAll(line, "JOB", s.newest())
		}
		out := s.run(line)
		for command, want := range expected {
			if strings.HasPrefix(line, command) {
				met[command] = true
				require.Regexp(s.t, want, out, line)
			}
		}
	}
	for command := range expected {
		require.True(s.t, met[command], command)
	}
}

// readme plays the session in the README to its end.
func readme(t *testing.T, bin string) {
	s := newSession(t, bin)
	lines := commands(code(t, "sh", in("README.md")))
	for len(lines) > 0 && lines[0] != "make build" { // before it: make demo and make test, which have tests of their own
		lines = lines[1:]
	}
	require.Greater(t, len(lines), 2)
	require.Equal(t, "bin/makegood up", lines[1])
	s.up(lines[1])
	s.play(lines[2:], map[string]string{
		"bin/makegood account grant":     `granted 100 to ada; available 100`,
		"bin/makegood job submit":        `completed \(delivered\)\s+held 5, charged 5, refunded 0`,
		"bin/makegood account statement": `(?s)closing 95.*grant\s+\+100\s+100\s.*deduct\s+-5\s+95\s`,
		"bin/makegood job show":          `(?s)completed \(delivered\).*-5 .*95.*completed`,
		"bin/makegood reconcile":         `0 open jobs seen`,
		"bin/makegood verify":            `(?s)I1\s+holds.*I6\s+holds.*\(difference 0\)`,
	})
	require.FileExists(t, filepath.Join(s.dir, s.artifact()))
}

// artifact is the file of the newest job.
func (s *session) artifact() string {
	s.t.Helper()
	var job struct {
		Result struct{ Artifacts []struct{ URL string } }
	}
	s.document("bin/makegood --json job show "+s.newest(), &job)
	require.Len(s.t, job.Result.Artifacts, 1)
	return job.Result.Artifacts[0].URL
}

func dispute(t *testing.T, bin string) {
	s := newSession(t, bin)
	s.up("bin/makegood up")
	s.run("bin/makegood account grant ada 100 --reason welcome")
	s.run(`bin/makegood job submit --account ada --type image --prompt "a quiet harbour" --wait`)
	s.play(commands(code(t, "sh", in("docs/disputes.md"))), map[string]string{
		"bin/makegood account statement ada --format csv": `(?m)^created_at,id,seq,kind,.*\n.*,1,grant,100,100,`,
		"bin/makegood account show ada --at":              `ada\s+(had )?0 `,
		"bin/makegood job list":                           `ada\s+image\s+completed\s+delivered`,
		"bin/makegood account statement ada --job":        `deduct\s+-5\s+95\s`,
		"bin/makegood job show":                           `(?s)-5 .*95.*completed`,
		"bin/makegood job credit":                         `adjusted ada by \+2; available 97`,
		"bin/makegood verify":                             `\(difference 0\)`,
	})
}

func copySQLite(t *testing.T, bin string) {
	s := newSession(t, bin)
	s.up("bin/makegood up")
	s.run("bin/makegood account grant ada 100 --reason welcome")
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "makegood.db"))
	require.NoError(t, err)
	defer db.Close()
	for _, b := range code(t, "sqlite", in("docs/sqlite.md")) {
		_, err := db.Exec(strings.ReplaceAll(b.text(), "copy.db", filepath.Join(s.dir, "copy.db")))
		require.NoError(t, err)
	}
	require.Contains(t, s.run("bin/makegood verify --database-url sqlite:copy.db"), "granted 100 ")
}

// sweepExample kills a worker in the last attempt of one job while another one waits.
func sweepExample(t *testing.T, bin string) {
	s := newSession(t, bin, "ORPHAN_THRESHOLD=3s", "LEASE_TTL=1s", "RELAY_INTERVAL=200ms", "MAX_ATTEMPTS=1", "WORKER_CONCURRENCY=1",
		"MAKEGOOD_LOCAL_DURATION=10m")
	kill := s.up("bin/makegood up")
	s.run("bin/makegood account grant ada 100 --reason welcome")
	for range 2 {
		s.run("bin/makegood job submit --account ada --type image --prompt dunes")
	}
	sweep := func() (report reconciler.Report) {
		s.document("bin/makegood reconcile --dry-run --json", &report)
		require.Len(t, report.Decisions, 2)
		return report
	}
	await(t, "the worker to renew and the relay to see the second job in the queue", func() bool {
		d := sweep().Decisions
		return evidence(t, d[0])["sign"] == "lease" && evidence(t, d[1])["sign"] == "sighting"
	})
	kill()
	var report reconciler.Report
	await(t, "both to be silent for too long", func() bool {
		report = sweep()
		return report.Refunded == 1 && report.Decisions[1].Reason == reconciler.WaitUnproven
	})
	raw, err := json.Marshal(report)
	require.NoError(t, err)
	t.Log(string(raw))

	shown := code(t, "json", in("docs/sweep.md"))
	require.Len(t, shown, 1)
	var told reconciler.Report
	require.NoError(t, json.Unmarshal([]byte(shown[0].text()), &told))
	require.Equal(t, anonymous(t, told), anonymous(t, report))
}

func evidence(t *testing.T, d reconciler.Decision) map[string]any {
	t.Helper()
	var known map[string]any
	require.NoError(t, json.Unmarshal(d.Evidence, &known))
	return known
}

// anonymous leaves out of a report what is another one each time: ids, moments, and whether the
// word of the relay that was killed was still fresh.
func anonymous(t *testing.T, r reconciler.Report) reconciler.Report {
	t.Helper()
	r.SweepID = ""
	for i := range r.Decisions {
		d := &r.Decisions[i]
		known := evidence(t, *d)
		delete(known, "last_sign_of_life")
		if known["queue"] == "unknown" {
			known["queue"] = "reached"
		}
		raw, err := json.Marshal(known)
		require.NoError(t, err)
		d.JobID, d.Evidence = "", raw
	}
	return r
}

// await looks again until it is so; each look runs a program.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !so(); {
		require.True(t, time.Now().Before(deadline), "waited in vain for "+what)
	}
}
