package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/makegood/makegood/provider"
)

func mustNew(t testing.TB, options ...Option) *Generator {
	t.Helper()
	g, err := New(options...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func image(input string) provider.Request {
	return provider.Request{JobID: "01J", Key: "01J:1", Type: Type, Input: json.RawMessage(input)}
}

func mustGenerate(t testing.TB, g *Generator, input string) provider.Result {
	t.Helper()
	res, err := g.Generate(context.Background(), image(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func TestSameRequestGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	g := mustNew(t)
	for _, style := range Styles() {
		t.Run(style, func(t *testing.T) {
			t.Parallel()
			in := func(prompt string, seed, n int) string {
				return fmt.Sprintf(`{"prompt":%q,"style":%q,"seed":%d,"n":%d,"size":"200x160"}`, prompt, style, seed, n)
			}
			first := mustGenerate(t, g, in("a quiet street", 7, 2)).Outputs
			again := mustGenerate(t, mustNew(t), in("a quiet street", 7, 1)).Outputs
			if !bytes.Equal(first[0].Data, again[0].Data) {
				t.Error("the same picture came out differently")
			}
			other := map[[32]byte]string{sha256.Sum256(first[0].Data): "first"}
			for name, o := range map[string][]byte{
				"second of the series": first[1].Data,
				"another seed":         mustGenerate(t, g, in("a quiet street", 8, 1)).Outputs[0].Data,
				"another prompt":       mustGenerate(t, g, in("a loud street", 7, 1)).Outputs[0].Data,
			} {
				if same, dup := other[sha256.Sum256(o)]; dup {
					t.Errorf("%s is the same picture as %s", name, same)
				}
				other[sha256.Sum256(o)] = name
			}
		})
	}
}

func TestPriceIsPerPictureAndAsEstimated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options []Option
		n       int
		asked   int64
		charged int64
		units   int
	}{
		{nil, 1, 5, 5, 1},
		{nil, 3, 15, 15, 3},
		{[]Option{Price(7)}, 2, 14, 14, 2},
		{[]Option{Price(0)}, 2, 0, 0, 2},
		{[]Option{Price(2), DeliverAtMost(3)}, 4, 8, 6, 3},
	} {
		g := mustNew(t, tt.options...)
		in := fmt.Sprintf(`{"prompt":"p","size":"64x64","style":"contours","n":%d}`, tt.n)
		est, err := g.Estimate(json.RawMessage(in))
		if err != nil || est != (provider.Estimate{Cost: tt.asked, Units: tt.n}) {
			t.Errorf("n %d: Estimate = %+v, %v", tt.n, est, err)
		}
		res := mustGenerate(t, g, in)
		if res.Cost != tt.charged || res.Units != tt.units || len(res.Outputs) != tt.units {
			t.Errorf("n %d: got cost %d, units %d, %d outputs; want %d, %d", tt.n, res.Cost, res.Units, len(res.Outputs), tt.charged, tt.units)
		}
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for i, o := range []Option{Price(-1), Price(maxExact), Duration(-1), DeliverAtMost(0), FailFirst(-1), FailWord(""), FailWord("a b"), FailWord("!")} {
		if _, err := New(o); err == nil {
			t.Errorf("option %d was accepted", i)
		}
	}
}

func TestBadRequestsNeverRun(t *testing.T) {
	t.Parallel()
	g := mustNew(t, FailAlways())
	for _, req := range []provider.Request{
		image(`{"prompt":""}`),
		{Type: "video", Input: json.RawMessage(`{"prompt":"p"}`)},
	} {
		_, err := g.Generate(context.Background(), req, nil)
		if _, ok := errors.AsType[*provider.InputError](err); !ok {
			t.Errorf("%s %s: got %v, want an InputError", req.Type, req.Input, err)
		}
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	const in = `{"prompt":"a #cursed, lamp","size":"64x64","style":"contours"}`
	run := func(g *Generator) error {
		_, err := g.Generate(context.Background(), image(in), nil)
		return err
	}
	t.Run("always", func(t *testing.T) {
		t.Parallel()
		if err := run(mustNew(t, FailAlways())); !provider.IsPermanent(err) || !errors.Is(err, ErrTold) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("first two", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, FailFirst(2))
		for range 2 {
			if err := run(g); !errors.Is(err, ErrTold) || provider.IsPermanent(err) {
				t.Errorf("got %v, want one worth another attempt", err)
			}
		}
		if err := run(g); err != nil {
			t.Errorf("third call: %v", err)
		}
	})
	t.Run("word", func(t *testing.T) {
		t.Parallel()
		if err := run(mustNew(t, FailWord("#CURSED"))); !provider.IsPermanent(err) {
			t.Errorf("got %v", err)
		}
		if err := run(mustNew(t, FailWord("curse"))); err != nil {
			t.Errorf("a part of a word counted: %v", err)
		}
	})
	t.Run("on prompt, error unchanged", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, FailOn(func(string) error { return provider.RetryAfter(io.ErrUnexpectedEOF, time.Minute) }))
		err := run(g)
		if d, ok := provider.RetryDelay(err); !ok || d != time.Minute || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v, %v, %v", err, d, ok)
		}
	})
}

func TestCancelReturnsQuickly(t *testing.T) {
	t.Parallel()
	reason := errors.New("the worker is going home")
	for name, g := range map[string]*Generator{"while waiting": mustNew(t, Duration(time.Hour)), "while painting": mustNew(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(context.Background())
			var at time.Time
			time.AfterFunc(60*time.Millisecond, func() { at = time.Now(); cancel(reason) })
			_, err := g.Generate(ctx, image(`{"prompt":"p","size":"2048x2048","n":8,"style":"watercolor"}`), nil)
			if !errors.Is(err, reason) || provider.IsPermanent(err) {
				t.Errorf("got %v, want the cause, unmarked", err)
			}
			if took := time.Since(at); took > 2*time.Second {
				t.Errorf("took %s to stop", took)
			}
		})
	}
}

func TestProgressOnlyRisesAndEndsAtHundred(t *testing.T) {
	t.Parallel()
	g := mustNew(t, Duration(200*time.Millisecond))
	last, calls, began := -1, 0, time.Now()
	_, err := g.Generate(context.Background(), image(`{"prompt":"p","size":"64x64","n":3}`), func(percent int, text string) {
		if percent < last || percent > 100 || text == "" {
			t.Errorf("%d after %d, %q", percent, last, text)
		}
		last, calls = percent, calls+1
	})
	if err != nil || last != 100 || calls < 20 {
		t.Errorf("ended at %d after %d calls, %v", last, calls, err)
	}
	if took := time.Since(began); took < 200*time.Millisecond {
		t.Errorf("took %s, less than told", took)
	}
}

func TestConcurrentCallsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	g := mustNew(t, FailFirst(3))
	var wg sync.WaitGroup
	sums, failed := make(chan [32]byte, 24), make(chan error, 24)
	for i := range 24 {
		wg.Go(func() {
			style := Styles()[i%len(Styles())]
			res, err := g.Generate(context.Background(), image(fmt.Sprintf(`{"prompt":"p","size":"180x180","style":%q}`, style)), nil)
			if err != nil {
				failed <- err
				return
			}
			sums <- sha256.Sum256(res.Outputs[0].Data)
		})
	}
	wg.Wait()
	close(sums)
	distinct := map[[32]byte]bool{}
	for s := range sums {
		distinct[s] = true
	}
	if len(failed) != 3 || len(distinct) > len(Styles()) {
		t.Errorf("%d failures, want 3; %d pictures from %d styles", len(failed), len(distinct), len(Styles()))
	}
}

func TestHostilePromptsStillMakeAPicture(t *testing.T) {
	t.Parallel()
	g := mustNew(t)
	for _, prompt := range []string{"\u202egnp.exe", "海辺の朝 🌊🌊", "a\n\n\tb\u0001", "\u0301\u0301\u0301", string(bytes.Repeat([]byte("wide "), 13000)), string(bytes.Repeat([]byte("W"), maxPrompt))} {
		in, _ := json.Marshal(map[string]any{"prompt": prompt, "size": "170x170"})
		res := mustGenerate(t, g, string(in))
		if _, err := png.Decode(bytes.NewReader(res.Outputs[0].Data)); err != nil {
			t.Errorf("%.20q: %v", prompt, err)
		}
	}
}

func BenchmarkGenerate(b *testing.B) {
	g := mustNew(b)
	for _, style := range Styles() {
		b.Run(style, func(b *testing.B) {
			for b.Loop() {
				mustGenerate(b, g, fmt.Sprintf(`{"prompt":"p","style":%q}`, style))
			}
		})
	}
}
