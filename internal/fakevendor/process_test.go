package fakevendor_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/fakevendor"
)

// process is a vendor in a process of its own: this test binary.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	url string
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asVendor+"=1", "FAKEVENDOR_KEY=k", "FAKEVENDOR_WEBHOOK_SECRETS="+secret("a")+","+secret("b"))
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	url, ready := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	require.True(t, ready, line)
	p.url = url
	return p
}

// end signals the process and returns its exit code, -1 when it was killed.
func (p *process) end(signal syscall.Signal) int {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(signal)
		_ = p.cmd.Wait()
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) remote() (fakevendor.Remote, *client) {
	c := newClient(p.t, p.url)
	c.key = "k"
	return fakevendor.Remote{URL: p.url, Key: "k", Client: c.http}, c
}

func TestProcessSurvivesKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	faults := filepath.Join(dir, "faults.json")
	require.NoError(t, os.WriteFile(faults, []byte(`[{"key_prefix":"job:","at":"after","do":"drop"}]`), 0o600))
	args := []string{"-data", filepath.Join(dir, "books"), "-hold", "-price", "5", "-poll-after", "2s", "-faults", faults}
	p := startProcess(t, args...)
	remote, c := p.remote()

	require.Error(t, c.submit("job:1", order("a fox", 2)).err)
	bill, err := remote.Bill(soon(t))
	require.NoError(t, err)
	require.Len(t, bill.Rows, 1)
	require.Equal(t, -1, p.end(syscall.SIGKILL))

	address := strings.TrimPrefix(p.url, "http://")
	waiting := later(func() reply { return reply{err: remote.Wait(soon(t), fakevendor.Replayed, "job:", 1)} })
	p = startProcess(t, append(args, "-listen", address)...)
	require.Equal(t, remote.URL, p.url)
	require.NoError(t, remote.ClearFaults(soon(t)))
	g := c.submit("job:1", order("a fox", 2)).generation(t, http.StatusCreated)
	require.Equal(t, bill.Rows[0].ID, g.ID)
	require.EqualValues(t, 2000, *g.PollAfterMS)
	require.NoError(t, await(t, waiting).err, "waits while the vendor is away")
	again, err := remote.Bill(soon(t))
	require.NoError(t, err)
	require.Len(t, again.Rows, 1)
	require.EqualValues(t, 10, again.Cost)

	r := receive(t)
	c.cancel(c.accepted("other:1", r.order(1)).ID)
	told := r.hear("cancelled")[0]
	require.Equal(t, sign("a", told)+" "+sign("b", told), told.signature, "secrets from the environment")
	require.Equal(t, 0, p.end(syscall.SIGTERM))
}

func TestRemote(t *testing.T) {
	t.Parallel()
	r := receive(t)
	v := fakevendor.Start(t, fakevendor.Options{Key: "k", Work: fakevendor.Work{Hold: true}})
	remote, c := (&process{t: t, url: v.URL()}).remote()

	require.NoError(t, remote.SetWebhookSecrets(soon(t), secret("a"), secret("b")))
	require.NoError(t, remote.AddFaults(soon(t), fakevendor.Fault{KeyPrefix: "gate:", Gate: "a/b"}))
	gated := later(func() reply { return c.submit("gate:1", r.order(1)) })
	require.NoError(t, remote.Wait(soon(t), fakevendor.Held, "gate:", 1))
	require.NoError(t, remote.Open(soon(t), "a/b"))
	id := await(t, gated).generation(t, http.StatusCreated).ID

	require.NoError(t, remote.Progress(soon(t), id, 30, 0))
	processing := r.hear("processing")[0]
	require.Equal(t, 30, processing.data.Progress)
	require.Equal(t, sign("a", processing)+" "+sign("b", processing), processing.signature)
	status, err := remote.Call(soon(t), id, fakevendor.Callback{Status: fakevendor.Cancelled})
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, status)
	r.hear("cancelled")
	require.NoError(t, remote.Finish(soon(t), id, fakevendor.Outcome{}))
	r.hear("succeeded")
	require.ErrorIs(t, remote.Finish(soon(t), id, fakevendor.Outcome{}), fakevendor.ErrEnded)
	require.ErrorIs(t, remote.Progress(soon(t), "gen_none", 1, 0), fakevendor.ErrUnknown)
	c.accepted("job:1", order("a fox", 1))
	n, err := remote.FinishAll(soon(t), "", fakevendor.Outcome{})
	require.NoError(t, err)
	require.Equal(t, 1, n)

	bill, err := remote.Bill(soon(t))
	require.NoError(t, err)
	local := v.Bill()
	require.Equal(t, local.Rows[0].Calls, bill.Rows[0].Calls)
	require.Equal(t, local.Calls, bill.Calls)

	var refused *fakevendor.RemoteError
	require.ErrorAs(t, remote.AddFaults(soon(t), fakevendor.Fault{Nth: -1}), &refused)
	require.Equal(t, http.StatusBadRequest, refused.Status)
	require.NoError(t, refused.Unwrap())
	remote.Key = "wrong"
	require.ErrorAs(t, remote.Wait(soon(t), fakevendor.Get, "", 1), &refused)
	require.Equal(t, http.StatusUnauthorized, refused.Status)
	remote.Key = "k"
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	require.ErrorIs(t, remote.Wait(ctx, fakevendor.Get, "", 99), io.ErrClosedPipe)
}

func TestOperationRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	_, c := start(t, held)
	call := func(method, path, body string) reply { return c.do(t.Context(), method, path, "", body) }
	for path, body := range map[string]string{
		"/admin/faults":    `[{"colour":"red"}]`,
		"/admin/finish":    `{}`,
		"/admin/progress":  `{"id":1}`,
		"/admin/callbacks": `{"id":"x","callback":{"status":"done"},"more":1}`,
	} {
		call(http.MethodPost, path, body).refused(t, http.StatusBadRequest, "invalid_request")
	}
	call(http.MethodPost, "/admin/finish", `{"id":"x","key_prefix":""}`).refused(t, http.StatusBadRequest, "invalid_request")
	call(http.MethodPut, "/admin/webhook-secrets", `["plain text"]`).refused(t, http.StatusBadRequest, "invalid_request")
	for _, query := range []string{"n=x", "timeout=x", "timeout=1h", "timeout=-1s"} {
		call(http.MethodGet, "/admin/wait?"+query, "").refused(t, http.StatusBadRequest, "invalid_request")
	}
	require.JSONEq(t, `{"count":0,"met":false}`, string(call(http.MethodGet, "/admin/wait?kind=get&timeout=1ms", "").body))
	call(http.MethodGet, "/books", "")
	require.Equal(t, http.StatusNoContent, call(http.MethodPost, "/admin/faults", `[{"call":"get"}]`).status)
	require.Contains(t, string(call(http.MethodGet, "/admin/faults", "").body), `"seen":0`)
}

func TestMainRefusesBadFlags(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	bad := filepath.Join(t.TempDir(), "faults.json")
	require.NoError(t, os.WriteFile(bad, []byte(`[{"do":"explode"}]`), 0o600))
	for code, lists := range map[int][][]string{
		0: {{"-help"}, {}},
		1: {{"-faults", bad}, {"-listen", "256.0.0.1:0"}, {"-price", "-1"}},
		2: {{"-colour"}, {"more"}, {"-faults", bad + ".none"}},
	} {
		for _, args := range lists {
			var stdout, stderr bytes.Buffer
			require.Equal(t, code, fakevendor.Main(ended, args, &stdout, &stderr), "%v: %s", args, stderr.String())
			require.Equal(t, code != 0, strings.Contains(stderr.String(), "fakevendor: "), stderr.String())
		}
	}
}

// A wait that the vendor's end cuts short does not keep it from ending.
func TestCloseEndsWaits(t *testing.T) {
	t.Parallel()
	v, err := fakevendor.New(fakevendor.Options{})
	require.NoError(t, err)
	c := newClient(t, v.URL())
	written := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(written) },
	})
	waiting := later(func() reply { return c.do(ctx, http.MethodGet, "/admin/wait?kind=get&timeout=60s", "", "") })
	await(t, written)
	require.NoError(t, v.Close())
	await(t, waiting)
}
