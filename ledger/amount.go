package ledger

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// MaxAmount is the largest amount and balance, in credits: 2^53−1, so that a JSON number
// carries each of them exactly. Balances may be as low as −MaxAmount.
const MaxAmount = 1<<53 - 1

// inBounds reports whether n lies within ±MaxAmount.
func inBounds(n int64) bool { return -MaxAmount <= n && n <= MaxAmount }

// checkSum refuses a+b beyond the bounds; what names the field to blame.
func checkSum(what string, a, b int64) error {
	// Two amounts of 53 bits cannot wrap 63, so the sum is exact before it is judged.
	if inBounds(a + b) {
		return nil
	}
	return invalid(what, "would leave ±%d, the range of a balance", int64(MaxAmount))
}

// Amount is a count of credits as people and programs write it: a JSON number, or text on a
// command line, that is an exact integer within ±MaxAmount. 10, 10.0 and 1e1 are the same.
// Strings, null, fractions, NaN and anything beyond the range are refused.
type Amount int64

var numberForm = regexp.MustCompile(`^[+-]?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,4})?$`)

// ParseAmount reads an amount from text.
func ParseAmount(s string) (int64, error) {
	const maxDigits = 400 // refuse before any arithmetic on a hostile number
	if len(s) > maxDigits || !numberForm.MatchString(s) {
		return 0, invalid("amount", "%s is not a whole number of credits, such as 10", quoteShort(s))
	}
	if e := strings.IndexAny(s, "eE"); e >= 0 && len(strings.TrimLeft(s[e+1:], "+-0")) > 3 {
		return 0, invalid("amount", "%s lies beyond ±%d", quoteShort(s), int64(MaxAmount))
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return 0, invalid("amount", "%s is not a number", quoteShort(s))
	}
	if !r.IsInt() {
		return 0, invalid("amount", "%s has a fraction; amounts are whole credits", quoteShort(s))
	}
	if n := r.Num(); !n.IsInt64() || !inBounds(n.Int64()) {
		return 0, invalid("amount", "%s lies beyond ±%d", quoteShort(s), int64(MaxAmount))
	}
	return r.Num().Int64(), nil
}

// UnmarshalJSON implements json.Unmarshaler with the rules of ParseAmount.
func (a *Amount) UnmarshalJSON(raw []byte) error {
	if len(raw) == 0 || raw[0] == '"' || raw[0] == 'n' {
		return invalid("amount", "%s is not a JSON number", quoteShort(string(raw)))
	}
	n, err := ParseAmount(string(raw))
	if err != nil {
		return err
	}
	*a = Amount(n)
	return nil
}

// UnmarshalText lets a flag parser read an Amount. A leading + is allowed.
func (a *Amount) UnmarshalText(text []byte) error {
	n, err := ParseAmount(string(text))
	if err != nil {
		return err
	}
	*a = Amount(n)
	return nil
}

// MarshalJSON implements json.Marshaler.
func (a Amount) MarshalJSON() ([]byte, error) { return json.Marshal(int64(a)) }

// quoteShort quotes what somebody sent without repeating all of it.
func quoteShort(s string) string {
	const most = 40
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
