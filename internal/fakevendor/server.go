package fakevendor

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	maxBody  = 1 << 20
	maxKey   = 255
	maxUnits = 100
)

// handler routes the vendor's API and its operation.
func (v *Vendor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/generations", v.submit)
	mux.HandleFunc("GET /v1/generations", v.lookup)
	mux.HandleFunc("GET /v1/generations/{id}", v.get)
	mux.HandleFunc("POST /v1/generations/{id}/cancel", v.cancel)
	v.operate(mux)
	files := http.NewServeMux()
	files.HandleFunc("GET /v1/files/{id}/{name}", v.file)
	files.Handle("/", v.authenticated(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, ok := v.enter()
		if !ok {
			panic(http.ErrAbortHandler) // cuts the connection
		}
		defer leave()
		files.ServeHTTP(w, r)
	})
}

func (v *Vendor) authenticated(next http.Handler) http.Handler {
	want := []byte("Bearer " + v.opts.Key)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) == 1 {
			next.ServeHTTP(w, r)
			return
		}
		a := failure(http.StatusUnauthorized, "unauthenticated", "the bearer key is missing or wrong")
		if err := v.books.tally("", Unauthenticated); err != nil {
			a = broken(err)
		}
		a.write(w)
	})
}

// order is the body of a submit.
type order struct {
	Input      json.RawMessage `json:"input"`
	WebhookURL string          `json:"webhook_url"`

	prompt      string
	units       int
	fingerprint string
}

// parse reads an order as strictly as a vendor that takes money should.
func parse(body []byte) (order, error) {
	var o order
	if err := decode(body, &o); err != nil {
		return order{}, err
	}
	var input struct {
		Prompt string `json:"prompt"`
		N      *int   `json:"n"`
	}
	if err := json.Unmarshal(o.Input, &input); err != nil {
		return order{}, fmt.Errorf("input: %w", err)
	}
	o.prompt, o.units = input.Prompt, 1
	if o.prompt == "" {
		return order{}, errors.New("input.prompt is missing")
	}
	if input.N != nil {
		o.units = *input.N
	}
	if o.units < 1 || o.units > maxUnits {
		return order{}, fmt.Errorf("input.n is %d: want 1 to %d", o.units, maxUnits)
	}
	if o.WebhookURL != "" {
		if u, err := url.Parse(o.WebhookURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return order{}, errors.New("webhook_url is no address of a web server")
		}
	}
	var err error
	o.fingerprint, err = fingerprint(body)
	return o, err
}

// fingerprint is the same for JSON that means the same.
func fingerprint(body []byte) (string, error) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var content any
	if err := decoder.Decode(&content); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(content)
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:]), err
}

// read takes the whole body in, also one that is too large: a connection with
// something unread on it would linger.
func read(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(body) <= maxBody {
		return body, nil
	}
	_, err = io.Copy(io.Discard, r.Body)
	return nil, errors.Join(fmt.Errorf("the body is above %d bytes", maxBody), err)
}

// decode reads one JSON document without unknown fields and nothing after it.
func decode(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON document")
	}
	return nil
}

func (v *Vendor) submit(w http.ResponseWriter, r *http.Request) {
	body, err := read(r)
	if err != nil {
		failure(http.StatusRequestEntityTooLarge, "too_large", err.Error()).write(w)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	o, malformed := parse(body)
	x, ok := v.begin(w, r, Submit, key, o.prompt)
	if !ok {
		return
	}
	switch {
	case key == "" || len(key) > maxKey:
		x.finish(failure(http.StatusBadRequest, "idempotency_key_required", fmt.Sprintf("Idempotency-Key: 1 to %d characters", maxKey)))
	case malformed != nil:
		x.finish(failure(http.StatusBadRequest, "invalid_request", malformed.Error()))
	default:
		v.execute(x, o)
	}
}

// execute serves a well-formed submit: at most one request for each key at a
// time, and the first answer for ever.
func (v *Vendor) execute(x *exchange, o order) {
	switch verdict, kept := v.books.claim(x.key, o.fingerprint); verdict {
	case busy:
		x.finish(failure(http.StatusConflict, "in_progress", "a request with this key is being served"))
		return
	case reused:
		x.finish(failure(http.StatusUnprocessableEntity, "idempotency_key_reused", "this key belongs to another request"))
		return
	case replay:
		a := *kept
		a.replayed = true
		if err := v.books.tally(x.key, Replayed); err != nil {
			a = broken(err)
		}
		x.finish(a)
		return
	case serve:
	}
	defer v.books.release(x.key)

	during, ok := x.hold(During)
	if !ok {
		return
	}
	if during != nil {
		a := during.answer()
		if during.Do.own() {
			if err := v.books.refuse(x.key, o.fingerprint, a); err != nil {
				a = broken(err)
			}
		}
		v.books.release(x.key) // before the client can know
		x.send(a, during)
		return
	}

	a := v.accept(x, o)
	after, ok := x.hold(After)
	if !ok {
		return
	}
	v.books.release(x.key)
	x.send(a, after)
}

// accept bills the order, sets it going and returns the answer kept for its key.
func (v *Vendor) accept(x *exchange, o order) answer {
	g := Generation{
		Key: x.key, Input: o.Input, Prompt: o.prompt, WebhookURL: o.WebhookURL,
		Asked: o.units, Price: v.opts.Price, Work: x.work(v.opts.Work),
	}
	g.Work.PollAfter = or(g.Work.PollAfter, Duration(v.opts.PollAfter))
	g, a, err := v.books.accept(g, o.fingerprint, func(g Generation) answer {
		if f := x.fault(After); f != nil && f.Do.own() {
			return f.answer()
		}
		return v.show(http.StatusCreated, g)
	})
	if err != nil {
		return broken(err)
	}
	v.hurry(g)
	v.work(g)
	return a
}

// show answers with a generation.
func (v *Vendor) show(status int, g Generation) answer {
	now := g.view(v.base, time.Now().UTC())
	a := document(status, now)
	if now.PollAfterMS != nil {
		a.RetryAfter = int((*now.PollAfterMS + 999) / 1000)
	}
	return a
}

func (v *Vendor) get(w http.ResponseWriter, r *http.Request) {
	g, found := v.books.generation(r.PathValue("id"))
	x, ok := v.begin(w, r, Get, g.Key, g.Prompt)
	if !ok {
		return
	}
	if !found {
		x.finish(notFound)
		return
	}
	now, _ := v.books.generation(g.ID) // as it is after what a fault made this call wait for
	x.finish(v.show(http.StatusOK, now))
}

func (v *Vendor) lookup(w http.ResponseWriter, r *http.Request) {
	key := r.URL.Query().Get("idempotency_key")
	g, _ := v.books.byKey(key)
	x, ok := v.begin(w, r, Lookup, key, g.Prompt)
	if !ok {
		return
	}
	switch {
	case v.opts.NoLookup:
		x.finish(failure(http.StatusNotFound, "not_supported", "generations cannot be looked up by idempotency key"))
		return
	case key == "":
		x.finish(failure(http.StatusBadRequest, "invalid_request", "idempotency_key is missing"))
		return
	}
	list := struct {
		Data []view `json:"data"`
	}{Data: []view{}}
	if now, found := v.books.byKey(key); found {
		list.Data = append(list.Data, now.view(v.base, time.Now().UTC()))
	}
	x.finish(document(http.StatusOK, list))
}

func (v *Vendor) cancel(w http.ResponseWriter, r *http.Request) {
	g, found := v.books.generation(r.PathValue("id"))
	x, ok := v.begin(w, r, Cancel, g.Key, g.Prompt)
	if !ok {
		return
	}
	switch {
	case v.opts.NoCancel:
		x.finish(failure(http.StatusNotFound, "not_supported", "generations cannot be cancelled"))
		return
	case !found:
		x.finish(notFound)
		return
	}
	switch g, err := v.end(g.ID, Outcome{Status: Cancelled}); {
	case errors.Is(err, ErrEnded):
		x.finish(failure(http.StatusConflict, "already_ended", err.Error()))
	case err != nil:
		x.finish(broken(err))
	default:
		x.finish(v.show(http.StatusOK, g))
	}
}

func (v *Vendor) file(w http.ResponseWriter, r *http.Request) {
	g, _ := v.books.generation(r.PathValue("id"))
	x, ok := v.begin(w, r, File, g.Key, g.Prompt)
	if !ok {
		return
	}
	name, isPicture := strings.CutSuffix(r.PathValue("name"), ".png")
	n, err := strconv.Atoi(name)
	now, _ := v.books.generation(g.ID)
	if !isPicture || err != nil || n < 0 || n >= now.Delivered {
		x.finish(notFound)
		return
	}
	x.finish(answer{Status: http.StatusOK, ContentType: "image/png", Body: picture(g.ID, n)})
}
