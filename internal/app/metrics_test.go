package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/tasks"
)

// soon is how long something may take that takes a second or two.
const soon = 40 * time.Second

// Real jobs, real programs: each tells what docs/metrics.md says that it tells, nothing else,
// and the numbers are those of what happened.
func TestScrapes(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "github.com/makegood/makegood/cmd/...")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))

	t.Run("up on SQLite with the embedded Redis", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, bin, "sqlite:"+filepath.Join(t.TempDir(), "makegood.db"), "")
		up := s.run("makegood", "up")
		s.happen()
		s.settled(up)
		s.check([]*program{up}, told{"all", "worker", "sweep"})
	})
	t.Run("up on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, bin, testenv.Postgres(t), testenv.Redis(t))
		up := s.run("makegood", "up")
		s.happen()
		s.charge()
		s.settled(up)
		s.check([]*program{up}, told{"all", "worker", "sweep", "PostgreSQL", "Redis server"})
	})
	t.Run("worker and scheduler on PostgreSQL", func(t *testing.T) {
		t.Parallel()
		database, queue := testenv.OwnPostgres(t), testenv.OwnRedis(t)
		s := newSite(t, bin, database.URL(), queue.URL())
		client, err := tasks.RedisClient(queue.URL())
		require.NoError(t, err)
		defer client.Close()
		const most = 64 << 20
		require.NoError(t, client.ConfigSet(t.Context(), "maxmemory", fmt.Sprint(most)).Err())
		worker, scheduler := s.run("worker"), s.run("scheduler")
		s.happen()
		s.charge()
		s.settled(worker, scheduler)
		s.check([]*program{worker, scheduler}, told{"all", "worker", "sweep", "PostgreSQL", "Redis server", "limit"},
			told{"all", "sweep", "PostgreSQL", "Redis server", "limit"})
		seen := worker.scrape()
		used := seen.value("redis_memory_used_bytes")
		require.Positive(t, used)
		require.InDelta(t, most, seen.value("redis_memory_max_bytes"), 0)
		require.InDelta(t, used/most, seen.value("redis_memory_used_ratio"), 1e-9)

		queue.Freeze() // connections stay open and nothing is answered
		s.without([]*program{worker, scheduler}, "redis", "ledger")
		queue.Thaw()
		s.eventually("Redis is back", func() bool { return worker.scrape().value("redis_up") == 1 })
		database.Stop()
		s.without([]*program{worker, scheduler}, "ledger", "redis")
		queue.Stop()
		s.without([]*program{worker}, "redis", "")
		queue.Start()
		database.Start()
		for _, p := range []*program{worker, scheduler} {
			s.eventually("all is back", func() bool {
				seen := p.scrape()
				return seen.value("redis_up") == 1 && seen.value("ledger_up") == 1
			})
		}
	})
}

// site is an installation: a database, a queue, and this test's own view of the books.
type site struct {
	t       *testing.T
	bin     string
	dir     string
	environ []string
	redis   string // "" for the embedded one
	books   *ledger.Ledger
	ada     ledger.AccountName
	charged bool
}

func newSite(t *testing.T, bin, databaseURL, redisURL string) *site {
	t.Helper()
	s := &site{t: t, bin: bin, dir: t.TempDir(), redis: redisURL, ada: ledger.AccountName{Tenant: "default", Name: "ada"}}
	s.environ = append(os.Environ(), "DATABASE_URL="+databaseURL, "MIGRATE_DATABASE_URL=", "REDIS_URL="+redisURL, "LISTEN_ADDR=127.0.0.1:0",
		"ARTIFACTS_URL=file://"+filepath.Join(s.dir, "artifacts"), "LOG_FORMAT=json", "LOG_LEVEL=info",
		"LEASE_TTL=1s", "RELAY_INTERVAL=200ms", "ORPHAN_THRESHOLD=3s", "SWEEP_INTERVAL=1s", "SHUTDOWN_TIMEOUT=5s")
	cfg := config.Default()
	cfg.DatabaseURL = databaseURL
	_, err := app.Migrate(t.Context(), cfg)
	require.NoError(t, err)
	var store ledger.Store
	if file, ok := cfg.SQLiteFile(); ok {
		store, err = sqlite.Open(t.Context(), file, sqlite.Options{})
	} else {
		store, err = postgres.Open(t.Context(), databaseURL, postgres.Options{})
	}
	require.NoError(t, err)
	s.books = ledger.New(store, ledger.Options{Lanes: 1})
	t.Cleanup(func() { s.books.Close(); require.NoError(t, store.Close()) })
	return s
}

// program is one that runs.
type program struct {
	t   *testing.T
	url string
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// run starts a program and waits until it says where it listens. It ends with the test, by
// SIGTERM and in order.
func (s *site) run(name string, args ...string) *program {
	s.t.Helper()
	cmd := exec.CommandContext(context.Background(), filepath.Join(s.bin, name), args...)
	cmd.Env, cmd.Dir = s.environ, s.dir
	said, err := os.CreateTemp(s.dir, name)
	require.NoError(s.t, err)
	heard, says, err := os.Pipe()
	require.NoError(s.t, err)
	cmd.Stdout, cmd.Stderr = says, says
	require.NoError(s.t, cmd.Start())
	require.NoError(s.t, says.Close())
	ready, silent := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(silent)
		lines := bufio.NewScanner(heard)
		for lines.Scan() {
			_, _ = fmt.Fprintln(said, lines.Text())
			if url := address.FindString(lines.Text()); url != "" && strings.Contains(lines.Text(), "ready") {
				select {
				case ready <- url:
				default:
				}
			}
		}
	}()
	s.t.Cleanup(func() {
		require.NoError(s.t, cmd.Process.Signal(syscall.SIGTERM))
		<-silent
		err := cmd.Wait()
		log, _ := os.ReadFile(said.Name())
		require.NoError(s.t, err, "%s ended badly:\n%s", name, log)
		if s.t.Failed() {
			s.t.Logf("%s said:\n%s", name, log)
		}
		_, _ = heard.Close(), said.Close()
	})
	select {
	case url := <-ready:
		return &program{s.t, url}
	case <-silent:
	case <-time.After(soon):
	}
	log, _ := os.ReadFile(said.Name())
	require.FailNow(s.t, "it did not come up", "%s said:\n%s", name, log)
	return nil
}

func (s *site) eventually(what string, is func() bool) {
	s.t.Helper()
	require.Eventually(s.t, is, soon, 50*time.Millisecond, what)
}

// happen lets each kind of end come to a job, and leaves one job open.
func (s *site) happen() {
	s.t.Helper()
	ctx := s.t.Context()
	// The relay's first round finds an empty queue and makes every job due again.
	s.eventually("the relay has made a round", func() bool {
		relays, err := s.books.Relays(ctx)
		return err == nil && len(relays) == 1
	})
	_, err := s.books.Grant(ctx, ledger.GrantCredits{AccountName: s.ada, Amount: 100, Reason: "test"})
	require.NoError(s.t, err)
	open := func(prompt string, cost int64, attempts int, checkAfter time.Duration) string {
		input, err := json.Marshal(map[string]string{"prompt": prompt, "size": "64x64"})
		require.NoError(s.t, err)
		opened, err := s.books.Open(ctx, ledger.OpenJob{AccountName: s.ada, Type: "image", Cost: cost, Input: input, MaxAttempts: attempts, CheckAfter: checkAfter})
		require.NoError(s.t, err)
		return opened.Job.ID
	}
	lose := func(id string) { // to a worker that dies at once
		_, err := s.books.Start(ctx, ledger.StartJob{JobID: id, Token: ledger.NewID(), Worker: "gone", LeaseTTL: time.Millisecond})
		require.NoError(s.t, err)
	}
	open("it is left alone", 3, 0, time.Hour)
	ends := map[string]ledger.State{
		open("a quiet harbour", 5, 0, 0):         ledger.StateCompleted,
		open(app.FailWord+" a harbour", 5, 0, 0): ledger.StateFailed,
		open("its worker dies", 5, 2, time.Hour): ledger.StateCompleted,
		open("its last worker", 7, 1, time.Hour): ledger.StateRefunded,
	}
	for _, j := range s.jobs() {
		if j.Open != nil && j.MaxAttempts <= 2 {
			lose(j.ID)
		}
	}
	s.eventually("the jobs end", func() bool {
		left := len(ends)
		for _, j := range s.jobs() {
			if j.End != nil && ends[j.ID] == j.End.State {
				left--
			}
		}
		return left == 0
	})
}

func (s *site) jobs() []ledger.Job {
	s.t.Helper()
	jobs, err := s.books.Jobs(s.t.Context(), ledger.JobFilter{Tenant: s.ada.Tenant}, ledger.Page{Limit: 50})
	require.NoError(s.t, err)
	return jobs
}

// charge sends tasks that charge themselves, and one of no job of ours.
func (s *site) charge() {
	s.t.Helper()
	client, err := tasks.RedisClient(s.redis)
	require.NoError(s.t, err)
	defer client.Close()
	queue := asynq.NewClientFromRedisClient(client)
	put := func(task *asynq.Task, o ...asynq.Option) {
		_, err := queue.EnqueueContext(s.t.Context(), task, o...)
		require.NoError(s.t, err)
	}
	self := func(key string, cost int64) {
		task, err := tasks.NewTask(tasks.Charge{Tenant: s.ada.Tenant, Account: s.ada.Name, Type: "image", Key: key, Cost: cost,
			Input: json.RawMessage(`{"prompt":"a self-made harbour","size":"64x64"}`)})
		require.NoError(s.t, err)
		put(task)
	}
	self("rich", 2)
	s.eventually("it charged itself and is done", func() bool {
		return slices.ContainsFunc(s.jobs(), func(j ledger.Job) bool { return j.Key == "rich" && j.End != nil })
	})
	self("rich", 2)
	self("poor", 1000)
	put(asynq.NewTask(tasks.TypeJob, []byte(ledger.NewID())), asynq.Queue(tasks.Queue))
	s.charged = true
}

// settled waits until what the programs count has come out, and is not from an older reading.
func (s *site) settled(programs ...*program) {
	s.t.Helper()
	want := s.wanted()
	for name, value := range want {
		ok := s.eventual(func() bool { return sum(programs, name) == value })
		require.True(s.t, ok, "%s is %v and should be %v", name, sum(programs, name), value)
	}
}

func (s *site) eventual(is func() bool) bool {
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// wanted is what all programs of the site together must have counted.
func (s *site) wanted() map[string]float64 {
	want := map[string]float64{
		`completions_total{reason="delivered"}`:                              2,
		`completions_total{reason="partial"}`:                                0,
		`failures_total{reason="vendor_error"}`:                              1,
		`failures_total{reason="attempts_exhausted"}`:                        0,
		`refunds_total{kind="refund",reason="vendor_error"}`:                 1,
		`credits_refunded_total{kind="refund",reason="vendor_error"}`:        5,
		`refunds_total{kind="reconciler_refund",reason="orphaned"}`:          1,
		`credits_refunded_total{kind="reconciler_refund",reason="orphaned"}`: 7,
		`sweep_decisions_total{action="refund",reason="orphaned"}`:           1,
		`put_backs_total{outcome="put_back"}`:                                1,
		`starts_total{verdict="run"}`:                                        3,
		`starts_total{verdict="drop"}`:                                       0,
		`deliveries_total{outcome="started"}`:                                3,
		`deliveries_total{outcome="unknown"}`:                                0,
		`attempts_total{outcome="completed"}`:                                2,
		`attempts_total{outcome="failed"}`:                                   1,
		`sights_total{sign="enqueued"}`:                                      3,
		`sights_total{sign="refused"}`:                                       0,
		`command_duration_seconds{command="complete"}`:                       2,
		`command_duration_seconds{command="fail"}`:                           1,
		`refusals_total{code="internal"}`:                                    0,
		`fenced_attempts_total{command="complete"}`:                          0,
		`late_successes_total{source="callback"}`:                            0,
		`opens_total{outcome="opened"}`:                                      0,
	}
	if s.charged {
		maps.Copy(want, map[string]float64{
			`completions_total{reason="delivered"}`:        3,
			`starts_total{verdict="run"}`:                  4,
			`starts_total{verdict="drop"}`:                 1,
			`deliveries_total{outcome="started"}`:          4,
			`deliveries_total{outcome="dropped"}`:          1,
			`deliveries_total{outcome="unknown"}`:          1,
			`deliveries_total{outcome="unpaid"}`:           1,
			`attempts_total{outcome="completed"}`:          3,
			`command_duration_seconds{command="complete"}`: 3,
			`opens_total{outcome="opened"}`:                1,
			`opens_total{outcome="replayed"}`:              1,
			`opens_total{outcome="insufficient_credits"}`:  1,
			`refusals_total{code="insufficient_credits"}`:  1,
			`refusals_total{code="not_found"}`:             1,
		})
	}
	return want
}

// told are the words of the page's third column that hold for a program.
type told []string

// check compares what programs tell with the page and with the books.
func (s *site) check(programs []*program, which ...told) {
	s.t.Helper()
	for i, p := range programs {
		s.eventually("a reading of now", func() bool { return p.scrape().value(`open_jobs{state="queued"}`) == 1 })
		seen := p.scrape()
		var names []string
		for name, family := range seen.families {
			require.NotEmpty(s.t, family.GetHelp(), name)
			if short, ours := strings.CutPrefix(name, "makegood_"); ours {
				names = append(names, "makegood_"+short)
			}
		}
		slices.Sort(names)
		require.Equal(s.t, page(s.t, which[i]), names)
		require.Contains(s.t, seen.families, "go_goroutines")
		require.Contains(s.t, seen.families, "process_start_time_seconds")

		for name, value := range map[string]float64{
			`open_jobs{state="queued"}`: 1, `open_jobs{state="running"}`: 0, "held_credits": 3, "jobs_at_vendor": 0, "jobs_vendor_unknown": 0,
			"relay_lag_seconds": 0, `workers{lease="alive"}`: 1, `workers{lease="dead"}`: 1, "ledger_up": 1, "redis_up": 1,
			`sweep_jobs{result="left"}`: 1, `sweep_jobs{result="error"}`: 0, `queue_tasks{state="archived"}`: 0,
			"batches_in_flight": 0, "commands_waiting": 0,
			`scrape_errors_total{source="ledger"}`: 0, `scrape_errors_total{source="redis"}`: 0, `scrape_errors_total{source="queue"}`: 0,
		} {
			require.InDelta(s.t, value, seen.value(name), 0, name)
		}
		require.Less(s.t, seen.value("sweep_age_seconds"), 10.0)
		require.Positive(s.t, seen.value("oldest_open_job_seconds"))
		require.Less(s.t, seen.value("oldest_open_job_seconds"), soon.Seconds())
		require.Positive(s.t, seen.value("redis_ping_seconds"))
		require.Positive(s.t, seen.value(`commits_total{result="committed"}`))
		require.GreaterOrEqual(s.t, seen.value("commit_duration_seconds"), seen.value("batch_commands"), "each batch was a commit, or several tries of one")
		if slices.Contains(which[i], "PostgreSQL") {
			require.InDelta(s.t, 8, seen.value("postgres_connections_max"), 0)
			require.Positive(s.t, seen.value("postgres_acquires_total"))
		}
	}
}

// without checks that a scrape is 200 while a source is away: its gauges are left out, the
// failure counts, and the others go on. besides names a source that is there; "" for none.
func (s *site) without(programs []*program, away, besides string) {
	s.t.Helper()
	gauges := map[string][]string{
		"ledger": {"open_jobs", "held_credits", "relay_lag_seconds", "workers", "sweep_age_seconds"},
		"redis":  {"redis_ping_seconds", "redis_memory_used_bytes", "queue_tasks"},
	}
	for _, p := range programs {
		s.eventually(away+" is seen to be away", func() bool { return p.scrape().value(away+"_up") == 0 })
		began := time.Now()
		seen := p.scrape()
		require.Less(s.t, time.Since(began), 4*time.Second)
		for _, name := range gauges[away] {
			require.NotContains(s.t, seen.families, "makegood_"+name)
		}
		s.eventually(besides+" is still seen", func() bool { // a scrape waits for a second, and a busy machine may need more
			again := p.scrape()
			return !slices.ContainsFunc(gauges[besides], func(name string) bool { return again.families["makegood_"+name] == nil })
		})
		require.Contains(s.t, seen.families, "makegood_opens_total")
		require.Positive(s.t, seen.value(`scrape_errors_total{source="`+away+`"}`))
	}
}

// scraped is one answer.
type scraped struct{ families map[string]*dto.MetricFamily }

// scrape asks once. It must always be 200, well-formed and without a complaint of promlint.
func (p *program) scrape() scraped {
	p.t.Helper()
	resp, err := http.Get(p.url + "/metrics")
	require.NoError(p.t, err)
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.Equal(p.t, http.StatusOK, resp.StatusCode, string(body))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(body))
	require.NoError(p.t, err)
	problems, err := promlint.New(bytes.NewReader(body)).Lint()
	require.NoError(p.t, err)
	require.Empty(p.t, problems)
	return scraped{families}
}

// value finds `name{label="value"}`: of a histogram how often it was observed, -1 when
// there is none.
func (s scraped) value(series string) float64 {
	name, labels, _ := strings.Cut(series, "{")
	for _, m := range s.families["makegood_"+name].GetMetric() {
		var parts []string
		for _, l := range m.GetLabel() {
			parts = append(parts, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		if strings.Join(parts, ",") != strings.TrimSuffix(labels, "}") {
			continue
		}
		switch {
		case m.GetHistogram() != nil:
			return float64(m.GetHistogram().GetSampleCount())
		case m.GetCounter() != nil:
			return m.GetCounter().GetValue()
		}
		return m.GetGauge().GetValue()
	}
	return -1
}

// sum adds what programs tell; one that does not tell it adds nothing.
func sum(programs []*program, series string) (total float64) {
	for _, p := range programs {
		total += max(p.scrape().value(series), 0)
	}
	return total
}

var pageRow = regexp.MustCompile("(?m)^\\| `(makegood_[a-z_]+)` \\|[^|]*\\| ([A-Za-z ]+) \\| ([^|]+) \\|$")

// page lists the names of docs/metrics.md that a program tells.
func page(t *testing.T, which told) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	rows := pageRow.FindAllStringSubmatch(string(text), -1)
	require.Len(t, rows, strings.Count(string(text), "| `makegood_"), "every row of the table is read")
	for _, row := range rows {
		require.Contains(t, []string{"all", "worker", "sweep", "PostgreSQL", "Redis server", "limit"}, row[2], row[1])
		if slices.Contains(which, row[2]) {
			names = append(names, row[1])
		}
	}
	slices.Sort(names)
	return names
}
