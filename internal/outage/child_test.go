package outage

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/provider/generations"
	"github.com/makegood/makegood/tasks"
)

// asChild makes the test binary be another process of the product, with the orders that are
// its value.
const asChild = "MAKEGOOD_TEST_CHILD"

// orders of a child: to work, or to freeze inside a transaction on alice's account.
type orders struct {
	Database string        `json:"database"`
	Freeze   bool          `json:"freeze"`
	Redis    string        `json:"redis"`
	Vendor   string        `json:"vendor"` // its URL; "" for none
	Key      string        `json:"key"`
	Desk     string        `json:"desk"` // where its handler asks for leave to return
	Shutdown time.Duration `json:"shutdown"`
}

// deeds is what a worker did, as it says at its end.
type deeds struct {
	Started   int64 `json:"started"`
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
	Late      int64 `json:"late"`
	Yielded   int64 `json:"yielded"`
}

// What a child says on its standard output, a line each.
const (
	saysReady  = "ready"  // works
	saysLocked = "locked" // holds the lock, and freezes
)

func child(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.obey()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		return 1
	}
	return 0
}

func (o orders) obey() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := postgres.Open(ctx, o.Database, postgres.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if o.Freeze {
		return freeze(ctx, store)
	}
	return o.work(ctx, store)
}

// freeze locks alice's account and stops this process until somebody lets it go on. Then the
// transaction must be lost.
func freeze(ctx context.Context, store ledger.Store) error {
	err := store.Transact(ctx, &ledger.Names{Accounts: []ledger.AccountName{alice}}, func(b *ledger.Book) error {
		fmt.Println(saysLocked)
		b.Changes().Renewals["frozen"] = b.Now()
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	})
	if lost, ok := errors.AsType[*ledger.StoreError](err); !ok || lost.Fate == "" {
		return fmt.Errorf("the transaction should have been lost: %w", err)
	}
	return nil
}

// work runs a worker, and reports what it did.
func (o orders) work(ctx context.Context, store ledger.Store) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	books := ledger.New(store, ledger.Options{Logger: log})
	defer books.Close()
	rdb, err := tasks.RedisClient(o.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	files, err := tasks.OpenArtifacts(ctx, "mem://")
	if err != nil {
		return err
	}
	defer files.Close()
	mux := handled(askAt(o.Desk))
	if o.Vendor != "" {
		vendor, err := generations.New(generations.Options{URL: o.Vendor, Key: o.Key, Price: price})
		if err != nil {
			return err
		}
		mux.HandleVendor(vendorType, vendor)
	}
	worker := tasks.NewWorker(tasks.WorkerOptions{Ledger: books, Redis: rdb, Mux: mux, Artifacts: files, LeaseTTL: lease,
		ShutdownTimeout: o.Shutdown, Logger: log})
	fmt.Println(saysReady)
	if err := worker.Run(ctx); err != nil {
		return err
	}
	did := worker.Stats()
	return json.NewEncoder(os.Stdout).Encode(deeds{Started: did.Started, Completed: did.Completed, Failed: did.Failed, Late: did.Late, Yielded: did.Yielded})
}

// askAt is a handler that returns when a desk lets it. Jobs whose key begins with "deaf" do
// not hear that they should stop.
func askAt(desk string) tasks.HandlerFunc {
	return func(ctx context.Context, j tasks.Job) (tasks.Result, error) {
		if strings.HasPrefix(j.Key, "deaf") {
			ctx = context.WithoutCancel(ctx)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, desk+"/"+url.PathEscape(j.Key), nil)
		if err != nil {
			return tasks.Result{}, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return tasks.Result{}, err
		}
		return tasks.Result{}, resp.Body.Close()
	}
}

// desk is where the handlers of children wait.
type desk struct {
	url string

	mu    sync.Mutex
	came  map[string]int
	leave map[string]chan struct{}
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{came: map[string]int{}, leave: map[string]chan struct{}{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.URL.Path, "/")
		d.mu.Lock()
		d.came[key]++
		d.mu.Unlock()
		select {
		case <-d.gate(key):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	d.url = server.URL
	return d
}

func (d *desk) gate(key string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leave[key] == nil {
		d.leave[key] = make(chan struct{})
	}
	return d.leave[key]
}

// let lets a job's handlers return, now and later.
func (d *desk) let(key string) { close(d.gate(key)) }

func (d *desk) seen(key string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.came[key]
}

// process is a child that runs.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startChild(t *testing.T, o orders) *process {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asChild+"="+string(text))
	if testing.Verbose() {
		cmd.Stderr = t.Output()
	}
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := &process{t: t, cmd: cmd, out: bufio.NewScanner(stdout)}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.kill()
		}
	})
	want := saysReady
	if o.Freeze {
		want = saysLocked
	}
	require.Equal(t, want, p.line())
	return p
}

func (p *process) line() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the child says nothing more: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// kill ends the process as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// frozen waits until the process stands still.
func (p *process) frozen() {
	p.t.Helper()
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(p.t, err)
	require.True(p.t, status.Stopped(), "%v", status)
}

// stopped waits until a worker that was told to end has ended, and returns what it did.
func (p *process) stopped() (did deeds) {
	p.t.Helper()
	require.NoError(p.t, json.Unmarshal([]byte(p.line()), &did))
	require.NoError(p.t, p.cmd.Wait())
	return did
}
