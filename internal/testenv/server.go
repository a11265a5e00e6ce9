package testenv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

const (
	pollEvery    = 10 * time.Millisecond
	startTimeout = 60 * time.Second
	stopTimeout  = 60 * time.Second
)

// server is one server program in a directory of its own: what PostgreSQL and
// Redis have in common here.
type server struct {
	kind
	keep *keeper
	port int
	proc *process // the current or last run
}

// kind is what differs between them.
type kind interface {
	// prepare fills the new directory.
	prepare(ctx context.Context, k *keeper) error
	// command starts the server in the keeper's directory.
	command(dir string, port int) []string
	// ready reports whether the process with that pid, and none that took its
	// port before it, serves clients.
	ready(ctx context.Context, dir string, port, pid int) bool
	// signals: kind but complete, and at once.
	quit() (gently syscall.Signal, now string)
}

// newServer makes a directory, fills it and starts the server on a free port.
func newServer(ctx context.Context, what kind) (_ *server, err error) {
	who, err := unprivileged()
	if err != nil {
		return nil, fmt.Errorf("no unprivileged user to run a server as: %w", err)
	}
	sweep(tempDirs(), who)

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	_, now := what.quit()
	k, err := newKeeper(ctx, who, now)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if err := what.prepare(ctx, k); err != nil {
		return nil, err
	}

	// Somebody may take a port between our look and the server's: try others.
	s := &server{kind: what, keep: k}
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
		if err = s.start(ctx); !errors.Is(err, errEnded) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

var errEnded = errors.New("the server ended while starting")

// start runs the server and waits until it serves.
func (s *server) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	p, err := s.keep.run(ctx, "serve", s.command(s.keep.dir, s.port)...)
	if err != nil {
		return err
	}
	s.proc = p
	for !s.ready(ctx, s.keep.dir, s.port, p.pid) {
		select {
		case <-p.ended:
			return fmt.Errorf("%w (code %d); its log ends:\n%s", errEnded, p.code, s.keep.log())
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w; its log ends:\n%s", ctx.Err(), s.keep.log())
		case <-time.After(pollEvery):
		}
	}
	return nil
}

// stop ends the server as its operator would and waits for it.
func (s *server) stop() error {
	gently, _ := s.quit()
	if err := errors.Join(s.proc.signal(syscall.SIGCONT), s.proc.signal(gently)); err != nil {
		return err
	}
	return s.awaitEnd()
}

// kill ends the server and its children with SIGKILL and waits for them.
func (s *server) kill() error {
	// Stopped, it cannot have another child while we look.
	if err := s.proc.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	family, err := children(s.proc.pid)
	if err != nil {
		return err
	}
	if err := s.proc.signal(syscall.SIGKILL); err != nil {
		return err
	}
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGKILL) // It may have seen its parent die.
	}
	if err := s.awaitEnd(); err != nil {
		return err
	}
	deadline := time.Now().Add(stopTimeout)
	for _, pid := range family {
		for running(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d survived SIGKILL", pid)
			}
			time.Sleep(pollEvery)
		}
	}
	return nil
}

func (s *server) awaitEnd() error {
	select {
	case <-s.proc.ended:
		return nil
	case <-time.After(stopTimeout):
		return fmt.Errorf("process %d does not end; its log ends:\n%s", s.proc.pid, s.keep.log())
	}
}

// close ends the server and removes its directory.
func (s *server) close() error { return s.keep.close() }

func (s *server) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// freePort finds a port that nobody listens on, below the range from which
// systems take the ports of outgoing connections (32768 on Linux, 49152
// elsewhere): while a server is down, a client that tries again and again
// would otherwise sooner or later be given the server's port as its own.
func freePort() (int, error) {
	const low, high = 15000, 32000
	var err error
	for range 100 {
		port := low + rand.IntN(high-low)
		var l net.Listener
		if l, err = net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no free port: %w", err)
}
