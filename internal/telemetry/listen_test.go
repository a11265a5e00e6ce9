package telemetry_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/telemetry"
)

func TestListenSaysThatThePortIsTaken(t *testing.T) {
	t.Parallel()
	first, err := telemetry.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, first.Close()) }()

	addr := first.Addr().String()
	_, err = telemetry.Listen(addr)
	require.EqualError(t, err, addr+" is in use by another program; choose another with LISTEN_ADDR or --listen-addr")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

func TestListenElsewhere(t *testing.T) {
	t.Parallel()
	// 192.0.2.0/24 is for documentation: nobody has it.
	_, err := telemetry.Listen("192.0.2.1:8080")
	require.ErrorContains(t, err, "192.0.2.1:8080 is no address of this machine; choose")
	_, err = telemetry.Listen("nonsense")
	var told *telemetry.ListenError
	require.ErrorAs(t, err, &told)
	require.Equal(t, "nonsense", told.Addr)
}

func TestURL(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:0": "http://127.0.0.1:",
		":0":          "http://127.0.0.1:",
	} {
		ln, err := telemetry.Listen(addr)
		require.NoError(t, err)
		_, port, err := net.SplitHostPort(ln.Addr().String())
		require.NoError(t, err)
		require.Equal(t, want+port, telemetry.URL(ln))
		require.NoError(t, ln.Close())
	}
}

func TestServeLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	ln, err := telemetry.Listen("127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	arrived, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-finish
		_, _ = io.WriteString(w, "whole")
	})
	ended := make(chan error, 1)
	go func() { ended <- telemetry.Serve(ctx, ln, handler, nobody) }()

	// given: a request under way
	body := make(chan string, 1)
	go func() { body <- get(t, telemetry.URL(ln)).body }()
	<-arrived
	// when: the program is told to stop
	stop()
	refused := func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", ln.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	}
	require.Eventually(t, refused, 10*time.Second, time.Millisecond) // nothing new is let in …
	select {                                                         // … and the request is waited for
	case err := <-ended:
		require.Fail(t, "gone before the request was answered", "%v", err)
	default:
	}
	close(finish)
	// then
	require.Equal(t, "whole", <-body)
	require.NoError(t, <-ended)
}

func TestServeTellsWhenTheListenerBreaks(t *testing.T) {
	t.Parallel()
	ln, err := telemetry.Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	err = telemetry.Serve(t.Context(), ln, http.NotFoundHandler(), nobody)
	require.ErrorContains(t, err, ln.Addr().String())
	require.ErrorIs(t, err, net.ErrClosed)
}

type response struct {
	status int
	body   string
}

// get asks on a connection of its own, so that none is left open. It may be
// called on any goroutine.
func get(t *testing.T, url string) response {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return response{}
	}
	r, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return response{}
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		t.Error(err)
	}
	return response{r.StatusCode, string(body)}
}
