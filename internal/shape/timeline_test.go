package shape_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

func TestTimelineTellsTheWholeStoryInOrder(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(s int) shape.Time { return shape.Time(noon.Add(time.Duration(s) * time.Second)) }
	balance := func(n int64) *int64 { return &n }
	story := shape.JobStory{
		Job: shape.Job{ID: "J"},
		Entries: []shape.Entry{
			{Kind: ledger.KindDeduct, Delta: -8, BalanceAfter: balance(42), Reason: "image", Actor: "client", CreatedAt: at(0)},
			{Kind: ledger.KindTaskStarted, Reason: "image", Actor: "worker", CreatedAt: at(1)},
			{Kind: ledger.KindReconcilerRefund, Delta: 8, BalanceAfter: balance(50), Reason: "max_unknown", Actor: "reconciler", CreatedAt: at(90)},
		},
		AttemptLog: []shape.Attempt{
			{N: 1, Epoch: 1, Worker: "W1", StartedAt: at(1), EndedAt: at(4), Outcome: "yielded", WaitUntil: at(6),
				Error: &ledger.JobError{Code: "vendor_unknown", Message: "not shown: somebody's words"}},
			{N: 2, Epoch: 2, Worker: "W2", StartedAt: at(7)},
		},
		Calls: []shape.Call{{N: 1, Provider: "studio", Status: ledger.CallLate, VendorRef: "gen_1", ClaimedAt: at(2), AcceptedAt: at(8), EndedAt: at(95)}},
	}
	lines := []string{}
	for _, m := range shape.Timeline(story, func(n int64) string { return fmt.Sprint(n) }) {
		lines = append(lines, fmt.Sprintf("%d %s | %s", int(m.At.Sub(noon).Seconds()), m.What, m.Details))
	}
	require.Equal(t, `0 charged | -8 credits, balance 42; image (client)
1 taken | run 1, epoch 1, by worker W1
1 started | image (worker)
2 submitting | to studio as J:1
4 put back | run 1: vendor_unknown, waits 2s
7 taken | run 2, epoch 2, by worker W2
8 accepted | by studio, which calls it gen_1
90 refunded | +8 credits, balance 50; max_unknown (reconciler)
95 vendor: late | call 1`, strings.Join(lines, "\n"))
}
