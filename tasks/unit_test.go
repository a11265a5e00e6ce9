package tasks_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/tasks"
)

func TestNewTaskRefusesWhatASubmitWould(t *testing.T) {
	t.Parallel()
	good := tasks.Charge{Tenant: "acme", Account: "alice", Type: "image", Key: "k", Cost: 1, Input: []byte(`{"prompt":"<b>&"}`)}
	task, err := tasks.NewTask(good)
	require.NoError(t, err)
	require.Contains(t, string(task.Payload()), `<b>&`, "an input is not made longer")
	for name, change := range map[string]func(*tasks.Charge){
		"no key":         func(c *tasks.Charge) { c.Key = "" },
		"no account":     func(c *tasks.Charge) { c.Account = "" },
		"no tenant":      func(c *tasks.Charge) { c.Tenant = "" },
		"negative cost":  func(c *tasks.Charge) { c.Cost = -1 },
		"no type":        func(c *tasks.Charge) { c.Type = "" },
		"input not JSON": func(c *tasks.Charge) { c.Input = []byte(`{`) },
		"metadata":       func(c *tasks.Charge) { c.Metadata = []byte(`[]`) },
	} {
		c := good
		change(&c)
		_, err := tasks.NewTask(c)
		require.ErrorIs(t, err, ledger.ErrInvalid, name)
	}
}

func TestRedisClientNamesTheFaultAndNotThePassword(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "http://x", "redis://u:secret@[::1", "redis://u:secret@h:port", "redis://u:secret@h/db/%zz", "localhost:6379"} {
		_, err := tasks.RedisClient(bad)
		require.Error(t, err, bad)
		require.Contains(t, err.Error(), "REDIS_URL", bad)
		require.NotContains(t, err.Error(), "secret", bad)
	}
}

func TestArtifactsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b", "c%2F")
	for _, address := range []string{"mem://", "file://" + dir} {
		a, err := tasks.OpenArtifacts(t.Context(), address)
		require.NoError(t, err)
		var picture bytes.Buffer
		require.NoError(t, png.Encode(&picture, image.NewGray(image.Rect(0, 0, 1, 1))))
		out := provider.Output{ContentType: "image/png", Data: picture.Bytes()}
		first, err := a.Write(t.Context(), "job", "token", 0, out)
		require.NoError(t, err)
		require.Equal(t, "job/token/0.png", first.Key)
		require.EqualValues(t, picture.Len(), first.Bytes)
		require.Len(t, first.SHA256, 64)
		again, err := a.Write(t.Context(), "job", "token", 0, out)
		require.NoError(t, err, "the same again")
		require.Equal(t, first, again)
		out.Data = append(bytes.Clone(out.Data), 0)
		_, err = a.Write(t.Context(), "job", "token", 0, out)
		require.True(t, provider.IsPermanent(err), "never replaced")
		for what, bad := range map[string]provider.Output{
			"a page as a picture": {ContentType: "image/png", Data: []byte("<html>")},
			"a picture as a text": {ContentType: "text/plain", Data: picture.Bytes()},
			"no content type":     {Data: []byte("x")},
			"too large":           {ContentType: "text/plain", Data: make([]byte, tasks.MaxArtifact+1)},
		} {
			_, err = a.Write(t.Context(), "job", "token", 1, bad)
			require.True(t, provider.IsPermanent(err), what)
		}
		data, err := a.Read(t.Context(), first.Key)
		require.NoError(t, err)
		require.Equal(t, picture.Bytes(), data)
		if strings.HasPrefix(address, "file") {
			files, err := os.ReadDir(filepath.Join(dir, "job", "token"))
			require.NoError(t, err)
			require.Len(t, files, 1, "no other files beside it")
		}
		a.Remove(t.Context(), []ledger.Artifact{first})
		_, err = a.Read(t.Context(), first.Key)
		require.Error(t, err)
		require.NoError(t, a.Close())
	}
}
