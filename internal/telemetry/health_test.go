package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/telemetry"
)

func works(context.Context) error { return nil }
func fails(context.Context) error { return errors.New("connection refused") }

func ask(t *testing.T, h *telemetry.Health, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	return w
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		dependencies []telemetry.Dependency
		status       int
		body         string
	}{
		"none": {
			status: http.StatusOK,
			body:   `{"ready":true,"draining":false,"dependencies":[]}`,
		},
		"all work": {
			dependencies: []telemetry.Dependency{{Name: "database", Check: works}, {Name: "redis", Check: works}},
			status:       http.StatusOK,
			body: `{"ready":true,"draining":false,"dependencies":[
				{"name":"database","ok":true,"optional":false,"reason":null},
				{"name":"redis","ok":true,"optional":false,"reason":null}]}`,
		},
		"one fails": {
			dependencies: []telemetry.Dependency{{Name: "database", Check: fails}, {Name: "redis", Check: works}},
			status:       http.StatusServiceUnavailable,
			body: `{"ready":false,"draining":false,"dependencies":[
				{"name":"database","ok":false,"optional":false,"reason":"connection refused"},
				{"name":"redis","ok":true,"optional":false,"reason":null}]}`,
		},
		"an optional one fails": {
			dependencies: []telemetry.Dependency{{Name: "database", Check: works}, {Name: "redis", Check: fails, Optional: true}},
			status:       http.StatusOK,
			body: `{"ready":true,"draining":false,"dependencies":[
				{"name":"database","ok":true,"optional":false,"reason":null},
				{"name":"redis","ok":false,"optional":true,"reason":"connection refused"}]}`,
		},
		"one panics": {
			dependencies: []telemetry.Dependency{{Name: "database", Check: func(context.Context) error { panic("oh") }}},
			status:       http.StatusServiceUnavailable,
			body: `{"ready":false,"draining":false,"dependencies":[
				{"name":"database","ok":false,"optional":false,"reason":"the check panicked: oh"}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := ask(t, &telemetry.Health{Dependencies: test.dependencies}, http.MethodGet, "/readyz")
			require.Equal(t, test.status, w.Code)
			require.JSONEq(t, test.body, w.Body.String())
			require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

func TestReadyzAnswersThoughACheckDoesNot(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32
	release := make(chan struct{})
	returned := make(chan struct{})
	deaf := func(context.Context) error {
		begun.Add(1)
		<-release
		close(returned)
		return nil
	}
	h := &telemetry.Health{
		Timeout:      20 * time.Millisecond,
		Dependencies: []telemetry.Dependency{{Name: "database", Check: deaf}, {Name: "redis", Check: works}},
	}
	var askers sync.WaitGroup
	for range 10 {
		askers.Go(func() {
			w := ask(t, h, http.MethodGet, "/readyz")
			assert.Equal(t, http.StatusServiceUnavailable, w.Code)
			assert.Contains(t, w.Body.String(), "no answer within 20ms")
		})
	}
	askers.Wait()
	require.EqualValues(t, 1, begun.Load(), "a check that hangs is not begun again")
	close(release)
	<-returned
}

func TestChecksGetADeadline(t *testing.T) {
	t.Parallel()
	h := &telemetry.Health{Timeout: time.Minute}
	h.Dependencies = []telemetry.Dependency{{Name: "database", Check: func(ctx context.Context) error {
		deadline, ok := ctx.Deadline()
		if !ok || time.Until(deadline) > time.Minute {
			return errors.New("no deadline")
		}
		return nil
	}}}
	require.True(t, h.Report(t.Context()).Ready)
}

func TestDrain(t *testing.T) {
	t.Parallel()
	h := &telemetry.Health{Dependencies: []telemetry.Dependency{{Name: "database", Check: works}}}
	h.Drain()
	w := ask(t, h, http.MethodGet, "/readyz")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), `"draining":true`)
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/healthz").Code)
}

func TestOtherAddresses(t *testing.T) {
	t.Parallel()
	h := &telemetry.Health{Dependencies: []telemetry.Dependency{{Name: "database", Check: fails}}}
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodGet, "/healthz").Code, "no dependency is asked")
	require.Equal(t, http.StatusOK, ask(t, h, http.MethodHead, "/healthz").Code)
	require.Equal(t, http.StatusMethodNotAllowed, ask(t, h, http.MethodPost, "/readyz").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/metrics").Code)
	require.Equal(t, http.StatusNotFound, ask(t, h, http.MethodGet, "/").Code)

	h.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "numbers") })
	require.Equal(t, "numbers", ask(t, h, http.MethodGet, "/metrics").Body.String())
}

func TestServedOverTheNetwork(t *testing.T) {
	t.Parallel()
	ln, err := telemetry.Listen("127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	h := &telemetry.Health{Dependencies: []telemetry.Dependency{{Name: "database", Check: fails}}}
	ended := make(chan error, 1)
	go func() { ended <- telemetry.Serve(ctx, ln, h.Handler(), nobody) }()
	require.Equal(t, http.StatusOK, get(t, telemetry.URL(ln)+"/healthz").status)
	got := get(t, telemetry.URL(ln)+"/readyz")
	require.Equal(t, http.StatusServiceUnavailable, got.status)
	require.Contains(t, got.body, "connection refused")
	stop()
	require.NoError(t, <-ended)
}
