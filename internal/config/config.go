// Package config holds the settings of every Makegood program.
//
// A setting has three names for one thing: the environment variable
// (DATABASE_URL), the flag (--database-url) and the field ([Config.DatabaseURL]).
// A flag wins over the variable, the variable over the default. A variable that
// is set to nothing counts as not set, so that `LISTEN_ADDR=` in a file of
// variables means what it looks like.
//
// Kong does all of this by the tags below, so a command line embeds the struct:
//
//	var cli struct {
//		config.Config
//		Verify VerifyCmd `cmd:"" help:"…"`
//	}
//	ctx := kong.Parse(&cli)
//
// and a program without a command line calls [Load]. Both have called
// [Config.Validate] when they return. What differs from program to program
// (does it listen, may it use the embedded Redis) is settled by [Config.For].
package config

import (
	"os"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
)

// Embedded is the REDIS_URL of the Redis that `makegood up` and `makegood demo`
// run inside their own process.
const Embedded = "embedded"

// Config is what the environment and the flags say. An empty string is a
// setting that nobody made and that has no default common to all programs.
//
//nolint:lll // a setting, its names, its default and its help are one line
type Config struct {
	DatabaseURL        string `env:"DATABASE_URL" default:"sqlite:makegood.db" group:"Connections" help:"Where the ledger is: sqlite:FILE or postgres://…"`
	MigrateDatabaseURL string `env:"MIGRATE_DATABASE_URL" placeholder:"URL" group:"Connections" help:"The same database as the role that owns the tables; DATABASE_URL if not set."`
	RedisURL           string `env:"REDIS_URL" placeholder:"URL" group:"Connections" help:"Where the queue is: redis://…, rediss://… or embedded, the default of up, demo and all commands on sqlite:; otherwise redis://127.0.0.1:6379."`
	ListenAddr         string `env:"LISTEN_ADDR" placeholder:"HOST:PORT" group:"Connections" help:"Serve /healthz, /readyz and /metrics here. Default for up: 127.0.0.1:8080; worker and scheduler serve nothing if not set."`
	PublicURL          string `env:"PUBLIC_URL" placeholder:"URL" group:"Connections" help:"How the outside reaches LISTEN_ADDR, for links that leave the house."`
	ArtifactsURL       string `env:"ARTIFACTS_URL" default:"file://./artifacts" group:"Connections" help:"Where finished work is kept: file://DIR."`
	ConfigFile         string `env:"CONFIG_FILE" placeholder:"FILE" group:"Connections" help:"Providers, prices, packs and limits."`

	Tenant      string `env:"TENANT" default:"default" group:"Presentation" help:"Whose accounts and jobs these are."`
	CreditScale int    `env:"CREDIT_SCALE" default:"0" group:"Presentation" help:"Decimals that people are shown: with 2, 150 credits read 1.50."`
	LogLevel    string `env:"LOG_LEVEL" default:"info" values:"debug,info,warn,error" group:"Presentation" help:"debug, info, warn or error."`
	LogFormat   string `env:"LOG_FORMAT" default:"text" values:"text,json" group:"Presentation" help:"text or json."`

	MaxAttempts       int           `env:"MAX_ATTEMPTS" default:"5" group:"Life of a job" help:"Runs of a job that may call a vendor, before it fails and is refunded."`
	MaxStarts         int           `env:"MAX_STARTS" default:"20" group:"Life of a job" help:"Runs whose worker never came back, before a job that keeps killing its workers ends."`
	AttemptTimeout    time.Duration `env:"ATTEMPT_TIMEOUT" default:"15m" group:"Life of a job" help:"How long one run may take."`
	MaxWait           time.Duration `env:"MAX_WAIT" default:"24h" group:"Life of a job" help:"How long a job may wait in the queue before it is refunded."`
	MaxUnknown        time.Duration `env:"MAX_UNKNOWN" default:"24h" group:"Life of a job" help:"How long a vendor is asked what became of submitted work, before it is refunded."`
	OrphanThreshold   time.Duration `env:"ORPHAN_THRESHOLD" default:"5m" group:"Life of a job" help:"Silence after which a job that nobody can heal is refunded."`
	MaxQueueOutage    time.Duration `env:"MAX_QUEUE_OUTAGE" default:"30m" group:"Life of a job" help:"The same while Redis cannot be reached."`
	LeaseTTL          time.Duration `env:"LEASE_TTL" default:"10s" group:"Life of a job" help:"A worker that did not renew for so long counts as dead."`
	RelayInterval     time.Duration `env:"RELAY_INTERVAL" default:"1s" group:"Life of a job" help:"How often queued jobs are handed to Redis and leases are read."`
	SweepInterval     time.Duration `env:"SWEEP_INTERVAL" default:"60s" group:"Life of a job" help:"How often the reconciler looks for jobs to end."`
	ShutdownTimeout   time.Duration `env:"SHUTDOWN_TIMEOUT" default:"25s" group:"Life of a job" help:"How long running jobs may finish after SIGTERM, before they are given back."`
	WorkerConcurrency int           `env:"WORKER_CONCURRENCY" default:"16" group:"Life of a job" help:"Jobs that one worker runs at once."`

	flags  map[string]bool // the variables whose flag was on the command line
	unread []error         // the variables that are no number or no duration
}

// Load reads the environment and, over it, flags such as "--tenant=acme". A
// program that parses its own command line passes none.
func Load(flags ...string) (Config, error) {
	var c Config
	parser, err := kong.New(&c, kong.NoDefaultHelp())
	if err != nil {
		return Config{}, err
	}
	if _, err := parser.Parse(flags); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Default is the configuration of an empty environment.
func Default() Config {
	var c Config
	for _, flag := range kong.Must(&c, kong.NoDefaultHelp()).Model.Flags {
		flag.Tag.Envs = nil
		if err := flag.Reset(); err != nil {
			panic(err) // a default above cannot be read
		}
	}
	return c
}

// BeforeReset is called by kong before it reads the environment. Kong must see
// neither a variable set to nothing, nor one that a flag overrides, nor one that
// it could not read: it would stop at the first of these, and Validate tells
// them all.
func (c *Config) BeforeReset(ctx *kong.Context) error {
	c.noteFlags(ctx)
	c.unread = nil
	for name, field := range c.variables() {
		value, ok := os.LookupEnv(name)
		if !ok {
			continue
		}
		var err error
		if value != "" && !c.flags[name] {
			if err = readable(name, value, field); err == nil {
				continue
			}
		}
		c.unread = append(c.unread, err)
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) noteFlags(ctx *kong.Context) {
	c.flags = map[string]bool{}
	for _, element := range ctx.Path {
		if element.Flag != nil && len(element.Flag.Tag.Envs) > 0 {
			c.flags[element.Flag.Tag.Envs[0]] = true
		}
	}
}

// readable says whether kong can read value into field.
func readable(name, value string, field reflect.Value) error {
	switch field.Interface().(type) {
	case time.Duration:
		if _, err := time.ParseDuration(value); err != nil {
			return problem(name, "%q is not a duration; write one such as 90s or 5m", value)
		}
	case int:
		if _, err := strconv.Atoi(value); err != nil {
			return problem(name, "%q is not a whole number", value)
		}
	case string:
		if !utf8.ValidString(value) { // kong would alter it silently
			return problem(name, "it is not valid UTF-8")
		}
	}
	return nil
}

// variables yields the settings in order: the variable's name and the field.
func (c *Config) variables() func(yield func(string, reflect.Value) bool) {
	return func(yield func(string, reflect.Value) bool) {
		fields := reflect.ValueOf(c).Elem()
		for i := range fields.NumField() {
			if name, ok := fields.Type().Field(i).Tag.Lookup("env"); ok && !yield(name, fields.Field(i)) {
				return
			}
		}
	}
}
