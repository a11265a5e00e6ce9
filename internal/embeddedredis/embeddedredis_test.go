package embeddedredis_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/embeddedredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) *embeddedredis.Server {
	t.Helper()
	s, err := embeddedredis.Start()
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func client(t *testing.T, address string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(address)
	require.NoError(t, err)
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	c := redis.NewClient(opt)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// process runs an asynq server that hands each task's type and payload over.
func process(t *testing.T, s *embeddedredis.Server, handle asynq.HandlerFunc) *asynq.Client {
	t.Helper()
	broker := client(t, s.URL())
	server := asynq.NewServerFromRedisClient(broker, asynq.Config{
		Concurrency:              4,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: 10 * time.Millisecond,
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		LogLevel:                 asynq.FatalLevel,
	})
	require.NoError(t, server.Start(handle))
	t.Cleanup(server.Shutdown)
	return asynq.NewClientFromRedisClient(broker)
}

func TestAsynqProcessesTasks(t *testing.T) {
	t.Parallel()
	payloads := make(chan string, 1)
	tasks := process(t, start(t), func(_ context.Context, task *asynq.Task) error {
		payloads <- string(task.Payload())
		return nil
	})
	_, err := tasks.EnqueueContext(t.Context(), asynq.NewTask("image", []byte("01J")), asynq.TaskID("01J:1"))
	require.NoError(t, err)
	require.Equal(t, "01J", <-payloads)
}

func TestAScheduledTaskComesDue(t *testing.T) {
	t.Parallel()
	ran := make(chan time.Time, 1)
	tasks := process(t, start(t), func(context.Context, *asynq.Task) error {
		ran <- time.Now()
		return nil
	})
	due := time.Now().Add(time.Second)
	info, err := tasks.EnqueueContext(t.Context(), asynq.NewTask("image", nil), asynq.ProcessAt(due))
	require.NoError(t, err)
	require.Equal(t, asynq.TaskStateScheduled, info.State)
	// The queue keeps whole seconds.
	require.False(t, (<-ran).Before(due.Truncate(time.Second)))
}

func TestAFailedTaskIsTriedAgain(t *testing.T) {
	t.Parallel()
	runs := make(chan int, 2)
	tasks := process(t, start(t), func(ctx context.Context, _ *asynq.Task) error {
		retried, _ := asynq.GetRetryCount(ctx)
		runs <- retried
		if retried == 0 {
			return errors.New("once more")
		}
		return nil
	})
	_, err := tasks.EnqueueContext(t.Context(), asynq.NewTask("image", nil), asynq.MaxRetry(3))
	require.NoError(t, err)
	require.Equal(t, 0, <-runs)
	require.Equal(t, 1, <-runs)
}

func TestATaskIDIsTakenOnce(t *testing.T) {
	t.Parallel()
	c := client(t, start(t).URL())
	tasks := asynq.NewClientFromRedisClient(c)
	enqueue := func() error {
		_, err := tasks.EnqueueContext(t.Context(), asynq.NewTask("image", nil), asynq.TaskID("01J:1"))
		return err
	}
	require.NoError(t, enqueue())
	require.ErrorIs(t, enqueue(), asynq.ErrTaskIDConflict)
}

func TestKeysExpireByTheClock(t *testing.T) {
	t.Parallel()
	c := client(t, start(t).URL())
	require.NoError(t, c.Set(t.Context(), "lease", "1", 20*time.Millisecond).Err())
	for {
		err := c.Get(t.Context(), "lease").Err()
		if errors.Is(err, redis.Nil) {
			return
		}
		require.NoError(t, err)
	}
}

func TestNobodyElseGetsIn(t *testing.T) {
	t.Parallel()
	s := start(t)
	u, err := url.Parse(s.URL())
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", u.Hostname())
	u.User = nil
	require.ErrorContains(t, client(t, u.String()).Ping(t.Context()).Err(), "NOAUTH")
	require.NotEqual(t, s.URL(), start(t).URL())
}

func TestItsURLIsARedisURL(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.RedisURL = start(t).URL()
	require.NoError(t, c.Validate())
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	s, err := embeddedredis.Start()
	require.NoError(t, err)
	s.Close()
	s.Close()
	require.Error(t, client(t, s.URL()).Ping(t.Context()).Err())
}
