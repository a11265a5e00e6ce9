package shape_test

import (
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

func TestCreditsHaveDecimalsForPeople(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		n            int64
		scale        int
		want, signed string
	}{
		{150, 0, "150", "+150"}, {150, 2, "1.50", "+1.50"}, {-5, 2, "-0.05", "-0.05"}, {0, 2, "0.00", "0.00"},
		{-150, 1, "-15.0", "-15.0"}, {ledger.MaxAmount, 9, "9007199.254740991", "+9007199.254740991"},
	} {
		require.Equal(t, test.want, shape.Credits(test.n, test.scale))
		require.Equal(t, test.signed, shape.Signed(test.n, test.scale))
	}
}

func TestCursorsComeBack(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	page, err := shape.PageOf(7, *shape.Cursor(at, "01J.x"))
	require.NoError(t, err)
	require.Equal(t, ledger.Page{Limit: 7, AfterAt: at, AfterID: "01J.x"}, page)
	for _, bad := range []string{"x", "!", "MQ", "eC54"} {
		_, err := shape.PageOf(7, bad)
		require.ErrorIs(t, err, ledger.ErrInvalid, bad)
	}
	for _, limit := range []int{-1, 0, shape.MaxPage + 1} {
		_, err := shape.PageOf(limit, "")
		require.ErrorIs(t, err, ledger.ErrInvalid)
	}
}

func TestStatementForASpreadsheetAndForABrowser(t *testing.T) {
	t.Parallel()
	at := shape.Time(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	seq, after := int64(7), int64(-42)
	s := shape.Statement{Account: `"><script>alert(1)</script>`, From: at, To: at, Closing: -42, ByKind: map[string]int64{"deduct": -8, "grant": 50},
		Entries: []shape.Entry{
			{ID: "E1", Kind: ledger.KindTaskStarted, JobID: "J", Reason: "image", Actor: "worker", CreatedAt: at},
			{ID: "E2", Seq: &seq, Kind: ledger.KindDeduct, Delta: -8, BalanceAfter: &after, JobID: "@J", Reason: "-2+3", Actor: "\t=x", CreatedAt: at},
		}}

	var sheet strings.Builder
	require.NoError(t, s.CSV(&sheet))
	rows, err := csv.NewReader(strings.NewReader(sheet.String())).ReadAll()
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"created_at", "id", "seq", "kind", "delta", "balance_after", "job_id", "about_job", "reason", "actor"},
		{"2026-03-01T12:00:00.000Z", "E1", "", "task_started", "0", "", "J", "", "image", "worker"},
		{"2026-03-01T12:00:00.000Z", "E2", "7", "deduct", "-8", "-42", "'@J", "", "'-2+3", "'\t=x"},
	}, rows, "numbers are numbers, text is no formula")

	var page strings.Builder
	require.NoError(t, s.HTML(&page, 2))
	html := page.String()
	require.NotContains(t, html, "<script")
	require.Contains(t, html, "-0.42")
	require.Contains(t, html, "&#43;0.50")
	require.Contains(t, html, `name="viewport"`)
	require.Contains(t, html, "prefers-color-scheme: dark")
	require.Contains(t, html, "@media print")
	require.Less(t, strings.Index(html, "<dt>grant"), strings.Index(html, "<dt>deduct"), "sums in the order of a job's life")
	require.Less(t, strings.Index(html, ">deduct</td>"), strings.Index(html, ">task_started</td>"), "newest first")
}
