package telemetry_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
)

// counted compares what was counted with lines of Prometheus's text, without their prefix.
func counted(t *testing.T, m *telemetry.Metrics, lines ...string) {
	t.Helper()
	text := scrape(t, m)
	for _, line := range lines {
		require.Contains(t, text, "\nmakegood_"+line+"\n")
	}
}

func scrape(t *testing.T, m *telemetry.Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

func ended(state ledger.State, reason ledger.EndReason, held, charged int64) ledger.Job {
	return ledger.Job{ID: "j", End: &ledger.EndState{State: state, Reason: reason, Held: held, Charged: charged}}
}

func TestEndsOfJobsAreCountedByReason(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(nobody)
	o := m.Observer()
	o.Ended(ended(ledger.StateCompleted, ledger.EndPartial, 8, 6))
	o.Ended(ended(ledger.StateFailed, ledger.EndVendor, 5, 0))
	o.Ended(ended(ledger.StateFailed, ledger.EndVendor, 0, 0)) // a free job: nothing to give back
	o.Ended(ended(ledger.StateRefunded, ledger.EndOrphaned, 7, 0))
	o.Ended(ended(ledger.StateRefunded, ledger.EndOrphaned, 0, 0)) // its entry is a refund all the same
	counted(t, m,
		`completions_total{reason="partial"} 1`, `completions_total{reason="delivered"} 0`,
		`failures_total{reason="vendor_error"} 2`,
		`refunds_total{kind="refund",reason="vendor_error"} 1`,
		`credits_refunded_total{kind="refund",reason="vendor_error"} 5`,
		`refunds_total{kind="reconciler_refund",reason="orphaned"} 2`,
		`credits_refunded_total{kind="reconciler_refund",reason="orphaned"} 7`)
}

func TestAnswersAreCountedByOutcome(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(nobody)
	answer := m.Observer().Answer
	open := &ledger.OpenJob{}
	answer(ledger.Answer{Command: open, Value: ledger.Opened{}, Took: 20 * time.Millisecond})
	answer(ledger.Answer{Command: open, Value: ledger.Opened{Replayed: true}})
	for _, err := range []error{ledger.ErrInsufficientCredits, ledger.ErrInvalid, ledger.ErrKeyReused, ledger.ErrUnavailable, context.Canceled} {
		answer(ledger.Answer{Command: open, Err: err})
	}
	running, queued := ledger.Job{End: &ledger.EndState{}}, ledger.Job{Open: &ledger.OpenState{}}
	for _, c := range []*ledger.YieldJob{{}, {GiveBack: true}, {Word: ledger.WordWorking}, {Word: ledger.WordWorking}} {
		answer(ledger.Answer{Command: c, Value: ledger.Failed{Job: queued}})
	}
	answer(ledger.Answer{Command: &ledger.YieldJob{}, Value: ledger.Failed{Job: running}})                // its last attempt: the job ended
	answer(ledger.Answer{Command: &ledger.YieldJob{}, Value: ledger.Failed{Job: queued, Replayed: true}}) // told before
	answer(ledger.Answer{Command: &ledger.CompleteJob{}, Err: ledger.ErrFenced})
	answer(ledger.Answer{Command: &ledger.StartJob{}, Value: ledger.Started{Verdict: ledger.VerdictAsk}})
	answer(ledger.Answer{Command: &ledger.SightJob{Sign: ledger.SignRefused}, Value: ledger.Sighted{Changed: true}})
	answer(ledger.Answer{Command: &ledger.SightJob{Sign: ledger.SignLost}, Value: ledger.Sighted{}}) // it moved on
	answer(ledger.Answer{Command: &ledger.PutBackJob{}, Value: ledger.PutBack{Changed: true}})
	answer(ledger.Answer{Command: &ledger.PutBackJob{}, Value: ledger.PutBack{}})
	answer(ledger.Answer{Command: &ledger.SweepJob{}, Value: ledger.Swept{Decision: ledger.SweepDecision{Action: ledger.SweepFail, Reason: ledger.EndMaxWait}}})
	counted(t, m,
		`opens_total{outcome="opened"} 1`, `opens_total{outcome="replayed"} 1`, `opens_total{outcome="insufficient_credits"} 1`,
		`opens_total{outcome="refused"} 2`, `opens_total{outcome="unavailable"} 1`, `opens_total{outcome="abandoned"} 1`,
		`yields_total{word="none"} 1`, `yields_total{word="given_back"} 1`, `yields_total{word="working"} 2`, `yields_total{word="failed"} 0`,
		`fenced_attempts_total{command="complete"} 1`, `refusals_total{code="fenced"} 1`, `refusals_total{code="invalid_request"} 1`,
		`starts_total{verdict="ask"} 1`, `sights_total{sign="refused"} 1`, `sights_total{sign="lost"} 0`,
		`put_backs_total{outcome="put_back"} 1`, `put_backs_total{outcome="left"} 1`,
		`sweep_decisions_total{action="fail",reason="max_wait"} 1`,
		`command_duration_seconds_count{command="open"} 1`)
}

func TestCommitsAreCountedByResult(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(nobody)
	o := m.Observer()
	o.Batch(3)
	o.Commit(ledger.Commit{Commands: 3, Took: time.Millisecond})
	for _, fate := range []ledger.Fate{ledger.FateUnknown, ledger.FateRejected} {
		o.Commit(ledger.Commit{Fate: fate, Err: &ledger.StoreError{Fate: fate, Err: errors.New("no")}})
	}
	o.Commit(ledger.Commit{Err: errors.New("panic")})
	o.Halve(3)
	counted(t, m, `commits_total{result="committed"} 1`, `commits_total{result="unknown"} 1`, `commits_total{result="rejected"} 1`,
		`commits_total{result="panicked"} 1`, `commits_total{result="contended"} 0`, "batches_halved_total 1",
		`batch_commands_bucket{le="2"} 0`, `batch_commands_bucket{le="4"} 1`, "commit_duration_seconds_count 4")
}

func TestNamesAreAsPrometheusWantsThem(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics(nobody)
	problems, err := testutil.GatherAndLint(m.Gatherer())
	require.NoError(t, err)
	require.Empty(t, problems)
}

// A server that accepts and never answers holds a scrape up for a second, once in a few.
func TestAScrapeDoesNotWaitForASilentServer(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	client := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), MaxRetries: 15, ContextTimeoutEnabled: true})
	defer client.Close()
	m := telemetry.NewMetrics(nobody)
	m.WatchRedis(client)

	began := time.Now()
	text := scrape(t, m)
	require.Contains(t, text, "\nmakegood_redis_up 0\n")
	require.NotContains(t, text, "makegood_redis_ping_seconds")
	require.Less(t, time.Since(began), 3*time.Second)
	again := scrape(t, m)
	require.Contains(t, again, "\nmakegood_scrape_errors_total{source=\"redis\"} 1\n", "the second did not ask again")
	require.Equal(t, 1, strings.Count(again, "\nmakegood_scrape_errors_total{source=\"redis\"}"))
}
