package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/makegood/makegood/provider"
)

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	base := input{prompt: "p", width: 512, height: 512, n: 1}
	with := func(change func(*input)) input { in := base; change(&in); return in }
	tests := map[string]input{
		`{"prompt":"p"}`: base,
		`{"prompt":"p","size":null,"style":null,"seed":null,"n":null}`: base,
		` {"style":"","prompt":"p"} ` + "\n":                           base,
		`{"prompt":"p","size":"64x2048"}`:                              with(func(in *input) { in.width, in.height = 64, 2048 }),
		`{"prompt":"p","size":"2048x2048"}`:                            with(func(in *input) { in.width, in.height = 2048, 2048 }),
		`{"prompt":"p","style":"ink","seed":-7}`:                       with(func(in *input) { in.style, in.seed = "ink", -7 }),
		`{"prompt":"p","seed":10.0,"n":8}`:                             with(func(in *input) { in.seed, in.n = 10, 8 }),
		`{"prompt":"p","seed":1e1,"n":0.2E+1}`:                         with(func(in *input) { in.seed, in.n = 10, 2 }),
		`{"prompt":"p","seed":9007199254740991}`:                       with(func(in *input) { in.seed = maxExact }),
		`{"prompt":"p","seed":-9007199254740991.000}`:                  with(func(in *input) { in.seed = -maxExact }),
		`{"prompt":"p","seed":-0e999999999999}`:                        base,
		`{"prompt":"海 🌊"}`:                                             with(func(in *input) { in.prompt = "海 🌊" }),
		`{"prompt":"` + strings.Repeat("a", maxPrompt) + `"}`:          with(func(in *input) { in.prompt = strings.Repeat("a", maxPrompt) }),
	}
	for raw, want := range tests {
		if got, err := decode(json.RawMessage(raw)); err != nil || got != want {
			t.Errorf("%.80s: got %+.80v, %v, want %+.80v", raw, got, err, want)
		}
	}
}

func TestDecodeRefusesAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct{ raw, field, advice string }{
		{``, "", "send {"},
		{`null`, "", "send {"},
		{`[]`, "", "send {"},
		{`"p"`, "", "send {"},
		{`{"prompt":"p"`, "", "not valid JSON"},
		{`{"prompt":}`, "", "not valid JSON"},
		{`{"prompt":"p"} {}`, "", "send one object"},
		{"{\"prompt\":\"\xff\"}", "", "UTF-8"},
		{`{"prompt":"p","x":"` + strings.Repeat("a", maxInput) + `"}`, "", "at most"},
		{`{}`, "prompt", "say what"},
		{`{"prompt":null}`, "prompt", "say what"},
		{`{"prompt":""}`, "prompt", "say what"},
		{`{"prompt":" \n "}`, "prompt", "say what"},
		{`{"prompt":5}`, "prompt", "in quotes"},
		{`{"prompt":"a\u0000b"}`, "prompt", "remove it"},
		{`{"prompt":"` + strings.Repeat("a", maxPrompt+1) + `"}`, "prompt", "shorten it"},
		{`{"prompt":"p","prompt":"q"}`, "prompt", "once"},
		{`{"Prompt":"p"}`, "Prompt", "an image takes prompt, size, style, seed and n"},
		{`{"prompt":"p","quality":"hd"}`, "quality", "an image takes"},
		{`{"prompt":"p","size":512}`, "size", "512x512"},
		{`{"prompt":"p","size":""}`, "size", "512x512"},
		{`{"prompt":"p","size":"512"}`, "size", "512x512"},
		{`{"prompt":"p","size":"512X512"}`, "size", "512x512"},
		{`{"prompt":"p","size":"-64x64"}`, "size", "512x512"},
		{`{"prompt":"p","size":"99999999999999999999x64"}`, "size", "512x512"},
		{`{"prompt":"p","size":"63x64"}`, "size", "64 to 2048"},
		{`{"prompt":"p","size":"64x2049"}`, "size", "64 to 2048"},
		{`{"prompt":"p","style":"cubism"}`, "style", `"dunes"`},
		{`{"prompt":"p","style":["ink"]}`, "style", `or "watercolor"`},
		{`{"prompt":"p","seed":"1"}`, "seed", "send an integer"},
		{`{"prompt":"p","seed":1.5}`, "seed", "send an integer"},
		{`{"prompt":"p","seed":1e-1}`, "seed", "send an integer"},
		{`{"prompt":"p","seed":1e-99999999999}`, "seed", "send an integer"},
		{`{"prompt":"p","seed":9007199254740992}`, "seed", "9007199254740991"},
		{`{"prompt":"p","seed":-9007199254740992}`, "seed", "9007199254740991"},
		{`{"prompt":"p","seed":1e99999999999}`, "seed", "9007199254740991"},
		{`{"prompt":"p","seed":true}`, "seed", "send an integer"},
		{`{"prompt":"p","n":0}`, "n", "1 to 8"},
		{`{"prompt":"p","n":9}`, "n", "1 to 8"},
		{`{"prompt":"p","n":-1}`, "n", "1 to 8"},
		{`{"prompt":"p","n":2.5}`, "n", "send an integer"},
	}
	for _, tt := range tests {
		_, err := decode(json.RawMessage(tt.raw))
		in, ok := errors.AsType[*provider.InputError](err)
		if !ok {
			t.Errorf("%.60s: got %v, want an InputError", tt.raw, err)
			continue
		}
		if in.Field != tt.field || !strings.Contains(in.Detail, tt.advice) {
			t.Errorf("%.60s: got field %q, detail %q; want field %q with %q", tt.raw, in.Field, in.Detail, tt.field, tt.advice)
		}
		if len(in.Error()) > 250 {
			t.Errorf("%.60s: an error of %d bytes echoes too much", tt.raw, len(in.Error()))
		}
	}
}

// FuzzDecode: whatever comes in, decode neither panics nor lets anything out of
// bounds through, and everything it refuses is an InputError.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"prompt":"p","size":"64x64","style":"ink","seed":1e1,"n":2.0}`, `{"prompt":"p","seed":-0.10e+2}`,
		`{"prompt":"\ud800","n":null}`, `{"prompt":"p","prompt":"q"}`, `{"prompt":["p"]}`, `{"a":{"b":[1,2]}}`, `[`, ``, "{\"prompt\":\"\xff\"}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		in, err := decode(raw)
		if err != nil {
			if _, ok := errors.AsType[*provider.InputError](err); !ok {
				t.Fatalf("%q: %T is no InputError", raw, err)
			}
			if !utf8.ValidString(err.Error()) {
				t.Fatalf("%q: the error is not UTF-8: %q", raw, err)
			}
			return
		}
		ok := in.prompt != "" && len(in.prompt) <= maxPrompt && utf8.ValidString(in.prompt) &&
			in.n >= 1 && in.n <= maxPictures && in.seed >= -maxExact && in.seed <= maxExact &&
			min(in.width, in.height) >= minSide && max(in.width, in.height) <= maxSide
		if !ok {
			t.Fatalf("%q: out of bounds: %+v", raw, in)
		}
		if again, err := decode(fmt.Appendf(nil, `{"prompt":"p","seed":%d}`, in.seed)); err != nil || again.seed != in.seed {
			t.Fatalf("%q: seed %d does not survive: %d, %v", raw, in.seed, again.seed, err)
		}
	})
}
