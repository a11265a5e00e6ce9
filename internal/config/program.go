package config

// Program is what the settings are for. Some defaults and one rule differ.
type Program string

// The programs.
const (
	Up        Program = "up"        // relay, sweep and worker in one process, with a Redis of its own if none is named
	Demo      Program = "demo"      // as Up, but serves nothing
	Worker    Program = "worker"    // runs jobs
	Scheduler Program = "scheduler" // relays, watches, sweeps
	Command   Program = "command"   // any other command of makegood: does its work and ends
)

const (
	defaultListen = "127.0.0.1:8080"
	defaultRedis  = "redis://127.0.0.1:6379"
)

// For returns the settings as program p sees them: nothing that has a default
// is empty any more. ListenAddr stays empty where p then serves nothing.
//
// A worker or scheduler on its own refuses the embedded Redis, since that lives
// and dies with the process of `makegood up` or `makegood demo`; those two give
// their children its address.
func (c Config) For(p Program) (Config, error) {
	runsRedis := p == Up || p == Demo
	if c.MigrateDatabaseURL == "" {
		c.MigrateDatabaseURL = c.DatabaseURL
	}
	if c.RedisURL == "" {
		c.RedisURL = defaultRedis
		if _, sqlite := c.SQLiteFile(); sqlite || runsRedis {
			c.RedisURL = Embedded
		}
	}
	if c.RedisURL == Embedded && (p == Worker || p == Scheduler) {
		return Config{}, problem("REDIS_URL", "the %s needs a Redis server, since the embedded Redis lives inside "+
			"`makegood up`; set it to redis://HOST:PORT, or run `makegood up` instead", p)
	}
	switch {
	case p == Demo || p == Command:
		c.ListenAddr = ""
	case p == Up && c.ListenAddr == "":
		c.ListenAddr = defaultListen
	}
	return c, nil
}
