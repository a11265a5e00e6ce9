package fakevendor

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What cannot be written down is not accepted, and the vendor says so from then
// on.
func TestBooksThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "books")
	v := Start(t, Options{Data: name, Work: Work{Hold: true}})
	readOnly, err := os.Open(name)
	require.NoError(t, err)
	v.books.mu.Lock()
	require.NoError(t, v.books.file.Close())
	v.books.file = readOnly
	v.books.mu.Unlock()

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	for _, key := range []string{DefaultKey, "wrong"} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, v.URL()+"/v1/generations", strings.NewReader(`{"input":{"prompt":"a fox"}}`))
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Idempotency-Key", "job:1")
		response, err := (&http.Client{Transport: transport}).Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusInternalServerError, response.StatusCode)
	}
	require.Empty(t, v.Bill().Rows)
	require.Empty(t, v.Bill().Keys, "what was not written did not happen")
}
