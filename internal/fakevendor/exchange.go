package fakevendor

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// An answer is what a call is answered with. Those of submits are kept for the
// key as they are.
type answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type"`
	RetryAfter  int    `json:"retry_after,omitempty"` // seconds, header; 0 = none
	Location    string `json:"location,omitempty"`    // header
	Body        []byte `json:"body"`
	replayed    bool
}

var notFound = failure(http.StatusNotFound, "not_found", "there is no such thing")

// document answers with JSON.
func document(status int, content any) answer {
	body, err := json.Marshal(content)
	if err != nil {
		return broken(err)
	}
	return answer{Status: status, ContentType: "application/json", Body: append(body, '\n')}
}

// failure answers with an error.
func failure(status int, code, message string) answer {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	return document(status, map[string]detail{"error": {Code: code, Message: message}})
}

// broken answers that the books cannot be kept.
func broken(err error) answer {
	return failure(http.StatusInternalServerError, "internal", err.Error())
}

// answer is what a fault says in the vendor's place.
func (f *Fault) answer() answer {
	a := failure(f.Status, "vendor_fault", "told to fail")
	switch f.Do {
	case OKError:
		a.Status = http.StatusOK
	case Redirect:
		a.Status, a.Location = http.StatusTemporaryRedirect, f.Location
	default:
		a.RetryAfter = f.RetryAfter
	}
	return a
}

func (a answer) write(w http.ResponseWriter) {
	a.head(w)
	_, _ = w.Write(a.Body)
}

func (a answer) head(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", a.ContentType)
	header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	if a.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(a.RetryAfter))
	}
	if a.Location != "" {
		header.Set("Location", a.Location)
	}
	if a.replayed {
		header.Set("Idempotency-Replayed", "true")
	}
	w.WriteHeader(a.Status)
}

// An exchange is one call and the faults that it meets.
type exchange struct {
	v      *Vendor
	w      http.ResponseWriter
	r      *http.Request
	key    string
	faults []Fault
}

// begin counts a call and lets what happens before it happen. False = that was
// all.
func (v *Vendor) begin(w http.ResponseWriter, r *http.Request, call Kind, key, prompt string) (*exchange, bool) {
	x := &exchange{v: v, w: w, r: r, key: key, faults: v.script.meet(call, key, prompt)}
	if err := v.books.tally(key, call); err != nil {
		broken(err).write(w)
		return nil, false
	}
	f, ok := x.hold(Before)
	if ok && f != nil {
		x.send(f.answer(), f)
		ok = false
	}
	return x, ok
}

// finish lets what happens after the call happen and answers.
func (x *exchange) finish(a answer) {
	if f, ok := x.hold(After); ok {
		x.send(a, f)
	}
}

// work is what the faults make of a generation.
func (x *exchange) work(otherwise Work) Work {
	for _, f := range x.faults {
		if f.Work != nil {
			return *f.Work
		}
	}
	return otherwise
}

// fault is the one that does something at a point; nil = none.
func (x *exchange) fault(p Point) *Fault {
	i := slices.IndexFunc(x.faults, func(f Fault) bool { return f.At == p && f.Do != "" })
	if i < 0 {
		return nil
	}
	return &x.faults[i]
}

// hold waits as long as the faults at a point make the call wait, and returns
// the one to suffer next. It does not care whether the client has gone, as
// vendors do not, except in a hang. False = the connection is cut.
func (x *exchange) hold(p Point) (*Fault, bool) {
	for _, f := range x.faults {
		if f.At == p && !x.wait(f) {
			x.drop()
			return nil, false
		}
	}
	f := x.fault(p)
	if f == nil || f.Do != Hang {
		return f, true
	}
	x.tally(Struck)
	select {
	case <-x.r.Context().Done():
	case <-x.v.ctx.Done():
	}
	x.drop()
	return nil, false
}

// wait serves a fault's delay and gate; false = the vendor closes.
func (x *exchange) wait(f Fault) bool {
	if f.Delay > 0 || f.Gate != "" {
		x.tally(Held)
	}
	if !sleep(x.v.ctx, time.Duration(f.Delay)) {
		return false
	}
	if f.Gate == "" {
		return true
	}
	select {
	case <-x.v.gate(f.Gate):
		return true
	case <-x.v.ctx.Done():
		return false
	}
}

func (x *exchange) tally(kind Kind) { _ = x.v.books.tally(x.key, kind) } // broken books show at the next call

// send answers, as far as the fault lets it. f is nil where there is none.
func (x *exchange) send(a answer, f *Fault) {
	if f == nil {
		a.write(x.w)
		return
	}
	x.tally(Struck)
	switch f.Do {
	case Drop:
		x.drop()
	case Malformed:
		a.spoil().write(x.w)
	case Truncated:
		a.head(x.w)
		_, _ = x.w.Write(a.Body[:len(a.Body)/2])
		x.flush()
		panic(http.ErrAbortHandler) // cuts the connection
	case Trickle:
		x.trickle(a, f)
	case Redirect:
		redirect := f.answer()
		redirect.Location = or(redirect.Location, x.r.URL.RequestURI())
		redirect.write(x.w)
	default: // Answer, OKError
		f.answer().write(x.w)
	}
}

// spoil leaves the length and the type as they are.
func (a answer) spoil() answer {
	a.Body = slices.Clone(a.Body)
	if a.ContentType == "application/json" {
		a.Body[0] = '<'
	} else {
		a.Body[len(a.Body)/2] ^= 0xff
	}
	return a
}

func (x *exchange) trickle(a answer, f *Fault) {
	a.head(x.w)
	for chunk := range slices.Chunk(a.Body, f.Chunk) {
		if _, err := x.w.Write(chunk); err != nil {
			return
		}
		x.flush()
		if !sleep(x.v.ctx, time.Duration(f.Every)) || x.r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func (x *exchange) flush() { _ = http.NewResponseController(x.w).Flush() }

// drop resets the connection: the client gets no answer and no orderly end.
func (x *exchange) drop() {
	conn, _, err := http.NewResponseController(x.w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
