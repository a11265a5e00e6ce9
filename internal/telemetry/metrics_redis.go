package telemetry

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/makegood/makegood/tasks"
)

// WatchRedis tells whether Redis answers, how full it is and what the queue holds. Call it once.
func (m *Metrics) WatchRedis(client redis.UniversalClient) {
	inspector := asynq.NewInspectorFromRedisClient(client)
	m.registry.MustRegister(redisGauges{
		server: newSource(m, "redis", func(ctx context.Context) (redisState, error) { return askRedis(ctx, client) }),
		queue:  newSource(m, "queue", func(context.Context) (asynq.QueueInfo, error) { return askQueue(inspector) }),
	})
}

// redisState is what a Redis server says of itself.
type redisState struct {
	ping time.Duration
	// used and most are bytes; used is negative when the server does not say, as the embedded
	// one, and most is 0 when it has no limit.
	used, most float64
}

func askRedis(ctx context.Context, client redis.UniversalClient) (redisState, error) {
	began := time.Now()
	if err := client.Ping(ctx).Err(); err != nil {
		return redisState{}, err
	}
	state := redisState{ping: time.Since(began), used: -1}
	text, err := client.Info(ctx, "memory").Result()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return state, nil
	}
	if err != nil {
		return redisState{}, err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "used_memory":
			state.used = n
		case name == "maxmemory":
			state.most = n
		}
	}
	return state, nil
}

// askQueue counts the tasks. A queue that nothing was ever put into holds none.
func askQueue(inspector *asynq.Inspector) (asynq.QueueInfo, error) {
	info, err := inspector.GetQueueInfo(tasks.Queue)
	switch {
	case errors.Is(err, asynq.ErrQueueNotFound):
		return asynq.QueueInfo{}, nil
	case err != nil:
		return asynq.QueueInfo{}, err
	}
	return *info, nil
}

// redisGauges tells what Redis says.
type redisGauges struct {
	server *source[redisState]
	queue  *source[asynq.QueueInfo]
}

var (
	redisUp      = desc("redis_up", "1 while Redis answers a scrape, else 0.")
	redisPing    = desc("redis_ping_seconds", "Time of a PING.")
	redisUsed    = desc("redis_memory_used_bytes", "Memory that Redis uses.")
	redisMax     = desc("redis_memory_max_bytes", "Memory that Redis may use (maxmemory); 0 for no limit.")
	redisRatio   = desc("redis_memory_used_ratio", "Memory used of what may be used; left out when there is no limit.")
	queueTasks   = desc("queue_tasks", "Tasks in the queue, by asynq's state.", "state")
	queueLatency = desc("queue_latency_seconds", "How long the oldest pending task has waited for a worker.")
)

// Describe implements prometheus.Collector.
func (redisGauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{redisUp, redisPing, redisUsed, redisMax, redisRatio, queueTasks, queueLatency} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c redisGauges) Collect(ch chan<- prometheus.Metric) {
	s, err := c.server.get()
	ch <- gauge(redisUp, truth(err == nil))
	if err != nil {
		return // the queue is not asked: it would be one more wait
	}
	ch <- gauge(redisPing, s.ping.Seconds())
	if s.used >= 0 {
		ch <- gauge(redisUsed, s.used)
		ch <- gauge(redisMax, s.most)
		if s.most > 0 {
			ch <- gauge(redisRatio, s.used/s.most)
		}
	}
	q, err := c.queue.get()
	if err != nil {
		return
	}
	for state, n := range map[string]int{"pending": q.Pending, "active": q.Active, "scheduled": q.Scheduled, "retry": q.Retry,
		"archived": q.Archived, "completed": q.Completed} {
		ch <- gauge(queueTasks, float64(n), state)
	}
	ch <- gauge(queueLatency, q.Latency.Seconds())
}
