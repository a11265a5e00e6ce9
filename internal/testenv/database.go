package testenv

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Database 0 of a shared Redis holds who has which of the others.
	claimPrefix = "makegood:testenv:database:"
	claimNext   = "makegood:testenv:next"
	// A claim whose test was killed is free again after this long.
	claimTTL = time.Hour
)

// Redis returns the URL of an empty database that is this test's own, on a
// server shared with others. It is emptied when the test ends. FLUSHALL, and
// everything else that reaches beyond one database number, is for [OwnRedis].
func Redis(t testing.TB) string {
	t.Helper()
	sharedURL, err := shared.redis()
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	n, err := claimDatabase(t.Context(), sharedURL)
	if err != nil {
		t.Fatalf("testenv: claim a Redis database: %v", err)
	}
	t.Cleanup(func() {
		if err := releaseDatabase(sharedURL, n); err != nil {
			t.Errorf("testenv: empty Redis database %d: %v", n, err)
		}
	})
	own, err := databaseURL(sharedURL, n)
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	return own
}

// claimDatabase takes the next number that no test in any process has, and
// waits for one where the server has few.
func claimDatabase(ctx context.Context, sharedURL string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	registry, err := openDatabase(sharedURL, 0)
	if err != nil {
		return 0, err
	}
	defer func() { _ = registry.Close() }()
	config, err := registry.ConfigGet(ctx, "databases").Result()
	if err != nil {
		return 0, err
	}
	count, _ := strconv.Atoi(config["databases"])
	if count < 2 {
		return 0, fmt.Errorf("the server has %d databases, at least 2 are needed", count)
	}
	for {
		next, err := registry.Incr(ctx, claimNext).Result()
		if err != nil {
			return 0, err
		}
		n := 1 + int(next%int64(count-1))
		err = registry.SetArgs(ctx, claimPrefix+strconv.Itoa(n), 1, redis.SetArgs{Mode: "NX", TTL: claimTTL}).Err()
		switch {
		case err == nil:
			return n, flush(ctx, sharedURL, n)
		case !errors.Is(err, redis.Nil):
			return 0, err
		case int(next)%count == 0: // All were taken: give them time.
			select {
			case <-ctx.Done():
				return 0, fmt.Errorf("all %d databases are taken: %w", count-1, ctx.Err())
			case <-time.After(pollEvery):
			}
		}
	}
}

func releaseDatabase(sharedURL string, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	if err := flush(ctx, sharedURL, n); err != nil {
		return err
	}
	registry, err := openDatabase(sharedURL, 0)
	if err != nil {
		return err
	}
	defer func() { _ = registry.Close() }()
	return registry.Del(ctx, claimPrefix+strconv.Itoa(n)).Err()
}

func flush(ctx context.Context, sharedURL string, n int) error {
	client, err := openDatabase(sharedURL, n)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	return client.FlushDB(ctx).Err()
}

func openDatabase(sharedURL string, n int) (*redis.Client, error) {
	opt, err := redis.ParseURL(sharedURL)
	if err != nil {
		return nil, err
	}
	opt.DB = n
	return redisClient(opt), nil
}

func databaseURL(sharedURL string, n int) (string, error) {
	u, err := url.Parse(sharedURL)
	if err != nil {
		return "", err
	}
	u.Path = "/" + strconv.Itoa(n)
	return u.String(), nil
}
