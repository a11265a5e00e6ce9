package fakevendor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// DefaultKey is the bearer key of a vendor that was given none.
const DefaultKey = "vendor-key"

const (
	defaultPollAfter = 100 * time.Millisecond
	defaultEvery     = Duration(100 * time.Millisecond)
	callbackTimeout  = 10 * time.Second
	headerTimeout    = 10 * time.Second
)

// defaultRetries are the waits between tries of a callback.
var defaultRetries = []time.Duration{
	100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second, 15 * time.Second,
	time.Minute, 5 * time.Minute,
}

// Options of a vendor. The zero value accepts everything and succeeds at once.
type Options struct {
	Addr      string // to listen on; "" = a free port of 127.0.0.1
	PublicURL string // where clients find it, in the addresses of files; "" = Addr
	Data      string // file of the books; "" = they end with the vendor
	Key       string // bearer key; "" = DefaultKey

	Price     int64         // a unit; 0 = 1
	PollAfter time.Duration // the pace it asks of clients; 0 = 100 ms
	Work      Work          // what generations do, unless a fault says otherwise
	NoLookup  bool          // cannot be asked by idempotency key
	NoCancel  bool          // cannot cancel

	WebhookSecrets  []string        // "whsec_" and base64; none = callbacks carry no signature
	CallbackRetries []time.Duration // waits between tries of a callback; nil = seven, over six minutes
	Faults          []Fault
}

// A Vendor serves until it is closed. Its methods are safe for concurrent use.
type Vendor struct {
	opts   Options
	base   string // address in links
	url    string
	books  *books
	script script
	post   *postman
	server *http.Server

	ctx  context.Context // ends when closing begins
	stop context.CancelFunc

	moves sync.Mutex // a move of a generation, and its callback queued, are one

	mu      sync.Mutex
	closing bool
	running sync.WaitGroup
	gates   map[string]chan struct{}
}

// TB is the part of *testing.T that Start needs.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Start begins to serve for a test and closes the vendor at its end.
func Start(t TB, o Options) *Vendor {
	t.Helper()
	v, err := New(o)
	if err != nil {
		t.Fatalf("start the vendor: %v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Fatalf("close the vendor: %v", err)
		}
	})
	return v
}

// New reads the books, takes up the work that is open in them and begins to
// serve. The caller closes it.
func New(o Options) (*Vendor, error) {
	o.Key = or(o.Key, DefaultKey)
	o.Price = or(o.Price, 1)
	o.PollAfter = or(o.PollAfter, defaultPollAfter)
	if o.CallbackRetries == nil {
		o.CallbackRetries = defaultRetries
	}
	if o.Price < 0 || o.PollAfter < 0 {
		return nil, errors.New("price and pace must not be negative")
	}
	if err := o.Work.Validate(); err != nil {
		return nil, fmt.Errorf("work: %w", err)
	}

	v := &Vendor{opts: o, gates: map[string]chan struct{}{}}
	v.post = newPostman(v, o.CallbackRetries)
	if err := errors.Join(v.script.add(o.Faults...), v.post.sign(o.WebhookSecrets)); err != nil {
		return nil, err
	}
	var err error
	if v.books, err = openBooks(o.Data); err != nil {
		return nil, err
	}
	v.ctx, v.stop = context.WithCancel(context.Background())
	if err := v.listen(); err != nil {
		v.stop()
		return nil, errors.Join(err, v.books.close())
	}
	return v, nil
}

func (v *Vendor) listen() error {
	var config net.ListenConfig
	listener, err := config.Listen(v.ctx, "tcp", or(v.opts.Addr, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	v.url = "http://" + listener.Addr().String()
	v.base = or(v.opts.PublicURL, v.url)
	v.server = &http.Server{
		Handler:           v.handler(),
		ReadHeaderTimeout: headerTimeout,
		ErrorLog:          log.New(io.Discard, "", 0), // connections are cut on purpose
	}
	v.resume()
	v.spawn(func() { _ = v.server.Serve(listener) }) // ends with Close
	return nil
}

// URL is where the vendor listens, without a slash at the end.
func (v *Vendor) URL() string { return v.url }

// Key is the bearer key.
func (v *Vendor) Key() string { return v.opts.Key }

// Close cuts every connection and waits for all that runs. Closing twice is fine.
func (v *Vendor) Close() error {
	v.mu.Lock()
	v.closing = true
	v.mu.Unlock()
	v.stop()
	err := v.server.Close()
	v.running.Wait()
	v.post.client.CloseIdleConnections()
	return errors.Join(err, v.books.close())
}

// spawn runs f, and Close waits for it. It refuses once closing.
func (v *Vendor) spawn(f func()) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.closing {
		v.running.Go(f)
	}
	return !v.closing
}

// enter lets Close wait for the caller until it calls leave.
func (v *Vendor) enter() (leave func(), ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closing {
		return nil, false
	}
	v.running.Add(1)
	return v.running.Done, true
}

// Bill is what the vendor charges and has seen by now.
func (v *Vendor) Bill() Bill { return v.books.bill() }

// Generation returns the one with an id, or [ErrUnknown].
func (v *Vendor) Generation(id string) (Generation, error) {
	g, ok := v.books.generation(id)
	if !ok {
		return Generation{}, fmt.Errorf("%w: %s", ErrUnknown, id)
	}
	return g, nil
}

// Generations returns those whose key begins with prefix, as they were accepted.
func (v *Vendor) Generations(prefix string) []Generation { return v.books.all(prefix) }

// Wait blocks until kind was counted n times for the keys that begin with
// prefix. When ctx ends first, the error wraps its cause.
func (v *Vendor) Wait(ctx context.Context, kind Kind, prefix string, n int) error {
	_, err := v.books.wait(ctx, kind, prefix, n)
	return err
}

// AddFaults appends to the script: all of them, or none when one is wrong.
func (v *Vendor) AddFaults(faults ...Fault) error { return v.script.add(faults...) }

// ClearFaults empties the script. Calls that have met a fault still suffer it.
func (v *Vendor) ClearFaults() { v.script.clear() }

// SetWebhookSecrets signs callbacks with all of these from now on.
func (v *Vendor) SetWebhookSecrets(secrets ...string) error {
	return v.post.sign(slices.Clone(secrets))
}

// Open lets pass who waits at a gate, and whoever comes to it later.
func (v *Vendor) Open(gate string) {
	opened := v.gate(gate)
	v.mu.Lock()
	defer v.mu.Unlock()
	select {
	case <-opened:
	default:
		close(opened)
	}
}

func (v *Vendor) gate(name string) chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.gates[name] == nil {
		v.gates[name] = make(chan struct{})
	}
	return v.gates[name]
}

// sleep waits for d and says whether it could: false = ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
