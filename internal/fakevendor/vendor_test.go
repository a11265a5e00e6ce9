package fakevendor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/makegood/makegood/internal/fakevendor"
)

// asVendor makes the test binary be a vendor instead.
const asVendor = "FAKEVENDOR_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asVendor) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := fakevendor.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// client calls a vendor as its customers do, without following redirects.
type client struct {
	t    *testing.T
	url  string
	key  string
	http *http.Client
}

func newClient(t *testing.T, url string) *client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{t: t, url: url, key: fakevendor.DefaultKey, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// start begins a vendor and a client of it.
func start(t *testing.T, o fakevendor.Options) (*fakevendor.Vendor, *client) {
	t.Helper()
	v := fakevendor.Start(t, o)
	return v, newClient(t, v.URL())
}

// reply is an answer, or why there was none.
type reply struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// generation is what clients are shown.
type generation struct {
	ID          string            `json:"id"`
	Status      fakevendor.Status `json:"status"`
	Progress    int               `json:"progress"`
	PollAfterMS *int64            `json:"poll_after_ms"`
	Outputs     []struct {
		URL         string `json:"url"`
		ContentType string `json:"content_type"`
		Bytes       int    `json:"bytes"`
		SHA256      string `json:"sha256"`
	} `json:"outputs"`
	Usage struct {
		Units int `json:"units"`
	} `json:"usage"`
	Cost      int64             `json:"cost"`
	Error     *fakevendor.Error `json:"error"`
	CreatedAt time.Time         `json:"created_at"`
	EndedAt   *time.Time        `json:"ended_at"`
}

func (c *client) do(ctx context.Context, method, path, key, body string) reply {
	address := path
	if !strings.HasPrefix(path, "http") {
		address = c.url + path
	}
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return reply{err: err}
	}
	request.GetBody = nil // so that the transport repeats nothing by itself
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return reply{err: err}
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	return reply{status: response.StatusCode, header: response.Header, body: data, err: err}
}

func order(prompt string, n int) string {
	return fmt.Sprintf(`{"input":{"prompt":%q,"n":%d,"size":"512x512"}}`, prompt, n)
}

func (c *client) submit(key, body string) reply {
	return c.do(c.t.Context(), http.MethodPost, "/v1/generations", key, body)
}

func (c *client) get(id string) reply {
	return c.do(c.t.Context(), http.MethodGet, "/v1/generations/"+id, "", "")
}

func (c *client) lookup(key string) reply {
	return c.do(c.t.Context(), http.MethodGet, "/v1/generations?idempotency_key="+key, "", "")
}

func (c *client) cancel(id string) reply {
	return c.do(c.t.Context(), http.MethodPost, "/v1/generations/"+id+"/cancel", "", "")
}

// accepted submits and expects a generation.
func (c *client) accepted(key, body string) generation {
	c.t.Helper()
	return c.submit(key, body).generation(c.t, http.StatusCreated)
}

func (r reply) generation(t *testing.T, status int) generation {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, status, r.status, "%s", r.body)
	var g generation
	require.NoError(t, json.Unmarshal(r.body, &g))
	return g
}

// found is what a lookup lists.
func (r reply) found(t *testing.T) []generation {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	var list struct {
		Data []generation `json:"data"`
	}
	require.NoError(t, json.Unmarshal(r.body, &list))
	require.NotNil(t, list.Data)
	return list.Data
}

// refused expects an error and returns its message.
func (r reply) refused(t *testing.T, status int, code string) string {
	t.Helper()
	require.NoError(t, r.err)
	require.Equal(t, status, r.status, "%s", r.body)
	var a struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal(r.body, &a))
	require.Equal(t, code, a.Error.Code)
	return a.Error.Message
}

// later runs a call beside the test and hands its reply over.
func later(call func() reply) <-chan reply {
	replies := make(chan reply, 1)
	go func() { replies <- call() }()
	return replies
}

func await[T any](t *testing.T, ch <-chan T) T {
	t.Helper()
	select {
	case value := <-ch:
		return value
	case <-soon(t).Done():
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

var held = fakevendor.Options{Work: fakevendor.Work{Hold: true}}
