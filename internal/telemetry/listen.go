package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// A ListenError says in one line why nothing can be served at Addr and what to
// do. It unwraps to the system's error.
type ListenError struct {
	Addr    string
	Problem string
	err     error
}

func (e *ListenError) Error() string { return e.Addr + " " + e.Problem }
func (e *ListenError) Unwrap() error { return e.err }

// Listen opens HOST:PORT; port 0 takes a free one. Its errors are [*ListenError].
func Listen(addr string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err == nil {
		return ln, nil
	}
	const other = "choose another with LISTEN_ADDR or --listen-addr"
	told := &ListenError{Addr: addr, err: err}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		told.Problem = "is in use by another program; " + other
	case errors.Is(err, syscall.EACCES):
		told.Problem = "is a port that only a privileged user may open; " + other
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		told.Problem = "is no address of this machine; " + other
	default:
		told.Problem = fmt.Sprintf("cannot be listened on (%v); %s", err, other)
	}
	return nil, told
}

// URL is how a program on this machine reaches the listener.
func URL(ln net.Listener) string {
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return ln.Addr().String()
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// shutdownGrace is how long requests may finish once ctx has ended. These are
// short: nothing here waits for a job.
const shutdownGrace = 5 * time.Second

// Serve answers on ln until ctx ends, lets running requests finish, and returns
// nil. It closes ln.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, log *slog.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ln) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn("requests were cut off at shutdown", "error", err)
		_ = server.Close() // its error is the listener's, which is closed already
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", ln.Addr(), err)
	}
	return nil
}
