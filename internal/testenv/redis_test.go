package testenv

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestRedisDatabaseIsOwn(t *testing.T) {
	t.Parallel()
	first, second := dial(t, Redis(t)), dial(t, Redis(t))
	require.NoError(t, first.Set(t.Context(), "k", "first", 0).Err())
	require.ErrorIs(t, second.Get(t.Context(), "k").Err(), redis.Nil)
	require.NoError(t, second.FlushDB(t.Context()).Err())
	require.Equal(t, "first", first.Get(t.Context(), "k").Val())
}

func TestRedisDatabaseIsEmptied(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("user", func(t *testing.T) {
		url = Redis(t)
		require.NoError(t, dial(t, url).Set(t.Context(), "k", "v", 0).Err())
	})
	require.Zero(t, dial(t, url).DBSize(t.Context()).Val())
}

// Processes share a server: what keeps their numbers apart is in the server.
func TestRedisDatabaseNumbersAreClaimedOnce(t *testing.T) {
	t.Parallel()
	sharedURL, err := shared.redis()
	require.NoError(t, err)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[int]int{}
	)
	for range 8 {
		wg.Go(func() {
			for range 20 {
				n, err := claimDatabase(t.Context(), sharedURL)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				seen[n]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 160)
	for n := range seen {
		require.NoError(t, releaseDatabase(sharedURL, n))
	}
}

func TestOwnRedisKeepsItsData(t *testing.T) {
	t.Parallel()
	s := OwnRedis(t)
	url, addr := s.URL(), s.Addr()
	client := dial(t, url)
	for i, end := range []func(){s.Kill, s.Stop, s.Kill} {
		require.NoError(t, client.RPush(t.Context(), "list", i).Err())
		end()
		require.Error(t, client.Ping(t.Context()).Err())
		s.Start()
		require.Equal(t, addr, s.Addr())
		require.EqualValues(t, i+1, client.LLen(t.Context(), "list").Val())
	}
	s.FlushAll(t)
	require.Zero(t, client.DBSize(t.Context()).Val())
}

func TestOwnRedisFreezes(t *testing.T) {
	t.Parallel()
	s := OwnRedis(t)
	client := dial(t, s.URL())
	require.NoError(t, client.Set(t.Context(), "k", "v", 0).Err())

	s.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var timeout net.Error
	require.ErrorAs(t, client.Get(ctx, "k").Err(), &timeout)
	require.True(t, timeout.Timeout(), timeout)
	s.Thaw()
	require.Equal(t, "v", client.Get(t.Context(), "k").Val())

	s.Freeze()
	s.Stop() // a frozen server can be stopped, and killed at the end of the test
	s.Start()
	s.Freeze()
}

func dial(t *testing.T, url string) *redis.Client {
	t.Helper()
	opt, err := redis.ParseURL(url)
	require.NoError(t, err)
	client := redisClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	return client
}
