package generations_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/generations"
)

// service answers with what a test says.
func service(t *testing.T, answer http.HandlerFunc) provider.Vendor {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	v, err := generations.New(generations.Options{URL: server.URL, Key: "k", Price: 5, Client: server.Client()})
	require.NoError(t, err)
	return v
}

// An empty secret is one that everybody knows.
func TestEmptySecretIsRefused(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "whsec_"} {
		v, err := generations.New(generations.Options{URL: "http://localhost", Key: "k",
			Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", secret}})
		require.Error(t, err, "%q", secret)
		require.Nil(t, v)
	}
}

func TestCallbackOfAServiceWithoutSecretsIsUnsigned(t *testing.T) {
	t.Parallel()
	v := service(t, http.NotFound)
	now, body := fmt.Sprint(time.Now().Unix()), `{"data":{"id":"g","status":"succeeded"}}`
	mac := hmac.New(sha256.New, nil)
	mac.Write([]byte("id." + now + "." + body))
	h := http.Header{}
	h.Set("Webhook-Id", "id")
	h.Set("Webhook-Timestamp", now)
	h.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	caller, ok := v.(provider.Caller)
	require.True(t, ok)
	_, err := caller.Callback(h, []byte(body))
	require.ErrorIs(t, err, provider.ErrUnsigned)
}

// A service that ignores the filter answers with somebody else's generation.
func TestLookupBelievesItsOwnKeyOnly(t *testing.T) {
	t.Parallel()
	v := service(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"g1","idempotency_key":"other:1","status":"succeeded"}]}`)
	})
	finder, ok := v.(provider.Finder)
	require.True(t, ok)
	ref, err := finder.Find(t.Context(), "job:1")
	require.Error(t, err)
	require.NotErrorIs(t, err, provider.ErrNotFound)
	require.Empty(t, ref)
	ref, err = finder.Find(t.Context(), "other:1")
	require.NoError(t, err)
	require.Equal(t, "g1", ref)
}

// A refusal for the moment is the service's word on a first sending only.
func TestRefusalOfAResendIsNoVerdict(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden} {
		v := service(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		_, err := v.Submit(t.Context(), provider.Request{Key: "job:1", Input: json.RawMessage(`{}`)})
		require.True(t, provider.IsRefused(err), status)
		_, err = v.Submit(t.Context(), provider.Request{Key: "job:1", Again: true, Input: json.RawMessage(`{}`)})
		require.Error(t, err)
		require.False(t, provider.IsRefused(err), status)
		_, waits := provider.RetryDelay(err)
		require.True(t, waits, status)
	}
}

// Outputs are in memory at once: what is announced as too much is not fetched.
func TestOutputsAreBounded(t *testing.T) {
	t.Parallel()
	v := service(t, func(http.ResponseWriter, *http.Request) { t.Error("it was fetched") })
	one := `{"url":"http://x/1","bytes":67108864,"sha256":""}`
	for _, payload := range []string{
		"[" + strings.Repeat(one+",", 4) + one + "]",
		`[{"url":"http://x/1","bytes":67108865,"sha256":""}]`,
		`[{"url":"http://x/1","bytes":-1,"sha256":""}]`,
	} {
		_, err := v.Download(t.Context(), "g", provider.News{Payload: json.RawMessage(payload)})
		require.True(t, provider.IsPermanent(err), "%v", err)
		require.Contains(t, err.Error(), "together")
	}
}
