package ledger

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", strings.Repeat("x", 255), strings.Repeat("é", 255), strings.Repeat("🦊", 255), "caf\u00e9", "cafe\u0301",
		"a/b", "%2F", "a b", "'", `"`, "a\u200bb", "..", "-", "NULL"} {
		require.NoError(t, checkName("account", name), "%q", name)
	}
	for _, name := range []string{"", strings.Repeat("x", 256), strings.Repeat("é", 256), strings.Repeat("x", 10_000), "a\x00b", "a ", " a", "\ta",
		"a\n", "a\u00a0", "\u3000a", "\u2028", "\xff", "a\xc3", "a\x7fb", "a\u0085b", "a\u009fb"} {
		require.ErrorIs(t, checkName("account", name), ErrInvalid, "%q", name)
	}
	require.NoError(t, checkKey(""))
	require.ErrorIs(t, checkKey(" "), ErrInvalid)
}

func TestIDs(t *testing.T) {
	t.Parallel()
	id := NewID()
	require.NoError(t, checkID("job_id", id))
	for _, bad := range []string{"", strings.ToLower(id), id[:25], id + "0", "8" + id[1:], strings.Replace(id, id[:1], "U", 1), "00000000-0000-0000-0000-00"} {
		require.ErrorIs(t, checkID("job_id", bad), ErrInvalid, bad)
	}
}

func TestJSONOfAJob(t *testing.T) {
	t.Parallel()
	check := func(input, metadata string) error {
		c := OpenJob{AccountName: ada, Type: "image", Input: json.RawMessage(input), Metadata: json.RawMessage(metadata)}
		return c.check()
	}
	pad := func(n int) string { return `{"p":"` + strings.Repeat("x", n-8) + `"}` }
	require.NoError(t, check(pad(MaxInputLen), pad(MaxMetadataLen)))
	require.NoError(t, check("", ""))
	require.NoError(t, check("[1]", " {}"))
	for _, bad := range [][2]string{{pad(MaxInputLen + 1), ""}, {"", pad(MaxMetadataLen + 1)}, {"{", ""}, {"\"\xff\"", ""}, {"{} {}", ""}, {"", "[]"}, {"", "null"}, {" ", ""}} {
		require.ErrorIs(t, check(bad[0], bad[1]), ErrInvalid, "%.20q", bad)
	}
	for _, kind := range []string{"", "Image", "1a", "a b", strings.Repeat("a", 65), "é"} {
		c := OpenJob{AccountName: ada, Type: kind}
		require.ErrorIs(t, c.check(), ErrInvalid, kind)
	}
}
