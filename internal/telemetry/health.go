package telemetry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// A Dependency is something that a program needs in order to do its work.
type Dependency struct {
	Name  string
	Check func(context.Context) error // nil: it works
	// Optional dependencies are reported, but the program is ready without
	// them: jobs are accepted while Redis is away.
	Optional bool
}

// Health answers for a program:
//
//   - /healthz is 200 while the process serves at all. Restarting the program
//     mends nothing that is outside of it, so no dependency is asked.
//   - /readyz is 200 if every dependency that is not optional works, else 503.
//     The body tells each one and the reason.
//
// The fields are set before the first request.
type Health struct {
	Dependencies []Dependency
	// Timeout of each check; 2 s if zero. The answer comes in that time even
	// if a check does not obey its context.
	Timeout time.Duration
	// Metrics serves /metrics, if not nil.
	Metrics http.Handler

	draining atomic.Bool
	running  singleflight.Group // one run of a check at a time, however many ask
}

// Drain makes /readyz answer 503 from now on: the program finishes what it has
// and wants nothing new.
func (h *Health) Drain() { h.draining.Store(true) }

// Handler routes the addresses above; everything else is 404.
func (h *Health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]bool{"ok": true})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		report := h.Report(r.Context())
		status := http.StatusOK
		if !report.Ready {
			status = http.StatusServiceUnavailable
		}
		answer(w, status, report)
	})
	if h.Metrics != nil {
		mux.Handle("GET /metrics", h.Metrics)
	}
	return mux
}

// A Report is the body of /readyz.
type Report struct {
	Ready        bool     `json:"ready"`
	Draining     bool     `json:"draining"`
	Dependencies []Status `json:"dependencies"`
}

// A Status is one dependency in a [Report].
type Status struct {
	Name     string  `json:"name"`
	OK       bool    `json:"ok"`
	Optional bool    `json:"optional"`
	Reason   *string `json:"reason"` // why not, null if OK
}

// Report asks all dependencies at once.
func (h *Health) Report(ctx context.Context) Report {
	draining := h.draining.Load()
	report := Report{Ready: !draining, Draining: draining, Dependencies: make([]Status, len(h.Dependencies))}
	var asked sync.WaitGroup
	for i, d := range h.Dependencies {
		asked.Go(func() {
			status := Status{Name: d.Name, Optional: d.Optional, OK: true}
			if err := h.ask(ctx, d); err != nil {
				reason := err.Error()
				status.OK, status.Reason = false, &reason
			}
			report.Dependencies[i] = status
		})
	}
	asked.Wait()
	for _, status := range report.Dependencies {
		report.Ready = report.Ready && (status.OK || status.Optional)
	}
	return report
}

// ask runs the check, or joins the run that is under way. The run does not end
// with the request that began it, since others may wait for it too.
func (h *Health) ask(ctx context.Context, d Dependency) error {
	timeout := h.Timeout
	if timeout == 0 {
		timeout = 2 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := h.running.DoChan(d.Name, func() (_ any, err error) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("the check panicked: %v", r)
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
		defer cancel()
		return nil, d.Check(ctx)
	})
	select {
	case result := <-done:
		return result.Err
	case <-ctx.Done():
		return fmt.Errorf("no answer within %v", timeout)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the asker may have gone
}
