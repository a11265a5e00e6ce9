package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/makegood/makegood/internal/crash"
)

const (
	// taskRetries and taskTimeout of every task. asynq's retries serve only a ledger that
	// cannot be reached, and its timeout lies far beyond any attempt's: attempts are counted,
	// and ended, by the ledger.
	taskRetries = 1000
	taskTimeout = 25 * time.Hour
)

// RedisClient connects as asynq needs it: with patience, since a "done" that meets a short
// outage and is given up makes a finished task run again. It does not connect yet.
func RedisClient(address string) (redis.UniversalClient, error) {
	o, err := redis.ParseURL(address)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err // without the URL, which may hold a password
		}
		return nil, fmt.Errorf("REDIS_URL: %w; write redis://HOST:PORT, or rediss:// for TLS", err)
	}
	o.MaxRetries, o.MaxRetryBackoff, o.ContextTimeoutEnabled = 15, 2*time.Second, true
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled} // a vendor's, and one more round trip
	client := redis.NewClient(o)
	client.AddHook(shortHandshake{})
	return client, nil
}

// shortHandshake bounds the first command of a new connection. go-redis repeats it on that same
// connection, however broken, as patiently as any other: for 14 seconds with our retries, while
// Redis may long be back. That is met where something accepts connections for a Redis that is
// away, such as a load balancer or a container's port.
type shortHandshake struct{}

const handshakeWithin = time.Second

// DialHook implements redis.Hook.
func (shortHandshake) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (shortHandshake) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook. The error of a handshake that took too long lets the
// command that needs the connection try another one.
func (shortHandshake) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			return next(ctx, cmd)
		}
		within, cancel := context.WithTimeout(ctx, handshakeWithin)
		defer cancel()
		err := next(within, cmd)
		if err != nil && within.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no handshake within %s: %w", handshakeWithin, io.ErrUnexpectedEOF)
			cmd.SetErr(err)
		}
		return err
	}
}

// taskID names one wake-up of a job.
func taskID(jobID string, epoch int) string { return jobID + ":" + strconv.Itoa(epoch) }

// epochOf reads the epoch out of a task id; 0 when it has none.
func epochOf(taskID string) int {
	_, text, _ := strings.Cut(taskID, ":")
	n, _ := strconv.Atoi(text)
	return max(n, 0)
}

// enqueue puts a job's epoch into the queue.
func enqueue(ctx context.Context, c *asynq.Client, jobID string, epoch int) error {
	crash.Here(crash.EnqueueBefore)
	_, err := c.EnqueueContext(ctx, asynq.NewTask(TypeJob, []byte(jobID)), asynq.Queue(Queue), asynq.TaskID(taskID(jobID, epoch)),
		asynq.MaxRetry(taskRetries), asynq.Timeout(taskTimeout))
	crash.Here(crash.EnqueueAfter)
	return err
}

// evalReply finds the code of Redis's reply in an error of asynq, which keeps only the text of
// what a script met.
var evalReply = regexp.MustCompile(`redis eval error: ([A-Z][A-Z0-9]+) `)

// refused tells an enqueue that Redis answered with an error (its memory is full, say) from
// one that did not reach it. A server that is still loading its data is not reached.
func refused(err error) bool {
	code := ""
	if reply, ok := errors.AsType[redis.Error](err); ok {
		code, _, _ = strings.Cut(reply.Error(), " ")
	} else if m := evalReply.FindStringSubmatch(err.Error()); m != nil {
		code = m[1]
	}
	return code != "" && code != "LOADING"
}

// asynqLog sends asynq's log to ours. Much of what asynq calls an error is its normal way
// through an outage.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn("asynq: " + fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Warn("asynq: " + fmt.Sprint(args...)) }

// Fatal does not end the process, which is not asynq's; 0.26 never calls it.
func (l asynqLog) Fatal(args ...any) { l.log.Error("asynq: " + fmt.Sprint(args...)) }

// level spares asynq its chatter when nobody reads it.
func (l asynqLog) level() asynq.LogLevel {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		return asynq.InfoLevel
	}
	return asynq.WarnLevel
}

// orDefault keeps a logger, or takes the default one.
func orDefault(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.Default()
	}
	return log
}
