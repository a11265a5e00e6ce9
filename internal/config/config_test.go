package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/config"
)

// setenv makes an environment of these variables and no other of ours, which
// is why these tests are not parallel.
func setenv(t *testing.T, variables map[string]string) {
	t.Helper()
	for _, s := range config.Default().Effective() {
		t.Setenv(s.Name, "")
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"DATABASE_URL": "sqlite:makegood.db", "MIGRATE_DATABASE_URL": "", "REDIS_URL": "", "LISTEN_ADDR": "",
		"PUBLIC_URL": "", "ARTIFACTS_URL": "file://./artifacts", "CONFIG_FILE": "",
		"TENANT": "default", "CREDIT_SCALE": "0", "LOG_LEVEL": "info", "LOG_FORMAT": "text",
		"ORPHAN_THRESHOLD": "5m", "SWEEP_INTERVAL": "1m", "RELAY_INTERVAL": "1s", "LEASE_TTL": "10s",
		"MAX_QUEUE_OUTAGE": "30m", "MAX_WAIT": "24h", "MAX_UNKNOWN": "24h", "MAX_ATTEMPTS": "5", "MAX_STARTS": "20",
		"ATTEMPT_TIMEOUT": "15m", "SHUTDOWN_TIMEOUT": "25s", "WORKER_CONCURRENCY": "16",
	}
	c := config.Default()
	require.NoError(t, c.Validate())
	got := map[string]string{}
	for _, s := range c.Effective() {
		got[s.Name] = s.Value
	}
	require.Equal(t, want, got)
}

func TestFlagsAreNamedAsTheVariablesInKebabCase(t *testing.T) {
	t.Parallel()
	var c config.Config
	parser, err := kong.New(&c, kong.NoDefaultHelp())
	require.NoError(t, err)
	require.NotEmpty(t, parser.Model.Flags)
	for _, flag := range parser.Model.Flags {
		require.Len(t, flag.Tag.Envs, 1)
		require.Equal(t, strings.ToLower(strings.ReplaceAll(flag.Tag.Envs[0], "_", "-")), flag.Name)
		require.NotEmpty(t, flag.Help)
	}
}

//nolint:paralleltest // sets variables
func TestAFlagWinsOverTheVariableOverTheDefault(t *testing.T) {
	setenv(t, map[string]string{"LEASE_TTL": "20s", "MAX_ATTEMPTS": "7", "TENANT": ""})
	c, err := config.Load("--lease-ttl=30s")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, c.LeaseTTL)
	require.Equal(t, 7, c.MaxAttempts)
	require.Equal(t, "default", c.Tenant, "set to nothing is not set")

	sources := map[string]string{}
	for _, s := range c.Effective() {
		sources[s.Name] = s.Source
	}
	require.Equal(t, "flag", sources["LEASE_TTL"])
	require.Equal(t, "environment", sources["MAX_ATTEMPTS"])
	require.Equal(t, "default", sources["TENANT"])
}

//nolint:paralleltest // sets variables
func TestAFlagRepairsABadVariable(t *testing.T) {
	setenv(t, map[string]string{"LEASE_TTL": "ten seconds"})
	_, err := config.Load()
	require.ErrorContains(t, err, "LEASE_TTL")
	require.ErrorContains(t, err, "ten seconds")
	c, err := config.Load("--lease-ttl=30s")
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, c.LeaseTTL)
}

//nolint:paralleltest // sets variables
func TestLoadTellsAllMistakes(t *testing.T) {
	setenv(t, map[string]string{"CREDIT_SCALE": "12", "MAX_STARTS": "many", "MAX_WAIT": "5"})
	_, err := config.Load()
	for _, says := range []string{"CREDIT_SCALE: 12 ", `MAX_STARTS: "many" `, `MAX_WAIT: "5" `} {
		require.ErrorContains(t, err, says)
	}
	_, err = config.Load("--no-such-flag")
	require.Error(t, err)
}

//nolint:paralleltest // sets variables
func TestEmbeddedInACommandLine(t *testing.T) {
	setenv(t, map[string]string{"TENANT": "acme", "LISTEN_ADDR": ""})
	var cli struct {
		config.Config
		Up   struct{} `cmd:""`
		Show struct {
			ID string `arg:""`
		} `cmd:""`
	}
	parser, err := kong.New(&cli)
	require.NoError(t, err)

	ctx, err := parser.Parse([]string{"show", "01J", "--credit-scale=2"})
	require.NoError(t, err)
	require.Equal(t, "show <id>", ctx.Command())
	require.Equal(t, "acme", cli.Tenant)
	require.Equal(t, 2, cli.CreditScale)
	require.Empty(t, cli.ListenAddr)

	_, err = parser.Parse([]string{"up", "--lease-ttl=0s", "--log-level=loud"})
	require.ErrorContains(t, err, "LEASE_TTL")
	require.ErrorContains(t, err, "LOG_LEVEL")
}

// Kong would put another character in place of what is no text, and so name another tenant.
//
//nolint:paralleltest // sets variables
func TestVariablesAreText(t *testing.T) {
	setenv(t, map[string]string{"TENANT": "ac\xffme"})
	_, err := config.Load()
	require.ErrorContains(t, err, "TENANT: it is not valid UTF-8")
}

//nolint:paralleltest // sets variables
func TestDefaultDoesNotReadTheEnvironment(t *testing.T) {
	setenv(t, map[string]string{"TENANT": "acme", "LEASE_TTL": "nonsense"})
	require.Equal(t, "default", config.Default().Tenant)
}

//nolint:paralleltest // sets variables
func TestAChildSeesTheSameSettings(t *testing.T) {
	// given: a parent that listens, and settings in which nothing does
	setenv(t, map[string]string{"LISTEN_ADDR": "127.0.0.1:9999"})
	want := config.Default()
	want.DatabaseURL = "postgres://app:s3cret@db/makegood"
	want.LeaseTTL = 20 * time.Second
	// when: the child's environment is ours and then Environ
	for _, variable := range want.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		require.NoError(t, os.Setenv(name, value)) //nolint:usetesting // setenv above restores it
	}
	got, err := config.Load()
	// then
	require.NoError(t, err)
	require.Equal(t, want.Environ(), got.Environ())
	require.Empty(t, got.ListenAddr)
}

func TestFor(t *testing.T) {
	t.Parallel()
	const pg, sqlite = "postgres://db/makegood", "sqlite:x.db"
	const server = "redis://127.0.0.1:6379"
	for _, test := range []struct {
		program       config.Program
		database      string
		redis, listen string
		refused       bool
	}{
		{program: config.Up, database: sqlite, redis: "embedded", listen: "127.0.0.1:8080"},
		{program: config.Up, database: pg, redis: "embedded", listen: "127.0.0.1:8080"},
		{program: config.Demo, database: sqlite, redis: "embedded"},
		{program: config.Demo, database: pg, redis: "embedded"},
		{program: config.Command, database: sqlite, redis: "embedded"},
		{program: config.Command, database: pg, redis: server},
		{program: config.Worker, database: pg, redis: server},
		{program: config.Scheduler, database: pg, redis: server},
		{program: config.Worker, database: sqlite, refused: true},
		{program: config.Scheduler, database: sqlite, refused: true},
	} {
		t.Run(string(test.program)+" "+test.database, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.DatabaseURL = test.database
			got, err := c.For(test.program)
			if test.refused {
				require.ErrorContains(t, err, "REDIS_URL")
				require.ErrorContains(t, err, string(test.program))
				c.RedisURL = server
				_, err = c.For(test.program)
				require.NoError(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.redis, got.RedisURL)
			require.Equal(t, test.listen, got.ListenAddr)
			require.Equal(t, test.database, got.MigrateDatabaseURL)
			require.Empty(t, c.RedisURL, "the receiver is left alone")
		})
	}
}

func TestForKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.DatabaseURL, c.MigrateDatabaseURL = "postgres://app@db/m", "postgres://owner@db/m"
	c.RedisURL, c.ListenAddr = "redis://r", ":9000"
	for _, p := range []config.Program{config.Up, config.Worker, config.Scheduler} {
		got, err := c.For(p)
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	c := config.Default()
	file, ok := c.SQLiteFile()
	require.True(t, ok)
	require.Equal(t, "makegood.db", file)
	require.Equal(t, "artifacts", c.ArtifactsDir())
	c.ArtifactsURL = "file:///srv/" + filepath.Join("a", "b")
	require.Equal(t, "/srv/a/b", c.ArtifactsDir())
	c.DatabaseURL = "postgres://db/m"
	_, ok = c.SQLiteFile()
	require.False(t, ok)
}
