package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

const (
	fresh  = 3 * time.Second // an answer is given again for so long, however many ask
	within = time.Second     // the longest that a scrape waits for a source
)

// source is something outside of this process that a scrape asks. One question is under way at
// a time, and a scrape waits for it no longer than within, even if it obeys no context.
type source[T any] struct {
	name   string
	ask    func(context.Context) (T, error)
	errors prometheus.Counter
	log    *slog.Logger

	running singleflight.Group
	mu      sync.Mutex
	at      time.Time // of the last answer or failure
	answer  T
	err     error
}

func newSource[T any](m *Metrics, name string, ask func(context.Context) (T, error)) *source[T] {
	return &source[T]{name: name, ask: ask, errors: m.errors.WithLabelValues(name), log: m.log}
}

// get is the newest answer, or why there is none.
func (s *source[T]) get() (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < fresh {
		return s.answer, s.err
	}
	s.answer, s.err = s.read()
	s.at = time.Now()
	if s.err != nil {
		s.errors.Inc()
		s.log.Debug("a scrape does without a source", "source", s.name, "error", s.err)
	}
	return s.answer, s.err
}

func (s *source[T]) read() (answer T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	done := s.running.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		return s.ask(ctx)
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return answer, result.Err
		}
		answer, _ = result.Val.(T)
		return answer, nil
	case <-ctx.Done():
		return answer, fmt.Errorf("no answer within %v", within)
	}
}
