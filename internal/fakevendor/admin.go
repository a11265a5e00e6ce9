package fakevendor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	defaultWait = 10 * time.Second
	maxWait     = time.Minute
)

// What is sent to operate a vendor in another process.
type (
	finishRequest struct {
		ID        string  `json:"id,omitempty"`
		KeyPrefix *string `json:"key_prefix,omitempty"` // "" = all
		Outcome   Outcome `json:"outcome,omitzero"`
	}
	finishAnswer struct {
		Ended int `json:"ended"`
	}
	progressRequest struct {
		ID        string `json:"id"`
		Percent   int    `json:"percent"`
		Delivered int    `json:"delivered"`
	}
	callbackRequest struct {
		ID       string   `json:"id"`
		Callback Callback `json:"callback,omitzero"`
	}
	callbackAnswer struct {
		Status int `json:"status"`
	}
	waitAnswer struct {
		Count int  `json:"count"`
		Met   bool `json:"met"`
	}
)

// operate adds the routes for who runs the vendor.
func (v *Vendor) operate(mux *http.ServeMux) {
	mux.HandleFunc("GET /books", func(w http.ResponseWriter, _ *http.Request) {
		document(http.StatusOK, v.Bill()).write(w)
	})
	mux.HandleFunc("GET /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		document(http.StatusOK, v.script.list()).write(w)
	})
	mux.HandleFunc("DELETE /admin/faults", func(w http.ResponseWriter, _ *http.Request) {
		v.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /admin/gates/{name}", func(w http.ResponseWriter, r *http.Request) {
		v.Open(r.PathValue("name"))
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /admin/wait", v.longPoll)
	mux.HandleFunc("POST /admin/faults", told(func(_ context.Context, faults []Fault) (any, error) {
		return nil, v.AddFaults(faults...)
	}))
	mux.HandleFunc("POST /admin/progress", told(func(_ context.Context, q progressRequest) (any, error) {
		return nil, v.Progress(q.ID, q.Percent, q.Delivered)
	}))
	mux.HandleFunc("POST /admin/finish", told(func(_ context.Context, q finishRequest) (any, error) {
		if (q.ID == "") == (q.KeyPrefix == nil) {
			return nil, errors.New("want either id or key_prefix")
		}
		if q.KeyPrefix == nil {
			return finishAnswer{Ended: 1}, v.Finish(q.ID, q.Outcome)
		}
		n, err := v.FinishAll(*q.KeyPrefix, q.Outcome)
		return finishAnswer{Ended: n}, err
	}))
	mux.HandleFunc("POST /admin/callbacks", told(func(ctx context.Context, q callbackRequest) (any, error) {
		status, err := v.Call(ctx, q.ID, q.Callback)
		return callbackAnswer{Status: status}, err
	}))
	mux.HandleFunc("PUT /admin/webhook-secrets", told(func(_ context.Context, secrets []string) (any, error) {
		return nil, v.SetWebhookSecrets(secrets...)
	}))
}

// told serves an order to the vendor: 204, or 200 with what do returns.
func told[T any](do func(context.Context, T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var request T
		body, err := read(r)
		if err == nil {
			err = decode(body, &request)
		}
		var result any
		if err == nil {
			result, err = do(r.Context(), request)
		}
		switch {
		case errors.Is(err, ErrUnknown):
			failure(http.StatusNotFound, "not_found", err.Error()).write(w)
		case errors.Is(err, ErrEnded):
			failure(http.StatusConflict, "already_ended", err.Error()).write(w)
		case err != nil:
			failure(http.StatusBadRequest, "invalid_request", err.Error()).write(w)
		case result == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			document(http.StatusOK, result).write(w)
		}
	}
}

// longPoll answers when what is waited for has been counted, or when the time is
// over.
func (v *Vendor) longPoll(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	n, err := strconv.Atoi(or(query.Get("n"), "1"))
	timeout := Duration(defaultWait)
	if text := query.Get("timeout"); err == nil && text != "" {
		err = timeout.UnmarshalText([]byte(text))
	}
	if err == nil && time.Duration(timeout) > maxWait {
		err = fmt.Errorf("timeout %s is above %s", time.Duration(timeout), maxWait)
	}
	if err != nil {
		failure(http.StatusBadRequest, "invalid_request", err.Error()).write(w)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(timeout))
	defer cancel()
	defer context.AfterFunc(v.ctx, cancel)()
	count, err := v.books.wait(ctx, Kind(query.Get("kind")), query.Get("key_prefix"), n)
	document(http.StatusOK, waitAnswer{Count: count, Met: err == nil}).write(w)
}
