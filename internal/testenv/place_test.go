package testenv

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestPlaceOnNamedServersLeavesNothingThere(t *testing.T) {
	superURL, err := shared.postgres()
	require.NoError(t, err)
	sharedURL, err := shared.redis()
	require.NoError(t, err)
	t.Setenv(DatabaseVar, superURL)
	t.Setenv(RedisVar, sharedURL)

	p, err := OpenPlace(t.Context())
	require.NoError(t, err)
	var schema string
	require.NoError(t, withConn(t.Context(), p.DatabaseURL, func(conn *pgx.Conn) error {
		execSQL(t, conn, "CREATE TABLE thing (n int)")
		return conn.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema)
	}))
	opt, err := redis.ParseURL(p.RedisURL)
	require.NoError(t, err)
	require.NotZero(t, opt.DB, "database 0 is everybody's")
	client := redisClient(opt)
	t.Cleanup(func() { _ = client.Close() })
	require.NoError(t, client.Set(t.Context(), "thing", 1, 0).Err())

	require.NoError(t, p.Close())
	require.NoError(t, p.Close(), "again")
	conn := connect(t, superURL)
	require.Zero(t, queryInt(t, conn, "SELECT count(*) FROM pg_namespace WHERE nspname = $1", schema))
	left, err := client.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, left)
}
