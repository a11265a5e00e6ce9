// Package local is a provider that needs no network, no key and no money: it
// computes a PNG from the prompt. It serves demonstrations, tests and first
// steps, so it can also be told to be slow or to fail.
//
// The input of a job of type image, with every field but prompt optional or
// null:
//
//	{"prompt": "the sea at dawn",  1 byte to 64 KiB of UTF-8
//	 "size":   "512x512",          WIDTHxHEIGHT, 64 to 2048 each, so at most 4 megapixels
//	 "style":  "sea",              one of Styles; null or "" = what suits the prompt
//	 "seed":   7,                  any exact integer within ±(2^53−1); null = 0
//	 "n":      1}                  pictures, 1 to 8
//
// The same prompt, size, style and seed give the same bytes for each picture of
// the series, whatever n is.
package local

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/png"
	"strings"
	"sync/atomic"
	"time"

	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/local/internal/paint"
)

// DefaultPrice is what one picture costs, in credits.
const DefaultPrice = 5

// Type is the only type of job that a Generator takes.
const Type = "image"

// Generator makes pictures. It is safe for concurrent use.
type Generator struct {
	price    int64
	duration time.Duration
	deliver  int
	failAll  bool
	failOn   []func(prompt string) error
	failLeft atomic.Int64
}

var _ provider.Provider = (*Generator)(nil)

// New makes a Generator; without options it is fast, honest and charges
// DefaultPrice a picture. An option with a value that makes no sense is an error.
func New(options ...Option) (*Generator, error) {
	g := &Generator{price: DefaultPrice, deliver: maxPictures}
	for _, set := range options {
		if err := set(g); err != nil {
			return nil, fmt.Errorf("local provider: %w", err)
		}
	}
	return g, nil
}

// Styles lists the names that an input's style may have.
func Styles() []string { return paint.Styles() }

// Name implements [provider.Provider].
func (g *Generator) Name() string { return "local" }

// Estimate implements [provider.Provider]: price times pictures.
func (g *Generator) Estimate(input json.RawMessage) (provider.Estimate, error) {
	in, err := decode(input)
	if err != nil {
		return provider.Estimate{}, err
	}
	return provider.Estimate{Cost: g.price * int64(in.n), Units: in.n}, nil
}

// Generate implements [provider.Provider].
func (g *Generator) Generate(ctx context.Context, req provider.Request, progress provider.Progress) (provider.Result, error) {
	if req.Type != Type {
		return provider.Result{}, provider.Invalid("type", "the local provider makes %q, not %q; send type %q", Type, req.Type, Type)
	}
	in, err := decode(req.Input)
	if err != nil {
		return provider.Result{}, err
	}
	fail := g.failure(in.prompt)
	n := min(in.n, g.deliver)
	p := newPace(ctx, g.duration, n, progress)
	res := provider.Result{Units: n, Cost: g.price * int64(n), Usage: map[string]int64{
		"pictures": int64(n), "pixels": int64(n) * int64(in.width) * int64(in.height),
	}}
	for i := range n {
		if err := p.wait(i, fail); err != nil {
			return provider.Result{}, err
		}
		data, err := render(ctx, in, i)
		if err != nil {
			return provider.Result{}, err
		}
		res.Outputs = append(res.Outputs, provider.Output{ContentType: "image/png", Data: data})
	}
	p.report(100, plural(n)+" done")
	return res, nil
}

// failure decides once per call whether it is going to fail.
func (g *Generator) failure(prompt string) error {
	if g.failAll {
		return provider.Permanent(ErrTold)
	}
	for _, f := range g.failOn {
		if err := f(prompt); err != nil {
			return err
		}
	}
	for {
		left := g.failLeft.Load()
		if left <= 0 {
			return nil
		}
		if g.failLeft.CompareAndSwap(left, left-1) {
			return ErrTold
		}
	}
}

// render paints and encodes picture i of the series.
func render(ctx context.Context, in input, i int) ([]byte, error) {
	img, err := paint.Picture(ctx, paint.Spec{
		Prompt: in.prompt, Width: in.width, Height: in.height, Style: in.style, Seed: in.seed, Index: i,
	})
	if err != nil {
		return nil, context.Cause(ctx)
	}
	var buf bytes.Buffer
	enc := png.Encoder{CompressionLevel: png.BestSpeed}
	if err := enc.Encode(&buf, img); err != nil {
		return nil, fmt.Errorf("encode picture %d: %w", i+1, err)
	}
	return buf.Bytes(), context.Cause(ctx)
}

func plural(n int) string {
	if n == 1 {
		return "1 picture"
	}
	return fmt.Sprintf("%d pictures", n)
}

// quoted lists names for an error message: "a", "b" or "c".
func quoted(names []string) string {
	q := make([]string, len(names))
	for i, s := range names {
		q[i] = `"` + s + `"`
	}
	last := len(q) - 1
	return strings.Join(q[:last], ", ") + " or " + q[last]
}
