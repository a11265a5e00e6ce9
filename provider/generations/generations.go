// Package generations speaks the generations protocol: a small HTTP protocol for services that
// take a request now and deliver later. Put it in front of a renderer of your own and it is a
// vendor with everything that paid work needs: idempotency keys, lookup, cancel, signed
// callbacks.
//
//	POST /v1/generations                      Idempotency-Key: K   {"input":…,"webhook_url":…}
//	GET  /v1/generations/{id}
//	GET  /v1/generations?idempotency_key=K    {"data":[…]}
//	POST /v1/generations/{id}/cancel          409 when it has ended
//
// A generation is {"id","status":"queued|processing|succeeded|failed|cancelled","progress",
// "poll_after_ms","outputs":[{"url","content_type","bytes","sha256"}],"usage":{"units"},
// "error":{"code","message","transient"}}. Callbacks are Standard Webhooks with the generation
// as data. The same key answers the same for ever, failures included; 429 and 4xx leave a key
// unused.
package generations

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/makegood/makegood/provider"
)

// Options of New.
type Options struct {
	Name string // stored with each call; "" means "generations"
	URL  string // of the service, without /v1; required
	Key  string // bearer key; required
	// CallbackURL is where the service calls back; "" means that it is only polled.
	CallbackURL string
	// Secrets that callbacks may be signed with, "whsec_…": several while they are rotated.
	Secrets []string
	Price   int64 // credits a unit; 0 is free
	// NoLookup says that the service cannot be asked by idempotency key.
	NoLookup bool
	NoCancel bool
	Pace     time.Duration // see provider.Traits
	Timeout  time.Duration
	Client   *http.Client // nil means one of its own
}

const (
	answerLen = 1 << 20   // bytes of an answer
	outputLen = 64 << 20  // bytes of an output
	resultLen = 256 << 20 // bytes of all outputs of a generation, which are in memory at once
	maxUnits  = 100
)

// vendor is the service, without the two abilities that it may lack.
type vendor struct {
	o       Options
	base    *url.URL
	signers []*standardwebhooks.Webhook
}

type finder struct{ *vendor }

type canceller struct{ *vendor }

type complete struct {
	*vendor
	finder
	canceller
}

// New makes the provider. Errors say which option is wrong.
func New(o Options) (provider.Vendor, error) {
	o.Name = cmp.Or(o.Name, "generations")
	base, err := url.Parse(o.URL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, errors.New("generations: the URL must be http:// or https:// and name a host")
	}
	if o.Key == "" {
		return nil, errors.New("generations: the key is missing")
	}
	if o.Price < 0 {
		return nil, errors.New("generations: the price is negative")
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()} //nolint:forcetypeassert,errcheck // it is one
	}
	// The key goes to the service and nowhere else.
	client := *o.Client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Client = &client
	v := &vendor{o: o, base: base}
	for i, secret := range o.Secrets {
		signer, err := standardwebhooks.NewWebhook(secret)
		if err != nil || strings.TrimPrefix(secret, "whsec_") == "" { // an empty one lets everybody sign
			return nil, fmt.Errorf("generations: webhook secret %d is not whsec_ and base64", i+1)
		}
		v.signers = append(v.signers, signer)
	}
	switch {
	case o.NoLookup && o.NoCancel:
		return v, nil
	case o.NoLookup:
		return struct {
			*vendor
			canceller
		}{v, canceller{v}}, nil
	case o.NoCancel:
		return struct {
			*vendor
			finder
		}{v, finder{v}}, nil
	}
	return complete{v, finder{v}, canceller{v}}, nil
}

// Name implements provider.Vendor.
func (v *vendor) Name() string { return v.o.Name }

// Traits implements provider.Vendor: one key is one generation.
func (v *vendor) Traits() provider.Traits {
	return provider.Traits{Resubmit: provider.ResubmitSafe, Pace: v.o.Pace, Timeout: v.o.Timeout}
}

// Estimate implements provider.Vendor: the price of n units, 1 when n is left out. What else
// the input says is the service's to judge.
func (v *vendor) Estimate(input json.RawMessage) (provider.Estimate, error) {
	var in struct {
		Prompt *string `json:"prompt"`
		N      *int    `json:"n"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return provider.Estimate{}, provider.Invalid("", `not an object with a "prompt" and an "n": send {"prompt":"…","n":1}`)
	}
	if in.Prompt == nil || *in.Prompt == "" {
		return provider.Estimate{}, provider.Invalid("prompt", "missing; say what is to be made")
	}
	n := 1
	if in.N != nil {
		n = *in.N
	}
	if n < 1 || n > maxUnits {
		return provider.Estimate{}, provider.Invalid("n", "%d; choose 1 to %d", n, maxUnits)
	}
	return provider.Estimate{Cost: v.o.Price * int64(n), Units: n}, nil
}

// generation is what the service says of one.
type generation struct {
	ID          string   `json:"id"`
	Key         string   `json:"idempotency_key"`
	Status      string   `json:"status"`
	Progress    int      `json:"progress"`
	PollAfterMS *int     `json:"poll_after_ms"`
	Outputs     []output `json:"outputs"`
	Usage       struct {
		Units int `json:"units"`
	} `json:"usage"`
	Error *struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Transient bool   `json:"transient"`
	} `json:"error"`
}

type output struct {
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	Bytes       int    `json:"bytes"`
	SHA256      string `json:"sha256"`
}

// news translates.
func (g generation) news() (provider.News, error) {
	n := provider.News{Percent: min(max(g.Progress, 0), 100), Text: g.Status, Units: len(g.Outputs)}
	if g.PollAfterMS != nil {
		n.After = time.Duration(min(max(*g.PollAfterMS, 0), int(time.Hour/time.Millisecond))) * time.Millisecond
	}
	var err error
	if n.Payload, err = json.Marshal(g.Outputs); err != nil {
		return n, err
	}
	switch g.Status {
	case "queued", "processing":
		n.Status = provider.StatusWorking
	case "succeeded":
		n.Status = provider.StatusSucceeded
	case "cancelled":
		n.Status = provider.StatusCancelled
	case "failed":
		n.Status, n.Final = provider.StatusFailed, true
		if e := g.Error; e != nil {
			n.Error, n.Final = e.Code+": "+e.Message, !e.Transient
		}
	default:
		return n, fmt.Errorf("the service names a status %.40q that this program does not know", g.Status)
	}
	return n, nil
}

// Submit implements provider.Vendor.
func (v *vendor) Submit(ctx context.Context, r provider.Request) (provider.Submission, error) {
	body := map[string]any{"input": r.Input}
	if v.o.CallbackURL != "" {
		body["webhook_url"] = v.o.CallbackURL
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return provider.Submission{}, provider.Permanent(err)
	}
	var g generation
	answer, err := v.call(ctx, http.MethodPost, "/v1/generations", raw, r.Key, &g)
	switch {
	case err == nil && g.ID != "":
		news, err := g.news()
		if err != nil {
			news = provider.News{} // it is accepted; what it says will be asked again
		}
		return provider.Submission{Ref: g.ID, News: news}, nil
	case err == nil:
		return provider.Submission{}, errors.New("the service answered a submit without an id")
	case answer.status >= 500 && answer.replayed && !v.o.NoLookup:
		return v.afterRecordedFailure(ctx, r.Key, err)
	case r.Again && !provider.IsPermanent(err):
		return provider.Submission{}, transient(err) // it may have the one that was sent before
	}
	return provider.Submission{}, err
}

// afterRecordedFailure asks what a key's recorded failure stands for: the service will say
// nothing else under it, but it may have made the generation before it failed to answer.
func (v *vendor) afterRecordedFailure(ctx context.Context, key string, failure error) (provider.Submission, error) {
	switch ref, err := (finder{v}).Find(ctx, key); {
	case err == nil:
		return provider.Submission{Ref: ref}, nil
	case errors.Is(err, provider.ErrNotFound):
		return provider.Submission{}, provider.Refused(failure)
	}
	return provider.Submission{}, failure
}

// Poll implements provider.Poller.
func (v *vendor) Poll(ctx context.Context, ref string) (provider.News, error) {
	var g generation
	if _, err := v.call(ctx, http.MethodGet, "/v1/generations/"+url.PathEscape(ref), nil, "", &g); err != nil {
		return provider.News{}, transient(err)
	}
	return g.news()
}

// Find implements provider.Finder.
func (v finder) Find(ctx context.Context, key string) (string, error) {
	var list struct {
		Data *[]generation `json:"data"`
	}
	if _, err := v.call(ctx, http.MethodGet, "/v1/generations?idempotency_key="+url.QueryEscape(key), nil, "", &list); err != nil {
		return "", transient(err)
	}
	switch {
	case list.Data == nil:
		return "", errors.New("the service answered a lookup without a list")
	case len(*list.Data) == 0:
		return "", provider.ErrNotFound
	}
	g := (*list.Data)[0]
	if g.Key != "" && g.Key != key { // it does not know the filter: this is somebody else's
		return "", errors.New("the service answered a lookup with another key")
	}
	return g.ID, nil
}

// Cancel implements provider.Canceller.
func (v canceller) Cancel(ctx context.Context, ref string) (provider.News, error) {
	var g generation
	answer, err := v.call(ctx, http.MethodPost, "/v1/generations/"+url.PathEscape(ref)+"/cancel", []byte("{}"), "", &g)
	if answer.status == http.StatusConflict { // it has ended: how?
		return v.Poll(ctx, ref)
	}
	if err != nil {
		return provider.News{}, transient(err)
	}
	return g.news()
}

// Download implements provider.Vendor. What was delivered is what is charged.
func (v *vendor) Download(ctx context.Context, _ string, news provider.News) (provider.Result, error) {
	var outputs []output
	if err := json.Unmarshal(news.Payload, &outputs); err != nil {
		return provider.Result{}, fmt.Errorf("the list of outputs: %w", err)
	}
	total := 0
	for _, o := range outputs {
		if o.Bytes < 0 || o.Bytes > outputLen || total > resultLen-o.Bytes {
			return provider.Result{}, provider.Permanent(fmt.Errorf("the outputs have more than %d bytes each or %d together", outputLen, resultLen))
		}
		total += o.Bytes
	}
	r := provider.Result{Units: len(outputs), Cost: v.o.Price * int64(len(outputs)), Usage: map[string]int64{"units": int64(len(outputs))}}
	for n, o := range outputs {
		data, err := v.fetch(ctx, o)
		if err != nil {
			return r, fmt.Errorf("output %d: %w", n, err)
		}
		r.Outputs = append(r.Outputs, provider.Output{ContentType: o.ContentType, Data: data})
	}
	return r, nil
}

// fetch reads one output from the service itself; the address cannot be guessed and needs no
// key. Whatever is not just what the service announced is read again later.
func (v *vendor) fetch(ctx context.Context, o output) ([]byte, error) {
	at, err := url.Parse(o.URL)
	if err != nil || at.Scheme != v.base.Scheme || at.Host != v.base.Host {
		return nil, provider.Permanent(errors.New("the service names an address on another host"))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, provider.Permanent(err)
	}
	resp, err := v.o.Client.Do(req)
	if err != nil {
		return nil, bare(err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return nil, provider.Permanent(errors.New("it is no longer there"))
	default:
		return nil, fmt.Errorf("status %d", resp.StatusCode)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, int64(o.Bytes)+1))
	sum := sha256.Sum256(data)
	switch {
	case err != nil:
		return nil, bare(err)
	case len(data) != o.Bytes || hex.EncodeToString(sum[:]) != strings.ToLower(o.SHA256):
		return nil, fmt.Errorf("what came is not the %d bytes announced", o.Bytes)
	}
	return data, nil
}

// Callback implements provider.Caller.
func (v *vendor) Callback(header http.Header, body []byte) (provider.Event, error) {
	if !slices.ContainsFunc(v.signers, func(s *standardwebhooks.Webhook) bool { return s.Verify(body, header) == nil }) {
		return provider.Event{}, provider.ErrUnsigned
	}
	var message struct {
		Data generation `json:"data"`
	}
	if err := json.Unmarshal(body, &message); err != nil {
		return provider.Event{}, fmt.Errorf("callback: %w", err)
	}
	news, err := message.Data.news()
	return provider.Event{ID: header.Get(standardwebhooks.HeaderWebhookID), Ref: message.Data.ID, Key: message.Data.Key, News: news}, err
}

// reply is how a call was answered.
type reply struct {
	status   int
	replayed bool
}

// call makes one request. Its error is marked with what the service said: Refused or Permanent
// where it did not take the request, unmarked where nobody knows.
func (v *vendor) call(ctx context.Context, method, path string, body []byte, key string, into any) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(v.base.String(), "/")+path, bytes.NewReader(body))
	if err != nil {
		return reply{}, provider.Permanent(bare(err))
	}
	req.Header.Set("Authorization", "Bearer "+v.o.Key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
		req.GetBody = nil // else net/http itself would send it again when a connection breaks
	}
	resp, err := v.o.Client.Do(req)
	if err != nil {
		return reply{}, bare(err)
	}
	defer resp.Body.Close()
	r := reply{resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true"}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, answerLen+1))
	switch {
	case r.status >= 300:
		return r, refusal(resp, raw)
	case err != nil:
		return r, bare(err)
	case len(raw) > answerLen:
		return r, errors.New("the service's answer is too long")
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return r, errors.New("the service's answer is not the JSON that was expected")
	}
	return r, nil
}

// refusal reads an error answer.
func refusal(resp *http.Response, raw []byte) error {
	var said struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(raw, &said)
	err := fmt.Errorf("the service answered %d %s", resp.StatusCode, strings.TrimSpace(said.Error.Code+" "+said.Error.Message))
	wait, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	after := min(time.Duration(max(wait, 0))*time.Second, time.Hour)
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return provider.Permanent(err)
	case http.StatusTooManyRequests:
		return provider.RetryAfter(provider.Refused(err), max(after, time.Second))
	case http.StatusUnauthorized, http.StatusForbidden:
		return provider.RetryAfter(provider.Refused(err), 30*time.Second) // the operator's to mend
	case http.StatusConflict:
		return provider.RetryAfter(err, max(after, time.Second)) // the first request is being served
	}
	if after > 0 {
		return provider.RetryAfter(err, after)
	}
	return err
}

// transient takes the marks off: an answer to a question is no verdict on the work.
func transient(err error) error {
	if d, ok := provider.RetryDelay(err); ok {
		return provider.RetryAfter(errors.New(err.Error()), d)
	}
	return errors.New(err.Error())
}

// bare drops the address from an error of HTTP: what is stored and logged names no URL.
func bare(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
