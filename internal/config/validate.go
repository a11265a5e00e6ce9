package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// An Error is one setting that cannot be used: what is wrong and what to do.
type Error struct {
	Name    string // the environment variable
	Problem string
}

func (e *Error) Error() string { return e.Name + ": " + e.Problem }

func problem(name, format string, args ...any) error {
	return &Error{Name: name, Problem: fmt.Sprintf(format, args...)}
}

// Validate returns everything that is wrong, joined; each part is an [*Error].
// Kong calls it by itself.
func (c *Config) Validate() error {
	return errors.Join(
		errors.Join(c.unread...),
		checkDatabase("DATABASE_URL", c.DatabaseURL),
		c.checkMigrateDatabase(),
		checkRedis(c.RedisURL),
		checkListen(c.ListenAddr),
		checkPublic(c.PublicURL),
		checkArtifacts(c.ArtifactsURL),
		checkFile("CONFIG_FILE", c.ConfigFile),
		checkTenant(c.Tenant),
		oneOf("LOG_LEVEL", c.LogLevel, "debug", "info", "warn", "error"),
		oneOf("LOG_FORMAT", c.LogFormat, "text", "json"),
		c.checkNumbers(),
		c.checkDurations(),
	)
}

func (c *Config) checkNumbers() error {
	within := func(name string, n, low, high int) error {
		if n < low || n > high {
			return problem(name, "%d is not in %d to %d", n, low, high)
		}
		return nil
	}
	errs := []error{
		within("CREDIT_SCALE", c.CreditScale, 0, 9),
		within("MAX_ATTEMPTS", c.MaxAttempts, 1, 1000),
		within("MAX_STARTS", c.MaxStarts, 1, 1000),
		within("WORKER_CONCURRENCY", c.WorkerConcurrency, 1, 4096),
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.MaxStarts < c.MaxAttempts {
		return problem("MAX_STARTS", "%d is less than MAX_ATTEMPTS (%d), which could then never be used up; raise it",
			c.MaxStarts, c.MaxAttempts)
	}
	return nil
}

// checkDurations compares durations with each other only once each is sane, as
// one mistake should be told once.
func (c *Config) checkDurations() error {
	var errs []error
	for name, field := range c.variables() {
		d, ok := reflect.TypeAssert[time.Duration](field)
		if ok && d <= 0 {
			errs = append(errs, problem(name, "%v is not a positive duration; write one such as 90s or 5m", d))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	relation := func(ok bool, name string, d time.Duration, format string, args ...any) {
		if !ok {
			errs = append(errs, problem(name, "%s is too %s", formatDuration(d), fmt.Sprintf(format, args...)))
		}
	}
	relation(c.AttemptTimeout >= time.Second, "ATTEMPT_TIMEOUT", c.AttemptTimeout,
		"short: no run may have less than 1s")
	// The watcher believes a worker dead only if its reads have no gap above a
	// third of a lease.
	relation(c.RelayInterval < c.LeaseTTL/3, "RELAY_INTERVAL", c.RelayInterval,
		"long: leases must be read more than three times in LEASE_TTL (%s), or no dead worker is ever noticed; lower it or raise LEASE_TTL",
		formatDuration(c.LeaseTTL))
	// A lease runs out, a second one passes under the watcher's eyes, and the
	// relay's next round puts the job back.
	heal := 2*c.LeaseTTL + c.RelayInterval
	relation(c.OrphanThreshold > heal, "ORPHAN_THRESHOLD", c.OrphanThreshold,
		"short: healing takes up to 2 × LEASE_TTL + RELAY_INTERVAL (%s), so jobs would be refunded that could be healed; raise it or lower LEASE_TTL",
		formatDuration(heal))
	relation(c.MaxQueueOutage >= c.OrphanThreshold, "MAX_QUEUE_OUTAGE", c.MaxQueueOutage,
		"short: an outage of Redis must not be judged sooner than a lost job, ORPHAN_THRESHOLD (%s); raise it",
		formatDuration(c.OrphanThreshold))
	relation(c.MaxUnknown >= c.AttemptTimeout, "MAX_UNKNOWN", c.MaxUnknown,
		"short: work would be given up while its first run may still go on, ATTEMPT_TIMEOUT (%s); raise it",
		formatDuration(c.AttemptTimeout))
	return errors.Join(errs...)
}

func checkListen(addr string) error {
	if addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return problem("LISTEN_ADDR", "%q is not HOST:PORT; write one such as 127.0.0.1:8080 or :8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return problem("LISTEN_ADDR", "port %q is not a number from 0 to 65535", port)
	}
	return nil
}

func checkFile(name, path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return problem(name, "there is no file %s", path)
	case err != nil:
		return problem(name, "%v", err)
	case info.IsDir():
		return problem(name, "%s is a folder; name a file", path)
	}
	return nil
}

// checkTenant applies the rule for every id: kept byte for byte or refused.
func checkTenant(id string) error {
	switch {
	case id == "" || len(id) > 255:
		return problem("TENANT", "an id has 1 to 255 characters, not %d", len(id))
	case !utf8.ValidString(id):
		return problem("TENANT", "%q is not UTF-8", id)
	case strings.TrimSpace(id) != id:
		return problem("TENANT", "%q begins or ends with white space", id)
	case strings.ContainsFunc(id, unicode.IsControl):
		return problem("TENANT", "%q has a control character", id)
	}
	return nil
}

func oneOf(name, value string, values ...string) error {
	if slices.Contains(values, value) {
		return nil
	}
	return problem(name, "%q is unknown; use one of: %s", value, strings.Join(values, ", "))
}
