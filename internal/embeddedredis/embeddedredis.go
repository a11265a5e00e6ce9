// Package embeddedredis is the Redis that `makegood up` and `makegood demo` run
// inside their own process, so that trying Makegood needs nothing installed.
//
// It is miniredis, listening on 127.0.0.1 with a password of its own, since
// every user of a machine can reach that address. It keeps nothing on disk: what
// it held is gone with the process, and the relay puts every open job back into
// the next one. That is safe because the ledger decides and the queue only wakes
// workers up. It serves one command at a time and is meant for one machine.
package embeddedredis

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// tick is how exactly keys expire: up to that much too early or too late.
// Asynq's shortest lease is 10 s.
//
// Miniredis can do it to the point by itself (ClockTTL), but then it sorts all
// its keys at each command, also at each one in a script: 10 000 enqueues took
// 57 s instead of 5.
const tick = 200 * time.Millisecond

// A Server runs until it is closed.
type Server struct {
	redis *miniredis.Miniredis
	url   string
	stop  func() // ends the clock and waits for it
}

// Start begins to serve on a free port.
func Start() (*Server, error) {
	server, password := miniredis.NewMiniRedis(), rand.Text()
	server.RequireAuth(password)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded Redis: %w", err)
	}
	address := url.URL{Scheme: "redis", User: url.UserPassword("", password), Host: server.Addr(), Path: "/0"}
	return &Server{redis: server, url: address.String(), stop: startClock(server)}, nil
}

// URL is a REDIS_URL for this process and its children. It holds the password.
func (s *Server) URL() string { return s.url }

// Close ends all connections and waits for them; closing twice is fine.
func (s *Server) Close() {
	s.stop()
	s.redis.Close()
}

// startClock lets keys age. Without it they never expire, and what asynq knows
// of dead servers would stay.
func startClock(server *miniredis.Miniredis) (stop func()) {
	quit := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		last := time.Now()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				now := time.Now() // ticks that were missed count too
				server.FastForward(now.Sub(last))
				last = now
			}
		}
	})
	return sync.OnceFunc(func() {
		close(quit)
		running.Wait()
	})
}
