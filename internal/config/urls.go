package config

import (
	"net/url"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"
)

// SQLiteFile returns the file of an sqlite: database.
func (c Config) SQLiteFile() (path string, ok bool) {
	return strings.CutPrefix(c.DatabaseURL, "sqlite:")
}

// ArtifactsDir returns the folder of a file:// ARTIFACTS_URL, which may be
// relative to the working directory (file://./artifacts).
func (c Config) ArtifactsDir() string {
	return filepath.Clean(strings.TrimPrefix(c.ArtifactsURL, "file://"))
}

func checkDatabase(name, raw string) error {
	if file, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		switch {
		case file == "":
			return problem(name, "no file is named; write sqlite:FILE, such as sqlite:makegood.db")
		case strings.HasPrefix(file, "//"):
			return problem(name, "write sqlite:FILE without slashes before the file, such as sqlite:makegood.db or sqlite:/var/lib/makegood/ledger.db")
		case strings.Contains(file, ":memory:"):
			return problem(name, "a ledger in memory would be lost with the process; name a file")
		case strings.ContainsAny(file, "?#"):
			return problem(name, "%q: a file name with ? or # is refused, and options are not taken", file)
		}
		return nil
	}
	u, err := parseURL(name, raw)
	if err != nil {
		return err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return problem(name, "%s is no database known here; write sqlite:FILE or postgres://USER:PASSWORD@HOST/DATABASE", scheme(u))
	}
	if u.Opaque != "" {
		return problem(name, "%s: must be followed by //; write postgres://USER:PASSWORD@HOST/DATABASE", u.Scheme)
	}
	return nil
}

func (c *Config) checkMigrateDatabase() error {
	const name = "MIGRATE_DATABASE_URL"
	if c.MigrateDatabaseURL == "" {
		return nil
	}
	if err := checkDatabase(name, c.MigrateDatabaseURL); err != nil {
		return err
	}
	_, sqlite := c.SQLiteFile()
	if sqlite && c.MigrateDatabaseURL != c.DatabaseURL {
		return problem(name, "a file has no roles, so it must be DATABASE_URL's %s; unset it", c.DatabaseURL)
	}
	if !sqlite && strings.HasPrefix(c.MigrateDatabaseURL, "sqlite:") {
		return problem(name, "it names a file but DATABASE_URL a server; name the same database, as its owner")
	}
	return nil
}

func checkRedis(raw string) error {
	const name = "REDIS_URL"
	if raw == "" || raw == Embedded {
		return nil
	}
	u, err := parseURL(name, raw)
	if err != nil {
		return err
	}
	switch u.Scheme {
	case "redis", "rediss":
	case "redis-sentinel", "redis-cluster":
		return problem(name, "%s is not supported yet; name a single server by redis:// or rediss://", u.Scheme)
	default:
		return problem(name, "%s is no queue known here; write redis://HOST:PORT, rediss://HOST:PORT or %s", scheme(u), Embedded)
	}
	if _, err := redis.ParseURL(raw); err != nil {
		return problem(name, "%s", strings.TrimPrefix(err.Error(), "redis: "))
	}
	return nil
}

func checkPublic(raw string) error {
	const name = "PUBLIC_URL"
	if raw == "" {
		return nil
	}
	u, err := parseURL(name, raw)
	if err != nil {
		return err
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return problem(name, "write a whole address, such as https://credits.example.com")
	}
	if u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return problem(name, "only scheme, host, port and path are wanted")
	}
	return nil
}

func checkArtifacts(raw string) error {
	const name = "ARTIFACTS_URL"
	u, err := parseURL(name, raw)
	switch {
	case err != nil:
		return err
	case u.Scheme != "file":
		return problem(name, "%s is not supported yet; write file://DIR", scheme(u))
	case !strings.HasPrefix(raw, "file://") || raw == "file://":
		return problem(name, "write file://DIR, such as file://./artifacts or file:///var/lib/makegood/artifacts")
	case u.RawQuery != "" || u.Fragment != "":
		return problem(name, "a folder with ? or # is refused, and options are not taken")
	}
	return nil
}

// parseURL never repeats what it was given: a URL that cannot be read may have
// its password anywhere.
func parseURL(name, raw string) (*url.URL, error) {
	if raw == "" {
		return nil, problem(name, "it is empty")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, problem(name, "it cannot be read as a URL; write special characters in user name and password as %%XX (@ is %%40, # is %%23)")
	}
	return u, nil
}

func scheme(u *url.URL) string {
	if u.Scheme == "" {
		return "a URL without scheme"
	}
	return u.Scheme + ":"
}
