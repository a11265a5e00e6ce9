package fakevendor

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// A Callback is one message to a generation's webhook_url. The zero value tells
// the truth once.
type Callback struct {
	Status Status   `json:"status,omitempty"` // what it claims, true or not; "" = what is so when it is queued
	ID     string   `json:"id,omitempty"`     // which generation it claims to be about; "" = its own
	Times  int      `json:"times,omitempty"`  // how often it is sent, though the first was received; 0 = 1
	Delay  Duration `json:"delay,omitempty"`  // waits before it is sent; those after it wait too
	Forged bool     `json:"forged,omitempty"` // signed with a secret that nobody knows
	Early  bool     `json:"early,omitempty"`  // sent, and its answer awaited, before the submit is answered; a claimed end is then brought about first
}

// Validate says what is wrong with c.
func (c Callback) Validate() error {
	switch {
	case c.Times < 0:
		return fmt.Errorf("times %d is negative", c.Times)
	case c.Delay < 0:
		return errors.New("delay must not be negative")
	}
	switch c.Status {
	case "", Queued, Processing, Succeeded, Failed, Cancelled:
		return nil
	default:
		return fmt.Errorf("status %q: want that of a generation", c.Status)
	}
}

// notice is the body of a callback.
type notice struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      view      `json:"data"`
}

// message is a callback on its way.
type message struct {
	id         string // webhook-id, the same at every delivery
	generation string
	key        string
	url        string
	body       []byte
	final      bool // tells the end of its own generation
	how        Callback
}

// postman delivers messages, for each generation one after the other.
type postman struct {
	vendor *Vendor
	client *http.Client
	retry  []time.Duration

	mu      sync.Mutex
	secrets [][]byte
	boxes   map[string][]message // by generation; present = somebody is delivering
}

func newPostman(v *Vendor, retry []time.Duration) *postman {
	return &postman{
		vendor: v,
		retry:  retry,
		boxes:  map[string][]message{},
		client: &http.Client{
			Timeout:       callbackTimeout,
			Transport:     &http.Transport{},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// sign uses these secrets from now on, all of them at once: first the old and
// the new, later the new alone.
func (p *postman) sign(secrets []string) error {
	keys := make([][]byte, 0, len(secrets))
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return errors.New(`a webhook secret is "whsec_" and base64`)
		}
		keys = append(keys, key)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secrets = keys
	return nil
}

// write makes the message that c describes about g.
func (p *postman) write(g Generation, c Callback) message {
	final := g.Status.Ended() && (c.Status == "" || c.Status == g.Status) && c.ID == "" && !c.Forged
	now := time.Now().UTC()
	g = claimed(g, c, now)
	body, err := json.Marshal(notice{Type: "generation." + string(g.Status), Timestamp: now, Data: g.view(p.vendor.base, now)})
	if err != nil {
		panic(err) // only strings, numbers and times
	}
	return message{id: "msg_" + ulid.Make().String(), generation: g.ID, key: g.Key, url: g.WebhookURL, body: body, final: final, how: c}
}

// claimed is g as c would have it.
func claimed(g Generation, c Callback, now time.Time) Generation {
	if c.Status != "" && c.Status != g.Status {
		g.Status, g.Error, g.EndedAt = c.Status, nil, nil
		if c.Status.Ended() {
			g.EndedAt = &now
		}
		switch c.Status {
		case Succeeded:
			g.Delivered = g.Asked
		case Failed:
			g.Delivered, g.Error = 0, &Error{Code: "generation_failed"}
		case Processing:
			g.Delivered = 0
			g.BeganAt = or(g.BeganAt, &now)
		default:
			g.Delivered = 0
		}
	}
	g.ID = or(c.ID, g.ID)
	return g
}

// queue sends messages after those that wait for the same generation.
func (p *postman) queue(generation string, messages ...message) {
	if len(messages) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, busy := p.boxes[generation]
	p.boxes[generation] = append(waiting, messages...)
	if !busy && !p.vendor.spawn(func() { p.empty(generation) }) {
		delete(p.boxes, generation)
	}
}

// empty delivers until nothing waits or the vendor closes.
func (p *postman) empty(generation string) {
	for {
		p.mu.Lock()
		waiting := p.boxes[generation]
		if len(waiting) == 0 || p.vendor.ctx.Err() != nil {
			delete(p.boxes, generation)
			p.mu.Unlock()
			return
		}
		m := waiting[0]
		p.boxes[generation] = waiting[1:]
		p.mu.Unlock()
		p.insist(m)
	}
}

// insist delivers m as often as it wants to be, each time until it is received
// or tries run out.
func (p *postman) insist(m message) {
	ctx := p.vendor.ctx
	if !sleep(ctx, time.Duration(m.how.Delay)) {
		return
	}
	for range max(m.how.Times, 1) {
		for try := 0; ; try++ {
			if status, err := p.deliver(ctx, m); err == nil && received(status) {
				break
			}
			if try == len(p.retry) || !sleep(ctx, p.retry[try]) {
				return
			}
		}
	}
}

func received(status int) bool { return status >= 200 && status < 300 }

// deliver sends m once and returns the status it was answered with.
func (p *postman) deliver(ctx context.Context, m message) (int, error) {
	if err := p.vendor.books.tally(m.key, CallbackSent); err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url, bytes.NewReader(m.body))
	if err != nil {
		return 0, err
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", m.id)
	request.Header.Set("Webhook-Timestamp", timestamp)
	request.Header.Set("Webhook-Signature", p.signature(m, timestamp))
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body) // so that the connection is used again
	_ = response.Body.Close()
	if !received(response.StatusCode) {
		return response.StatusCode, nil
	}
	if m.final {
		err = p.vendor.books.tell(m.generation)
	}
	return response.StatusCode, errors.Join(err, p.vendor.books.tally(m.key, CallbackReceived))
}

// signature signs with every secret in use.
func (p *postman) signature(m message, timestamp string) string {
	p.mu.Lock()
	secrets := p.secrets
	p.mu.Unlock()
	if m.how.Forged {
		secrets = [][]byte{[]byte(rand.Text())}
	}
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", m.id, timestamp, m.body)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(signatures, " ")
}
