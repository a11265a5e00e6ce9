package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/makegood/makegood/provider/local"
	"github.com/makegood/makegood/tasks"
)

// loseRedis empties Redis while jobs wait, and then puts another, empty one in its place.
func (s *site) loseRedis() ([]finding, error) {
	if err := s.startSchedulers(); err != nil {
		return nil, err
	}
	jobs, err := s.submit(repeat(order{local.Type, "a hare"}, s.waiting)...)
	if err != nil {
		return nil, err
	}
	if err := s.untilQueued(s.servers.RedisURL, len(jobs)); err != nil {
		return nil, err
	}
	s.say("FLUSHALL with %d jobs waiting", len(jobs))
	lost := time.Now()
	if err := withRedis(s.ctx, s.servers.RedisURL, func(c *redis.Client) error { return c.FlushAll(s.ctx).Err() }); err != nil {
		return nil, err
	}
	flushed, err := s.requeued(s.servers.RedisURL, lost, len(jobs))
	if err != nil {
		return nil, err
	}
	another, err := s.newRedis()
	if err != nil {
		return nil, err
	}
	s.say("another Redis, empty, with %d jobs waiting", len(jobs))
	lost = time.Now()
	if err := s.queue.leadTo(s.ctx, another); err != nil {
		return nil, err
	}
	replaced, err := s.requeued(another, lost, len(jobs))
	if err != nil {
		return nil, err
	}
	s.say("all wait again; a worker takes them")
	if _, err := s.startWorkers(1, spareConcurrency, time.Millisecond); err != nil {
		return nil, err
	}
	if err := s.untilEnded(); err != nil {
		return nil, err
	}
	wrong, err := s.audit(jobs)
	if err != nil {
		return nil, err
	}
	targets := []target{must(most, 15*time.Second)}
	return []finding{
		{name: "redis_lost.flushed", what: "FLUSHALL → each waiting job queued again", samples: flushed, targets: targets},
		{name: "redis_lost.replaced", what: "another, empty Redis → each queued again", samples: replaced, targets: targets, nothing: wrong},
	}, nil
}

// requeued waits until all n jobs are queued again, by the ledger and in Redis, and says how
// long each took.
func (s *site) requeued(redisURL string, lost time.Time, n int) ([]time.Duration, error) {
	if err := s.until("all jobs are queued again", readyWithin, `SELECT count(*) = $1 FROM open_jobs WHERE enqueued_at > $2`, n, lost); err != nil {
		return nil, err
	}
	if err := s.untilQueued(redisURL, n); err != nil {
		return nil, err
	}
	rows, err := s.db.Query(s.ctx, `SELECT enqueued_at FROM open_jobs WHERE state = 'queued'`)
	if err != nil {
		return nil, err
	}
	at, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	var took []time.Duration
	for _, t := range at {
		took = append(took, t.Sub(lost))
	}
	return took, err
}

// untilQueued waits until Redis itself has n tasks that wait for a worker.
func (s *site) untilQueued(redisURL string, n int) error {
	return withRedis(s.ctx, redisURL, func(c *redis.Client) error {
		ctx, stop := context.WithTimeoutCause(s.ctx, readyWithin, fmt.Errorf("not all of %d tasks are in Redis", n))
		defer stop()
		for {
			waiting, err := c.LLen(ctx, "asynq:{"+tasks.Queue+"}:pending").Result()
			switch {
			case err != nil:
				return err
			case waiting >= int64(n):
				return nil
			case !pause(ctx, pollEvery):
				return context.Cause(ctx)
			}
		}
	})
}

func withRedis(ctx context.Context, url string, do func(*redis.Client) error) error {
	o, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(o)
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	return do(client)
}

// missRedis has Redis away a few times while jobs are submitted.
func (s *site) missRedis(how doorState) ([]finding, error) {
	if err := s.startSchedulers(); err != nil {
		return nil, err
	}
	if _, err := s.startWorkers(1, 16, shortJob); err != nil {
		return nil, err
	}
	jobs, err := s.submit(order{local.Type, "before"}) // everything works
	if err == nil {
		err = s.untilEnded()
	}
	if err != nil {
		return nil, err
	}
	var first, each []time.Duration
	for n := range s.outages {
		s.say("outage %d of %d: %s, %s", n+1, s.outages, how, s.outage)
		if err := s.queue.set(s.ctx, how); err != nil {
			return nil, err
		}
		over := time.Now().Add(s.outage)
		ids, err := s.submit(repeat(order{local.Type, "during"}, s.outageJobs)...)
		if err != nil {
			return nil, err
		}
		if !pause(s.ctx, time.Until(over)) {
			return nil, s.ctx.Err()
		}
		back := time.Now()
		if err := errors.Join(s.queue.set(s.ctx, doorOpen), s.untilEnded()); err != nil {
			return nil, err
		}
		took, err := s.firstStarts(ids, back)
		if err != nil {
			return nil, err
		}
		jobs, each = append(jobs, ids...), append(each, took...)
		first = append(first, finding{samples: took}.least())
	}
	wrong, err := s.audit(jobs)
	if err != nil {
		return nil, err
	}
	name, what := "redis_away_"+string(how), fmt.Sprintf("Redis %s for %s s, then back", how, seconds(s.outage))
	return []finding{
		{name: name, what: what + " → first job starts", samples: first, targets: []target{must(most, 5*time.Second)}, nothing: wrong},
		{name: name + ".each", what: "  → each of the jobs that waited starts", samples: each},
	}, nil
}

// firstStarts is how long after a time each job was first started.
func (s *site) firstStarts(jobs []string, after time.Time) ([]time.Duration, error) {
	rows, err := s.db.Query(s.ctx, `SELECT min(started_at) FROM attempts WHERE job_id = ANY($1) GROUP BY job_id`, jobs)
	if err != nil {
		return nil, err
	}
	at, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
	if err == nil && len(at) != len(jobs) {
		err = fmt.Errorf("%d of %d jobs were started", len(at), len(jobs))
	}
	var took []time.Duration
	for _, t := range at {
		took = append(took, t.Sub(after))
	}
	return took, err
}
