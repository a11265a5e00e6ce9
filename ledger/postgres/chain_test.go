package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The trigger that keeps the chain looks at the movement before each new one. With statistics
// from when every account had one movement, a planner takes any index of the account for that
// and reads a long account from end to end.
func TestTheChainOfALongAccountAmongManyShortOnesCostsTheSame(t *testing.T) {
	t.Parallel()
	_, ownerURL, appURL := open(t)
	const rows = 20_000
	owner, err := pgx.Connect(t.Context(), ownerURL)
	require.NoError(t, err)
	defer owner.Close(context.Background())
	fill := func(id, account, seq string) {
		t.Helper()
		_, err := owner.Exec(t.Context(), fmt.Sprintf(`INSERT INTO credit_transactions
			(id, account_id, seq, kind, delta, balance_after, job_id, reason, actor, created_at)
			SELECT %[1]s, %[2]s, %[3]s, 'grant', 1, %[3]s, %[1]s, 'r', 'a', now() FROM generate_series(1, %[4]d) i`, id, account, seq, rows))
		require.NoError(t, err)
	}
	fill("'short' || i", "'a' || i", "1")
	_, err = owner.Exec(t.Context(), "ANALYZE credit_transactions")
	require.NoError(t, err)
	fill("'long' || i", "'long'", "i")

	app, err := pgx.Connect(t.Context(), appURL)
	require.NoError(t, err)
	defer app.Close(context.Background())
	// The trigger's own time, as the server measures it; the median, since the machine is shared.
	var times []float64 // ms
	for seq := rows + 1; seq <= rows+25; seq++ {
		var raw []byte
		require.NoError(t, app.QueryRow(t.Context(), fmt.Sprintf(`EXPLAIN (ANALYZE, FORMAT JSON) INSERT INTO credit_transactions
			(id, account_id, seq, kind, delta, balance_after, job_id, reason, actor, created_at)
			VALUES ('more%[1]d', 'long', %[1]d, 'grant', 1, %[1]d, 'more%[1]d', 'r', 'a', now())`, seq)).Scan(&raw))
		var plan []struct {
			Triggers []struct {
				Name string  `json:"Trigger Name"`
				Time float64 `json:"Time"`
			} `json:"Triggers"`
		}
		require.NoError(t, json.Unmarshal(raw, &plan))
		require.Len(t, plan[0].Triggers, 1)
		require.Equal(t, "credit_transactions_chained", plan[0].Triggers[0].Name)
		times = append(times, plan[0].Triggers[0].Time)
	}
	slices.Sort(times)
	t.Logf("median %v ms, slowest %v ms", times[len(times)/2], times[len(times)-1])
	require.Less(t, times[len(times)/2], 2.0)

	began := time.Now()
	fill("'bulk' || i", "'bulk'", "i")
	t.Log(rows, "movements of one account in one statement", time.Since(began))
	require.Less(t, time.Since(began), 10*time.Second, "read from end to end for each of them, it takes a minute")
}
