package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"time"
)

// A door stands between clients and a server and is all that they know of it. It is open at
// first.
type door struct {
	listener net.Listener

	mu      sync.Mutex
	server  string // host:port
	state   doorState
	changed chan struct{} // closed when state changes
	conns   map[net.Conn]struct{}
	open    sync.WaitGroup
}

type doorState string

const (
	doorOpen   doorState = "open"
	doorCut    doorState = "cut"   // connections are broken and new ones end at once: the server is down
	doorStuck  doorState = "stuck" // connections stay, new ones are accepted, nothing passes: the server, or the way to it, hangs
	doorClosed doorState = "closed"
)

// newDoor opens a door to the server of a URL and returns the URL that leads through it.
func newDoor(ctx context.Context, serverURL string) (*door, string, error) {
	u, err := url.Parse(serverURL)
	if err != nil {
		return nil, "", err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	d := &door{listener: listener, server: u.Host, state: doorOpen, changed: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	d.open.Go(d.accept)
	u.Host = listener.Addr().String()
	return d, u.String(), nil
}

// set moves the door. What was sent to a stuck door arrives when it opens.
func (d *door) set(state doorState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.state = state
	close(d.changed)
	d.changed = make(chan struct{})
	if state == doorCut || state == doorClosed {
		for c := range d.conns {
			_ = c.Close()
		}
	}
}

// leadTo has new connections go to another server, and breaks the old ones.
func (d *door) leadTo(serverURL string) error {
	u, err := url.Parse(serverURL)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.server = u.Host
	d.mu.Unlock()
	d.set(doorCut)
	d.set(doorOpen)
	return nil
}

// close ends everything and waits for it.
func (d *door) close() error {
	d.set(doorClosed)
	err := d.listener.Close()
	d.open.Wait()
	return err
}

func (d *door) accept() {
	for {
		client, err := d.listener.Accept()
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
	if d.state == doorCut || d.state == doorClosed {
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
