package config_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/config"
)

func TestValidateRefuses(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, test := range []struct {
		name string // of the setting that must be named
		set  func(*config.Config)
		says string
	}{
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "" }, "empty"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "makegood.db" }, "sqlite:FILE"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "mysql://db" }, "mysql:"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "sqlite:" }, "sqlite:makegood.db"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "sqlite://x.db" }, "without slashes"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "sqlite::memory:" }, "lost"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "sqlite:x.db?mode=ro" }, "options"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "postgres:db" }, "//"},
		{"DATABASE_URL", func(c *config.Config) { c.DatabaseURL = "postgres://u:se#cret@db/m" }, "%23"},
		{"MIGRATE_DATABASE_URL", func(c *config.Config) { c.MigrateDatabaseURL = "sqlite:other.db" }, "unset"},
		{"MIGRATE_DATABASE_URL", func(c *config.Config) {
			c.DatabaseURL, c.MigrateDatabaseURL = "postgres://db/m", "sqlite:x.db"
		}, "same database"},
		{"MIGRATE_DATABASE_URL", func(c *config.Config) { c.MigrateDatabaseURL = "oracle://db" }, "oracle:"},
		{"REDIS_URL", func(c *config.Config) { c.RedisURL = "localhost:6379" }, "redis://"},
		{"REDIS_URL", func(c *config.Config) { c.RedisURL = "memory" }, "embedded"},
		{"REDIS_URL", func(c *config.Config) { c.RedisURL = "redis-sentinel://a,b/m" }, "not supported yet"},
		{"REDIS_URL", func(c *config.Config) { c.RedisURL = "redis-cluster://a" }, "not supported yet"},
		{"REDIS_URL", func(c *config.Config) { c.RedisURL = "redis://h/x" }, "database number"},
		{"LISTEN_ADDR", func(c *config.Config) { c.ListenAddr = "8080" }, "HOST:PORT"},
		{"LISTEN_ADDR", func(c *config.Config) { c.ListenAddr = ":http" }, "65535"},
		{"LISTEN_ADDR", func(c *config.Config) { c.ListenAddr = ":65536" }, "65535"},
		{"PUBLIC_URL", func(c *config.Config) { c.PublicURL = "example.com" }, "https://"},
		{"PUBLIC_URL", func(c *config.Config) { c.PublicURL = "ftp://example.com" }, "https://"},
		{"PUBLIC_URL", func(c *config.Config) { c.PublicURL = "https://example.com/?a=b" }, "only"},
		{"ARTIFACTS_URL", func(c *config.Config) { c.ArtifactsURL = "s3://bucket" }, "not supported yet"},
		{"ARTIFACTS_URL", func(c *config.Config) { c.ArtifactsURL = "./artifacts" }, "file://"},
		{"ARTIFACTS_URL", func(c *config.Config) { c.ArtifactsURL = "file:artifacts" }, "file://"},
		{"CONFIG_FILE", func(c *config.Config) { c.ConfigFile = filepath.Join(folder, "missing") }, "no file"},
		{"CONFIG_FILE", func(c *config.Config) { c.ConfigFile = folder }, "folder"},
		{"TENANT", func(c *config.Config) { c.Tenant = "" }, "255"},
		{"TENANT", func(c *config.Config) { c.Tenant = strings.Repeat("a", 256) }, "256"},
		{"TENANT", func(c *config.Config) { c.Tenant = " acme" }, "white space"},
		{"TENANT", func(c *config.Config) { c.Tenant = "ac\x00me" }, "control"},
		{"TENANT", func(c *config.Config) { c.Tenant = "ac\xffme" }, "UTF-8"},
		{"LOG_LEVEL", func(c *config.Config) { c.LogLevel = "loud" }, "debug, info, warn, error"},
		{"LOG_FORMAT", func(c *config.Config) { c.LogFormat = "xml" }, "text, json"},
		{"CREDIT_SCALE", func(c *config.Config) { c.CreditScale = -1 }, "0 to 9"},
		{"CREDIT_SCALE", func(c *config.Config) { c.CreditScale = 10 }, "0 to 9"},
		{"WORKER_CONCURRENCY", func(c *config.Config) { c.WorkerConcurrency = 0 }, "1 to 4096"},
		{"WORKER_CONCURRENCY", func(c *config.Config) { c.WorkerConcurrency = 4097 }, "1 to 4096"},
		{"MAX_ATTEMPTS", func(c *config.Config) { c.MaxAttempts = 0 }, "1 to"},
		{"MAX_STARTS", func(c *config.Config) { c.MaxStarts = 4 }, "MAX_ATTEMPTS (5)"},
		{"LEASE_TTL", func(c *config.Config) { c.LeaseTTL = 0 }, "positive"},
		{"SWEEP_INTERVAL", func(c *config.Config) { c.SweepInterval = -time.Second }, "positive"},
		{"RELAY_INTERVAL", func(c *config.Config) { c.RelayInterval = 4 * time.Second }, "LEASE_TTL (10s)"},
		{"ORPHAN_THRESHOLD", func(c *config.Config) { c.OrphanThreshold = 21 * time.Second }, "(21s)"},
		{"MAX_QUEUE_OUTAGE", func(c *config.Config) { c.MaxQueueOutage = time.Minute }, "ORPHAN_THRESHOLD (5m)"},
		{"MAX_UNKNOWN", func(c *config.Config) { c.MaxUnknown = time.Minute }, "ATTEMPT_TIMEOUT (15m)"},
		{"ATTEMPT_TIMEOUT", func(c *config.Config) { c.AttemptTimeout = time.Millisecond }, "1s"},
	} {
		t.Run(test.name+" "+test.says, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			test.set(&c)
			err := c.Validate()
			var bad *config.Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, test.name, bad.Name)
			require.Equal(t, bad.Error(), err.Error(), "one mistake is told once")
			require.Contains(t, bad.Problem, test.says)
			require.NotContains(t, err.Error(), "cret", "no part of a password")
		})
	}
}

func TestValidateAccepts(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*config.Config){
		"absolute file":      func(c *config.Config) { c.DatabaseURL = "sqlite:/var/lib/makegood/ledger.db" },
		"postgres":           func(c *config.Config) { c.DatabaseURL = "postgres://app:p%40ss@db:5432/makegood?sslmode=require" },
		"postgresql, socket": func(c *config.Config) { c.DatabaseURL = "postgresql:///makegood?host=/run/postgresql" },
		"owner": func(c *config.Config) {
			c.DatabaseURL, c.MigrateDatabaseURL = "postgres://app@db/m", "postgres://owner@db/m"
		},
		"owner of a file": func(c *config.Config) { c.MigrateDatabaseURL = c.DatabaseURL },
		"embedded":        func(c *config.Config) { c.RedisURL = "embedded" },
		"redis":           func(c *config.Config) { c.RedisURL = "redis://:pw@127.0.0.1:6379/3" },
		"rediss":          func(c *config.Config) { c.RedisURL = "rediss://user:pw@redis.example.com:6380" },
		"any address":     func(c *config.Config) { c.ListenAddr = ":8080" },
		"IPv6, free port": func(c *config.Config) { c.ListenAddr = "[::1]:0" },
		"public":          func(c *config.Config) { c.PublicURL = "https://credits.example.com/makegood" },
		"seconds, as in the demo": func(c *config.Config) {
			c.LeaseTTL, c.RelayInterval, c.OrphanThreshold = 1500*time.Millisecond, 200*time.Millisecond, 4*time.Second
			c.MaxQueueOutage = 10 * time.Second
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			set(&c)
			require.NoError(t, c.Validate())
		})
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	c := config.Config{DatabaseURL: "x", RedisURL: "y", ListenAddr: "z", LogLevel: "loud", CreditScale: 99}
	err := c.Validate()
	for _, name := range []string{
		"DATABASE_URL", "REDIS_URL", "LISTEN_ADDR", "LOG_LEVEL", "CREDIT_SCALE", "TENANT", "LEASE_TTL", "MAX_WAIT",
	} {
		require.ErrorContains(t, err, name)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"postgres://app:s3cret@db/m":                        "postgres://app:xxxxx@db/m",
		"postgres://app@db/m":                               "postgres://app@db/m",
		"postgres://db/m?user=app&password=s3cret":          "postgres://db/m?password=xxxxx&user=app",
		"postgres://db/m?sslpassword=s3cret":                "postgres://db/m?sslpassword=xxxxx",
		"postgres://app:se#cret@db/m":                       "postgres://xxxxx",
		"postgres://app:s3cret@db/m?sslmode=require&a=%2Fb": "postgres://app:xxxxx@db/m?sslmode=require&a=%2Fb",
		"sqlite:makegood.db":                                "sqlite:makegood.db",
	} {
		c := config.Default()
		c.DatabaseURL = value
		require.Equal(t, want, c.Effective()[0].Value)

		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("starting", "config", c)
		require.Contains(t, log.String(), "ATTEMPT_TIMEOUT=15m")
		require.NotContains(t, log.String(), "cret")
	}
}
