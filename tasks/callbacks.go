package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider"
)

// CallbacksOptions of NewCallbacks.
type CallbacksOptions struct {
	Ledger *ledger.Ledger
	Mux    *Mux         // whose vendors may call; nil means DefaultMux
	Logger *slog.Logger // nil means slog.Default()
}

// Callbacks answers POST /v1/callbacks/{provider}: it authenticates a vendor's callback, keeps
// it, and wakes the job that it is about. It never moves credits: the worker that the job wakes
// asks the vendor, or reads what was kept.
//
// A callback is kept before it is answered, so that one which comes before our own commit of
// its reference is found once that is stored. It counts once, whatever its order; one for an
// unknown call is kept and acknowledged, since the vendor can do nothing about it.
type Callbacks struct {
	o    CallbacksOptions
	log  *slog.Logger
	late atomic.Int64
}

const callbackLen = 1 << 20 // bytes

// NewCallbacks makes the handler.
func NewCallbacks(o CallbacksOptions) *Callbacks {
	if o.Mux == nil {
		o.Mux = DefaultMux
	}
	return &Callbacks{o: o, log: orDefault(o.Logger)}
}

// Late counts the successes that came when their jobs had ended otherwise.
func (c *Callbacks) Late() int64 { return c.late.Load() }

// ServeHTTP implements http.Handler. The path's last element names the provider.
func (c *Callbacks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("provider")
	caller, ok := c.o.Mux.callers()[name]
	if !ok {
		http.Error(w, "no such provider", http.StatusNotFound)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, callbackLen))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body ended early", http.StatusBadRequest)
		return
	}
	event, err := caller.Callback(r.Header, body)
	switch {
	case errors.Is(err, provider.ErrUnsigned):
		c.log.Warn("a callback was not signed by the vendor", "vendor", name)
		http.Error(w, "bad signature", http.StatusUnauthorized)
	case err != nil || event.ID == "" || event.Ref == "" || len(event.ID) > ledger.MaxNameLen || len(event.Ref) > ledger.MaxNameLen:
		c.log.Warn("a callback could not be read", "vendor", name)
		http.Error(w, "cannot be read", http.StatusBadRequest)
	default:
		if err := c.take(r.Context(), name, event); err != nil {
			c.log.Warn("a callback could not be kept; the vendor will send it again", "vendor", name, "error", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "try again", http.StatusServiceUnavailable)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// take keeps an event and wakes its job.
func (c *Callbacks) take(ctx context.Context, vendor string, e provider.Event) error {
	raw, err := json.Marshal(e.News)
	if err != nil {
		return err
	}
	crash.Here(crash.EventBefore)
	if err := c.o.Ledger.SaveVendorEvent(ctx, ledger.VendorEvent{Provider: vendor, ID: e.ID, Ref: e.Ref, News: raw}); err != nil {
		return err
	}
	crash.Here(crash.EventAfter)
	jobID, n, err := c.about(ctx, vendor, e)
	if err != nil || jobID == "" {
		return err
	}
	heard, err := c.o.Ledger.HearCall(ctx, ledger.HearCall{JobID: jobID, N: n, Provider: vendor, Ref: e.Ref, Callback: true,
		Succeeded: e.News.Status == provider.StatusSucceeded})
	log := c.log.With("vendor", vendor, "vendor_ref", e.Ref, "job", jobID, "n", n)
	switch {
	case errors.Is(err, ledger.ErrNotFound), errors.Is(err, ledger.ErrInvalid), errors.Is(err, ledger.ErrConflict):
		log.Warn("kept a callback that fits no call", "error", err)
		return nil
	case err != nil:
		return err
	case heard.Late && !heard.Replayed:
		c.late.Add(1)
		log.Warn("the vendor delivered when the job had ended otherwise; nothing is delivered and the refund is kept",
			"account", heard.Job.Account, "job_is", string(heard.Job.State()))
	default:
		log.Info("the vendor called back", "account", heard.Job.Account, "status", string(e.News.Status))
	}
	return nil
}

// about finds the call of an event; "" when there is none, or none yet.
func (c *Callbacks) about(ctx context.Context, vendor string, e provider.Event) (jobID string, n int, err error) {
	if id, text, ok := strings.Cut(e.Key, ":"); ok {
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return id, n, nil
		}
	}
	call, err := c.o.Ledger.CallByRef(ctx, vendor, e.Ref)
	if errors.Is(err, ledger.ErrNotFound) {
		c.log.Info("kept a callback of a call that is not known yet", "vendor", vendor, "vendor_ref", e.Ref)
		return "", 0, nil
	}
	return call.JobID, call.N, err
}
