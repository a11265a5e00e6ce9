// Package tasks carries jobs through asynq: it wakes workers up, and the ledger decides.
//
// asynq delivers at least once and has no fencing token, so nothing here believes it. A
// delivery becomes an attempt only by StartJob's verdict; its end counts only by CompleteJob,
// FailJob or YieldJob. A lost task costs time and never credits: the job row is the outbox,
// the Relay enqueues what Redis does not have, and the Watcher puts back what a dead worker
// left.
//
// The parts: Client submits, Worker runs, Relay enqueues, Watcher watches leases. Each has
// one Run(ctx) that ends with its context.
package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/makegood/makegood/ledger"
)

// What the queue carries. The queue's name never changes: asynq sees no conflict of task ids
// across queues.
const (
	Queue      = "makegood"
	TypeJob    = "makegood:job"    // payload: a job id, alone
	TypeCharge = "makegood:charge" // payload: a Charge, opened by the worker
)

// RedisClient connects as asynq needs it: with patience, since a "done" that meets a short
// outage and is given up makes a finished task run again.
func RedisClient(url string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("REDIS_URL: %w; write redis://HOST:PORT", err)
	}
	o.MaxRetries, o.MaxRetryBackoff, o.ContextTimeoutEnabled = 15, 2*time.Second, true
	return redis.NewClient(o), nil
}

// taskID names one wake-up of a job.
func taskID(jobID string, epoch int) string { return jobID + ":" + strconv.Itoa(epoch) }

// epochOf reads the epoch out of a task id; 0 when it has none.
func epochOf(taskID string) int {
	_, text, _ := strings.Cut(taskID, ":")
	n, _ := strconv.Atoi(text)
	return n
}

// enqueue puts a job's epoch into the queue. asynq's own retries serve only a ledger that
// cannot be reached, and its timeout lies far beyond any attempt's.
func enqueue(ctx context.Context, c *asynq.Client, jobID string, epoch int) error {
	_, err := c.EnqueueContext(ctx, asynq.NewTask(TypeJob, []byte(jobID)), asynq.Queue(Queue), asynq.TaskID(taskID(jobID, epoch)),
		asynq.MaxRetry(1000), asynq.Timeout(25*time.Hour))
	return err
}

// ClientOptions of NewClient. The zero value is ready for use.
type ClientOptions struct {
	Logger *slog.Logger // nil means slog.Default()
}

// Client submits jobs.
type Client struct {
	ledger *ledger.Ledger
	queue  *asynq.Client // nil: the relay does it
	log    *slog.Logger
}

const (
	firstLook     = 10 * time.Second // when the relay looks after a job that its client enqueued
	enqueueWithin = time.Second      // how long a submit waits for Redis
)

// NewClient submits to a ledger and its queue. With a nil rdb the queue lives in another
// process, whose relay finds the job within its interval.
func NewClient(l *ledger.Ledger, rdb redis.UniversalClient, o ClientOptions) *Client {
	c := &Client{ledger: l, log: o.Logger}
	if c.log == nil {
		c.log = slog.Default()
	}
	if rdb != nil {
		c.queue = asynq.NewClientFromRedisClient(rdb)
	}
	return c
}

// Close lets go of nothing: the Redis client is the caller's.
func (c *Client) Close() {}

// Submit charges and queues a job. Errors are those of ledger.Open. Once it has answered the
// job is charged and will run or be refunded, whether or not Redis could be reached.
func (c *Client) Submit(ctx context.Context, job ledger.OpenJob) (ledger.Opened, error) {
	if c.queue != nil {
		job.CheckAfter = firstLook
	}
	opened, err := c.ledger.Open(ctx, job)
	if err != nil || opened.Replayed || c.queue == nil {
		return opened, err
	}
	redisCtx, cancel := context.WithTimeout(ctx, enqueueWithin)
	defer cancel()
	err = enqueue(redisCtx, c.queue, opened.Job.ID, 1)
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // a conflict is our own lost answer
		return opened, nil
	}
	c.log.Warn("accepted, but not in the queue yet; the relay will do it", "job", opened.Job.ID, "error", err)
	// Due at once, under the next epoch: the first may have reached Redis all the same.
	if _, err := c.ledger.Sight(context.WithoutCancel(ctx), ledger.SightJob{JobID: opened.Job.ID, Epoch: 1, Sign: ledger.SignLost}); err != nil {
		c.log.Warn("the relay looks later", "job", opened.Job.ID, "error", err)
	}
	return opened, nil
}
