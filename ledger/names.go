package ledger

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
)

// Limits on what callers send, in bytes unless said otherwise.
const (
	MaxNameLen     = 255 // characters of an account name or a key
	MaxInputLen    = 64 << 10
	MaxMetadataLen = 4 << 10
	MaxReasonLen   = 1000 // characters
)

// NewID mints a ULID.
func NewID() string { return ulid.Make().String() }

// checkName refuses a name that could not be kept byte for byte: 1–255 characters of UTF-8
// without control characters or surrounding white space.
func checkName(field, s string) error {
	switch {
	case s == "":
		return invalid(field, "is empty; it needs 1 to %d characters", MaxNameLen)
	case !utf8.ValidString(s):
		return invalid(field, "is not valid UTF-8")
	case utf8.RuneCountInString(s) > MaxNameLen:
		return invalid(field, "has %d characters; %d are allowed", utf8.RuneCountInString(s), MaxNameLen)
	case strings.TrimFunc(s, unicode.IsSpace) != s:
		return invalid(field, "%s begins or ends with white space", quoteShort(s))
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(field, "%s contains a control character", quoteShort(s))
	}
	return nil
}

// checkKey is checkName for an optional key; "" means no key.
func checkKey(s string) error {
	if s == "" {
		return nil
	}
	return checkName("key", s)
}

// checkText refuses free text that could not be shown again: too long, not UTF-8, or with
// control characters.
func checkText(field, s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return invalid(field, "is empty; say in a few words why")
	case !utf8.ValidString(s):
		return invalid(field, "is not valid UTF-8")
	case utf8.RuneCountInString(s) > MaxReasonLen:
		return invalid(field, "has more than %d characters", MaxReasonLen)
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(field, "contains a control character")
	}
	return nil
}

// checkID refuses an id that is not a ULID in its canonical form.
func checkID(field, s string) error {
	id, err := ulid.ParseStrict(s)
	if err != nil || id.String() != s {
		return invalid(field, "%s is not an id of ours (26 characters, such as %s)", quoteShort(s), "01JD8Z7V3Q6X4T2M9K5R1W0YHB")
	}
	return nil
}

// checkAmount refuses an amount outside low … MaxAmount.
func checkAmount(field string, n, low int64) error {
	if n < low || n > MaxAmount {
		return invalid(field, "%d is outside %d … %d credits", n, low, int64(MaxAmount))
	}
	return nil
}

// checkJSON refuses what is not one JSON document of at most so many bytes.
func checkJSON(field string, raw json.RawMessage, most int) error {
	switch {
	case len(raw) > most:
		return invalid(field, "has %d bytes; %d are allowed", len(raw), most)
	case !utf8.Valid(raw):
		return invalid(field, "is not valid UTF-8")
	case !json.Valid(raw):
		return invalid(field, "is not valid JSON")
	}
	return nil
}
