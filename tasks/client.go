package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/makegood/makegood/ledger"
)

// ClientOptions of NewClient. The zero value is ready for use.
type ClientOptions struct {
	Logger *slog.Logger // nil means slog.Default()
}

// Client submits jobs. It is safe for concurrent use.
type Client struct {
	ledger *ledger.Ledger
	queue  *asynq.Client // nil: the relay does it
	log    *slog.Logger
}

const (
	firstLook     = 10 * time.Second       // when the relay looks after a job that its client enqueued
	enqueueWithin = 500 * time.Millisecond // how long a submit waits for Redis
)

// NewClient submits to a ledger and its queue. With a nil rdb the queue lives in another
// process, whose relay finds the job within its interval.
func NewClient(l *ledger.Ledger, rdb redis.UniversalClient, o ClientOptions) *Client {
	c := &Client{ledger: l, log: orDefault(o.Logger)}
	if rdb != nil {
		c.queue = asynq.NewClientFromRedisClient(rdb)
	}
	return c
}

// Close lets go of nothing: the ledger and the Redis client are the caller's.
func (c *Client) Close() {}

// Submit charges and queues a job. Errors are those of ledger.Open. Once it has answered the
// job is charged and will run or be refunded, whether or not Redis could be reached.
func (c *Client) Submit(ctx context.Context, job ledger.OpenJob) (ledger.Opened, error) {
	if c.queue != nil {
		job.CheckAfter = firstLook
	}
	opened, err := c.ledger.Open(ctx, job)
	if err != nil || opened.Replayed || c.queue == nil || opened.Job.Open == nil {
		return opened, err
	}
	epoch := opened.Job.Open.Epoch
	redisCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enqueueWithin)
	defer cancel()
	err = enqueue(redisCtx, c.queue, opened.Job.ID, epoch)
	if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // a conflict is our own lost answer
		return opened, nil
	}
	c.log.Warn("accepted, but not in the queue yet; the relay will see to it", "job", opened.Job.ID, "account", opened.Job.Account,
		"epoch", epoch, "error", err)
	// Due at once. When the answer was lost on the way the task may be in the queue all the
	// same: then the relay's next epoch makes that one stale.
	sight := ledger.SightJob{JobID: opened.Job.ID, Epoch: epoch, Sign: ledger.SignLost}
	if refused(err) {
		sight.Sign = ledger.SignRefused
	}
	if _, err := c.ledger.Sight(context.WithoutCancel(ctx), sight); err != nil {
		c.log.Warn("the relay looks a little later", "job", opened.Job.ID, "error", err)
	}
	return opened, nil
}
