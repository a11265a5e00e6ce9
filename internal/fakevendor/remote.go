package fakevendor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A Remote operates a vendor that runs in another process, as [Vendor]'s methods
// of the same names do in this one. It needs URL and Key; closing idle
// connections is up to the owner of Client.
type Remote struct {
	URL    string       // without a slash at the end
	Key    string       // bearer key; "" = DefaultKey
	Client *http.Client // nil = http.DefaultClient
}

// Bill is what the vendor charges and has seen by now.
func (r Remote) Bill(ctx context.Context) (bill Bill, err error) {
	err = r.do(ctx, http.MethodGet, "/books", nil, &bill)
	return bill, err
}

// AddFaults appends to the script: all of them, or none when one is wrong.
func (r Remote) AddFaults(ctx context.Context, faults ...Fault) error {
	return r.do(ctx, http.MethodPost, "/admin/faults", faults, nil)
}

// ClearFaults empties the script.
func (r Remote) ClearFaults(ctx context.Context) error {
	return r.do(ctx, http.MethodDelete, "/admin/faults", nil, nil)
}

// Progress lets a generation be processed.
func (r Remote) Progress(ctx context.Context, id string, percent, delivered int) error {
	return r.do(ctx, http.MethodPost, "/admin/progress", progressRequest{ID: id, Percent: percent, Delivered: delivered}, nil)
}

// Finish ends a generation. The error wraps [ErrUnknown] or [ErrEnded].
func (r Remote) Finish(ctx context.Context, id string, o Outcome) error {
	return r.do(ctx, http.MethodPost, "/admin/finish", finishRequest{ID: id, Outcome: o}, nil)
}

// FinishAll ends the open generations whose key begins with prefix and returns
// how many it ended.
func (r Remote) FinishAll(ctx context.Context, prefix string, o Outcome) (int, error) {
	var a finishAnswer
	err := r.do(ctx, http.MethodPost, "/admin/finish", finishRequest{KeyPrefix: &prefix, Outcome: o}, &a)
	return a.Ended, err
}

// Call sends one callback now and returns the status it was answered with.
func (r Remote) Call(ctx context.Context, id string, c Callback) (int, error) {
	var a callbackAnswer
	err := r.do(ctx, http.MethodPost, "/admin/callbacks", callbackRequest{ID: id, Callback: c}, &a)
	return a.Status, err
}

// Open lets pass who waits at a gate, and whoever comes to it later.
func (r Remote) Open(ctx context.Context, gate string) error {
	return r.do(ctx, http.MethodPost, "/admin/gates/"+url.PathEscape(gate), nil, nil)
}

// SetWebhookSecrets signs callbacks with all of these from now on.
func (r Remote) SetWebhookSecrets(ctx context.Context, secrets ...string) error {
	return r.do(ctx, http.MethodPut, "/admin/webhook-secrets", secrets, nil)
}

// Wait blocks until kind was counted n times for the keys that begin with
// prefix. It goes on while the vendor is away, so that the vendor may be killed
// and started again meanwhile; when ctx ends first, the error wraps its cause.
func (r Remote) Wait(ctx context.Context, kind Kind, prefix string, n int) error {
	query := url.Values{"kind": {string(kind)}, "key_prefix": {prefix}, "n": {strconv.Itoa(n)}}
	var a waitAnswer
	for {
		err := r.do(ctx, http.MethodGet, "/admin/wait?"+query.Encode(), nil, &a)
		var refused *RemoteError
		switch {
		case err == nil && a.Met:
			return nil
		case errors.As(err, &refused):
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%d of %d times %s for keys %q…: %w", a.Count, n, kind, prefix, context.Cause(ctx))
		case err != nil:
			sleep(ctx, retryWait)
		}
	}
}

const retryWait = 50 * time.Millisecond // between tries to reach a vendor that is away

// A RemoteError is the vendor's refusal.
type RemoteError struct {
	Status  int
	Code    string
	Message string
}

func (e *RemoteError) Error() string {
	return fmt.Sprintf("vendor: %d %s: %s", e.Status, e.Code, e.Message)
}

// Unwrap makes the refusal the error that [Vendor]'s methods return.
func (e *RemoteError) Unwrap() error {
	switch e.Code {
	case "not_found":
		return ErrUnknown
	case "already_ended":
		return ErrEnded
	default:
		return nil
	}
}

// do sends what is not nil and reads the answer into what is not nil.
func (r Remote) do(ctx context.Context, method, path string, send, into any) error {
	var body io.Reader = http.NoBody
	if send != nil {
		data, err := json.Marshal(send)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.URL+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+or(r.Key, DefaultKey))
	response, err := or(r.Client, http.DefaultClient).Do(request)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return refusal(response.StatusCode, data)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(data, into)
}

func refusal(status int, data []byte) error {
	var a struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &a) != nil {
		a.Error.Message = string(data) // not from the vendor's own hand
	}
	return &RemoteError{Status: status, Code: a.Error.Code, Message: a.Error.Message}
}
