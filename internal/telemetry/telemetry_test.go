package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/makegood/makegood/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var nobody = slog.New(slog.DiscardHandler)

func TestLoggerWritesUTCWithMilliseconds(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.Logger(&out, "info", "json")
	require.NoError(t, err)
	at := time.Date(2026, 3, 1, 12, 0, 0, 5_678_000, time.FixedZone("", 3600))
	log.Debug("not told")
	log.Info("told", "at", at, "took", 1500*time.Millisecond)

	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line), "one document: debug is below info")
	require.Equal(t, "told", line["msg"])
	require.Equal(t, "2026-03-01T11:00:00.005Z", line["at"])
	require.Equal(t, "1.5s", line["took"])
	require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, line["time"])
}

func TestLoggerAsText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log, err := telemetry.Logger(&out, "debug", "text")
	require.NoError(t, err)
	log.Debug("told", "job_id", "01J")
	require.Regexp(t, `^time=\S+Z level=DEBUG msg=told job_id=01J\n$`, out.String())
}

func TestLoggerRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, err := telemetry.Logger(nil, "loud", "text")
	require.ErrorContains(t, err, `"loud"`)
	_, err = telemetry.Logger(nil, "info", "xml")
	require.ErrorContains(t, err, `"xml"`)
}
