package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math/big"
	"sort"
	"strings"
)

// fingerprint names what a caller meant, so that a key used again with other content is told
// from a repetition. JSON is compared by meaning: the order of keys, white space and the
// spelling of a number (10, 10.0, 1e1) do not matter.
func fingerprint(parts ...any) []byte {
	h := sha256.New()
	for _, part := range parts {
		raw, err := json.Marshal(part)
		if err != nil {
			panic("fingerprint of a value that is not JSON: " + err.Error())
		}
		h.Write(canonical(raw))
		h.Write([]byte{0})
	}
	return h.Sum(nil)
}

// canonical rewrites valid JSON so that equal meanings become equal bytes.
func canonical(raw []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return raw
	}
	var out bytes.Buffer
	writeCanonical(&out, v)
	return out.Bytes()
}

func writeCanonical(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		out.WriteByte('{')
		for _, k := range keys {
			writeCanonical(out, k)
			out.WriteByte(':')
			writeCanonical(out, v[k])
			out.WriteByte(',')
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for _, item := range v {
			writeCanonical(out, item)
			out.WriteByte(',')
		}
		out.WriteByte(']')
	case json.Number:
		out.WriteString(canonicalNumber(v.String()))
	default: // string, bool, nil: json.Marshal has one spelling for each
		raw, _ := json.Marshal(v)
		out.Write(raw)
	}
}

// canonicalNumber gives each numeric value one spelling. A number with an exponent too large
// to expand keeps its own spelling: no two such numbers are taken for the same.
func canonicalNumber(s string) string {
	if e := strings.IndexAny(s, "eE"); e >= 0 && len(strings.TrimLeft(s[e+1:], "+-0")) > 3 {
		return s
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return s
	}
	return r.RatString()
}
