package ledger

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func of(text string) []byte { return fingerprint(json.RawMessage(text)) }

func TestFingerprintByMeaning(t *testing.T) {
	t.Parallel()
	for _, same := range [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"a\" : 1 ,\t\"b\":2} "},
		{`10`, `10.0`, `1e1`, `1E+1`, `100e-1`, `10.000`},
		{`0`, `-0`, `0.0`, `0e5`},
		{`0.1`, `1e-1`, `0.10`},
		{`{"p":"a\u0063at <&>"}`, `{"p":"acat \u003c\u0026\u003e"}`},
		{`[{"x":{"b":1,"a":[1.0]}}]`, `[ {"x":{"a":[1],"b":1e0}} ]`},
	} {
		for _, text := range same {
			require.Equal(t, of(same[0]), of(text), "%s and %s", same[0], text)
		}
	}
	all := []string{`{}`, `[]`, `null`, `""`, `0`, `false`, `true`, `1`, `"1"`, `[1]`, `[[1]]`, `{"a":1}`, `{"a":"1"}`, `{"a":null}`, `{"a":[]}`,
		`{"a":{}}`, `{"a":1,"b":1}`, `{"b":1}`, `[1,2]`, `[2,1]`, `[12]`, `["1,2"]`, `["1","2"]`, `9007199254740993`, `9007199254740992`,
		`1e400`, `1e401`, `1e99999`, `1e99998`, `"caf\u00e9"`, `"cafe\u0301"`, `{"a":{"b":1},"c":1}`, `{"a":{"b":1,"c":1}}`, `"a "`, `"a"`, `"A"`}
	for i, x := range all {
		for _, y := range all[i+1:] {
			require.NotEqual(t, of(x), of(y), "%s and %s", x, y)
		}
	}
	require.NotEqual(t, fingerprint("ab", "c"), fingerprint("a", "bc"))
	require.NotEqual(t, fingerprint("a", ""), fingerprint("", "a"))
}

// document draws any JSON.
func document() *rapid.Generator[any] {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(v bool) any { return v }),
		rapid.Map(rapid.String(), func(v string) any { return v }), rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Float64Range(-1e20, 1e20), func(v float64) any { return v }))
	list := rapid.Map(rapid.SliceOfN(leaf, 0, 4), func(v []any) any { return v })
	object := rapid.Map(rapid.MapOfN(rapid.String(), rapid.OneOf(leaf, list), 0, 5), func(v map[string]any) any { return v })
	return rapid.OneOf(leaf, list, object)
}

// spell writes a value with its keys in any order and white space anywhere.
func spell(out *bytes.Buffer, v any, rnd *rand.Rand) {
	space := func() { out.WriteString([]string{"", " ", "\n\t"}[rnd.Intn(3)]) }
	space()
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		out.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			spell(out, k, rnd)
			out.WriteByte(':')
			spell(out, v[k], rnd)
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			spell(out, item, rnd)
		}
		out.WriteByte(']')
	case int64:
		raw, _ := json.Marshal(v)
		out.Write(raw)
		out.WriteString([]string{"", ".0", "e0", ".00E+0"}[rnd.Intn(4)])
	default:
		raw, _ := json.Marshal(v)
		out.Write(raw)
	}
	space()
}

func TestFingerprintOfAnySpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v, w := document().Draw(t, "v"), document().Draw(t, "w")
		rnd := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		var one, two bytes.Buffer
		spell(&one, v, rnd)
		spell(&two, v, rnd)
		require.Equal(t, of(one.String()), of(two.String()), "%s and %s", &one, &two)
		a, _ := json.Marshal(v)
		b, _ := json.Marshal(w)
		if !bytes.Equal(canonical(a), canonical(b)) {
			require.NotEqual(t, of(string(a)), of(string(b)))
		}
	})
}
