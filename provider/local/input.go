package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/provider/local/internal/paint"
)

const (
	maxPrompt   = 64 << 10 // bytes
	maxInput    = 8 * maxPrompt
	minSide     = 64
	maxSide     = 2048 // so at most 4 megapixels
	maxPictures = 8
)

// input is a decoded request.
type input struct {
	prompt        string
	width, height int
	style         string
	seed          int64
	n             int
}

// fields decode one field each; what they refuse becomes an InputError.
var fields = map[string]func(*input, json.RawMessage) error{
	"prompt": (*input).setPrompt,
	"size":   (*input).setSize,
	"style":  (*input).setStyle,
	"seed":   (*input).setSeed,
	"n":      (*input).setN,
}

// decode reads and checks an input. Names are exact, each may stand once, and
// null means unset.
func decode(raw json.RawMessage) (input, error) {
	in := input{width: 512, height: 512, n: 1}
	if len(raw) > maxInput {
		return in, provider.Invalid("", "%d bytes; send at most %d", len(raw), maxInput)
	}
	if !utf8.Valid(raw) {
		return in, provider.Invalid("", "not valid UTF-8; encode it as UTF-8")
	}
	values, err := object(raw)
	if err != nil {
		return in, err
	}
	if v, ok := values["prompt"]; !ok || isNull(v) {
		return in, provider.Invalid("prompt", "missing; say what the picture should show")
	}
	for _, name := range []string{"prompt", "size", "style", "seed", "n"} {
		v, ok := values[name]
		if !ok || isNull(v) {
			continue
		}
		if err := fields[name](&in, v); err != nil {
			return in, &provider.InputError{Field: name, Detail: err.Error()}
		}
	}
	return in, nil
}

// object splits a JSON object into its fields.
func object(raw json.RawMessage) (map[string]json.RawMessage, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, provider.Invalid("", `not a JSON object; send {"prompt":"…"}`)
	}
	values := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, broken(err)
		}
		if _, known := fields[name]; !known {
			return nil, provider.Invalid(shortened(name), "unknown; an image takes prompt, size, style, seed and n")
		}
		if _, twice := values[name]; twice {
			return nil, provider.Invalid(name, "given twice; send it once")
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, broken(err)
		}
		values[name] = v
	}
	if _, err := dec.Token(); err != nil {
		return nil, broken(err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, provider.Invalid("", "text after the JSON object; send one object")
	}
	return values, nil
}

func broken(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return provider.Invalid("", "not valid JSON (%v); correct it", err)
}

func isNull(v json.RawMessage) bool { return string(v) == "null" }

func (in *input) setPrompt(v json.RawMessage) error {
	if err := json.Unmarshal(v, &in.prompt); err != nil {
		return fmt.Errorf("%s is no string; send text in quotes", kind(v))
	}
	switch {
	case len(in.prompt) > maxPrompt:
		return fmt.Errorf("%d bytes long; shorten it to %d", len(in.prompt), maxPrompt)
	case strings.TrimSpace(in.prompt) == "":
		return errors.New("empty; say what the picture should show")
	case strings.ContainsRune(in.prompt, 0):
		return errors.New("contains a NUL character; remove it")
	}
	return nil
}

var sizeForm = regexp.MustCompile(`^([1-9][0-9]{0,5})x([1-9][0-9]{0,5})$`)

func (in *input) setSize(v json.RawMessage) error {
	var size string
	if err := json.Unmarshal(v, &size); err != nil {
		return fmt.Errorf(`%s is no string; send WIDTHxHEIGHT such as "512x512"`, kind(v))
	}
	m := sizeForm.FindStringSubmatch(size)
	if m == nil {
		return fmt.Errorf(`%q is no size; send WIDTHxHEIGHT in pixels such as "512x512"`, shortened(size))
	}
	in.width, _ = strconv.Atoi(m[1]) // at most six digits
	in.height, _ = strconv.Atoi(m[2])
	if min(in.width, in.height) < minSide || max(in.width, in.height) > maxSide {
		return fmt.Errorf("%s is out of range; each side takes %d to %d pixels", size, minSide, maxSide)
	}
	return nil
}

func (in *input) setStyle(v json.RawMessage) error {
	if err := json.Unmarshal(v, &in.style); err != nil {
		return fmt.Errorf("%s is no string; send %s, or null", kind(v), quoted(Styles()))
	}
	if in.style != "" && !paint.Known(in.style) {
		return fmt.Errorf("%q is no style; send %s, or null for what suits the prompt", shortened(in.style), quoted(Styles()))
	}
	return nil
}

func (in *input) setSeed(v json.RawMessage) (err error) {
	in.seed, err = integer(v)
	return err
}

func (in *input) setN(v json.RawMessage) error {
	n, err := integer(v)
	if err != nil {
		return err
	}
	if n < 1 || n > maxPictures {
		return fmt.Errorf("%d pictures; ask for 1 to %d", n, maxPictures)
	}
	in.n = int(n)
	return nil
}

// kind names a JSON value for an error message.
func kind(v json.RawMessage) string {
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return string(v)
	}
	return "a number"
}

// shortened keeps what a client sent from filling an error message.
func shortened(s string) string {
	const limit = 40
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}
