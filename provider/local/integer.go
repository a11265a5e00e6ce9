package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxExact is 2^53−1: up to it every integer is exact in a JSON number.
const maxExact = 1<<53 - 1

// integer reads a JSON number that is an exact integer, however it is written:
// 10, 10.0 and 1e1 are the same. No float is involved.
func integer(v json.RawMessage) (int64, error) {
	text := string(v)
	if text == "" || (text[0] != '-' && (text[0] < '0' || text[0] > '9')) {
		return 0, fmt.Errorf("%s is no number; send an integer", kind(v))
	}
	digits, negative := strings.CutPrefix(text, "-")
	digits, exponent, _ := strings.Cut(strings.ToLower(digits), "e")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return 0, nil
	}
	significant := strings.TrimRight(digits, "0")
	scale, err := exponentOf(exponent)
	if err != nil {
		return 0, err
	}
	zeros := scale - len(fraction) + len(digits) - len(significant)
	if zeros < 0 {
		return 0, fmt.Errorf("%s is not a whole number; send an integer", shortened(text))
	}
	if len(significant)+zeros > 16 {
		return 0, errRange
	}
	n, err := strconv.ParseInt(significant+strings.Repeat("0", zeros), 10, 64)
	if err != nil || n > maxExact {
		return 0, errRange
	}
	if negative {
		n = -n
	}
	return n, nil
}

var errRange = errors.New("out of range; send an integer within ±9007199254740991")

func exponentOf(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err == nil {
		return int(n), nil
	}
	if text[0] == '-' {
		return 0, errors.New("not a whole number; send an integer")
	}
	return 0, errRange
}
