package main

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// A door stands between clients and a server and is all that they know of it. It is open at
// first.
type door struct {
	address string // host:port, of the door itself

	mu       sync.Mutex
	listener net.Listener // closed while the door is down
	server   string       // host:port
	state    doorState
	changed  chan struct{} // closed when state changes
	conns    map[net.Conn]struct{}
	open     sync.WaitGroup
}

type doorState string

const (
	doorOpen   doorState = "open"
	doorDown   doorState = "down"  // connections are broken and new ones refused: the server was killed
	doorCut    doorState = "cut"   // connections are broken and new ones end at once: so does a load balancer for a server that is down
	doorStuck  doorState = "stuck" // connections stay, new ones are accepted, nothing passes: the server, or the way to it, hangs
	doorClosed doorState = "closed"
)

// newDoor opens a door to the server of a URL and returns the URL that leads through it.
func newDoor(ctx context.Context, serverURL string) (*door, string, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, "", err
	}
	d := &door{server: u.Host, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	if err := d.build(ctx); err != nil {
		return nil, "", err
	}
	u.Host = d.address
	return d, u.String(), nil
}

// build puts the door where no outgoing connection can take its port while it is down: below
// the range from which systems take theirs.
func (d *door) build(ctx context.Context) error {
	const low, high = 10000, 15000
	var err error
	for range 100 {
		d.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(low+rand.IntN(high-low)))
		if err = d.listen(ctx); err == nil {
			return nil
		}
	}
	return err
}

func (d *door) listen(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.address)
	if err != nil {
		return err
	}
	d.listener, d.state = listener, doorOpen
	d.open.Go(func() { d.accept(listener) })
	return nil
}

// set moves the door. What was sent to a stuck door arrives when it opens.
func (d *door) set(ctx context.Context, state doorState) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.state
	d.state = state
	close(d.changed)
	d.changed = make(chan struct{})
	if state != doorOpen && state != doorStuck {
		for c := range d.conns {
			_ = c.Close()
		}
	}
	switch {
	case state == doorDown, state == doorClosed && was != doorDown:
		return d.listener.Close()
	case was == doorDown && state != doorClosed:
		return d.listen(ctx)
	}
	return nil
}

// leadTo has new connections go to another server, and breaks the old ones.
func (d *door) leadTo(ctx context.Context, serverURL string) error {
	u, err := url.Parse(serverURL)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.server = u.Host
	d.mu.Unlock()
	return errors.Join(d.set(ctx, doorCut), d.set(ctx, doorOpen))
}

// close ends everything and waits for it.
func (d *door) close() error {
	err := d.set(context.Background(), doorClosed)
	d.open.Wait()
	return err
}

func (d *door) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of files, say
			time.Sleep(10 * time.Millisecond)
		default:
			d.open.Go(func() { d.serve(client) })
		}
	}
}

func (d *door) serve(client net.Conn) {
	defer client.Close()
	d.mu.Lock()
	address := d.server
	d.mu.Unlock()
	if !d.keep(client) {
		return
	}
	defer d.forget(client)
	server, err := (&net.Dialer{Timeout: 5 * time.Second}).Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	if !d.keep(server) {
		return
	}
	defer d.forget(server)
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		both.Go(func() {
			d.pump(from, to)
			_ = from.Close()
			_ = to.Close()
		})
	}
	both.Wait()
}

// keep remembers a connection to be broken; false when it is to be broken now.
func (d *door) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.state != doorOpen && d.state != doorStuck {
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

func (d *door) forget(c net.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
}

func (d *door) pump(from io.Reader, to io.Writer) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		d.awaitPassage()
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}

// awaitPassage returns once the door is not stuck.
func (d *door) awaitPassage() {
	for {
		d.mu.Lock()
		stuck, changed := d.state == doorStuck, d.changed
		d.mu.Unlock()
		if !stuck {
			return
		}
		<-changed
	}
}
