package ledger

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0": 0, "-0": 0, "+10": 10, "10": 10, "10.0": 10, "1e1": 10, "1E+1": 10, "100e-1": 10, "0.1e2": 10, "-7": -7, "0e999": 0,
		"9007199254740991": MaxAmount, "-9007199254740991": -MaxAmount, "9007199254740991.000": MaxAmount, "0.9007199254740991e16": MaxAmount,
	} {
		n, err := ParseAmount(text)
		require.NoError(t, err, text)
		require.Equal(t, want, n, text)
	}
	for _, text := range []string{"", " ", "1 ", " 1", "1.5", "-0.6", "1e-1", "NaN", "Infinity", "-Infinity", "inf", "null", `"10"`, "0x10",
		"1_000", "1,000", "01", "1.", ".5", "1e", "--1", "１", "10\n", "1/2", "9007199254740992", "-9007199254740992", "1e16", "1e400", "1e-400",
		"1e999999999", "1e99999", "18446744073709551616", "18446744073709551626", strings.Repeat("9", 500), "0." + strings.Repeat("0", 500), "ten"} {
		_, err := ParseAmount(text)
		require.ErrorIs(t, err, ErrInvalid, "%q", text)
		require.Less(t, len(err.Error()), 300)
	}
}

func TestAmountInJSON(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"null", `"10"`, `""`, "true", "[]", "{}", "1.5", "1e400", "-0.6"} {
		var v struct {
			Amount Amount `json:"amount"`
		}
		require.Error(t, json.Unmarshal([]byte(`{"amount":`+text+`}`), &v), text)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-MaxAmount, MaxAmount).Draw(t, "n")
		raw, err := json.Marshal(Amount(n))
		require.NoError(t, err)
		var back Amount
		require.NoError(t, json.Unmarshal(raw, &back))
		require.Equal(t, Amount(n), back)
		var float float64 // as a reader that knows only doubles sees it
		require.NoError(t, json.Unmarshal(raw, &float))
		require.Equal(t, n, int64(float))
		zeros := strings.Repeat("0", rapid.IntRange(1, 20).Draw(t, "zeros"))
		same, err := ParseAmount(fmt.Sprintf("%d.%s", n, zeros))
		require.NoError(t, err)
		require.Equal(t, n, same)
		if n == 0 {
			return // "00" is not a number of JSON
		}
		same, err = ParseAmount(fmt.Sprintf("%d%se-%d", n, zeros, len(zeros)))
		require.NoError(t, err)
		require.Equal(t, n, same)
	})
}

func TestAnyTextIsAnAmountOrRefused(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[-+]?[0-9]{0,20}(\.[0-9]{0,9})?([eE][-+]?[0-9]{0,6})?`)).Draw(t, "text")
		if n, err := ParseAmount(text); err == nil {
			require.True(t, inBounds(n))
		} else {
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
}
