package shape

import (
	_ "embed"
	"encoding/csv"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Statement is what happened to an account over a time: from ≤ created_at < to.
type Statement struct {
	Account    string           `json:"account"`
	From       Time             `json:"from"`
	To         Time             `json:"to"`
	Opening    int64            `json:"opening"` // credits before the first moment
	Closing    int64            `json:"closing"` // credits after the last
	ByKind     map[string]int64 `json:"by_kind"` // credits moved, by kind of entry
	Entries    []Entry          `json:"entries"` // oldest first
	NextCursor *string          `json:"next_cursor"`
}

// CSV writes the entries for a spreadsheet: amounts in credits, whole, and text that none
// takes for a formula.
func (s Statement) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"created_at", "id", "seq", "kind", "delta", "balance_after", "job_id", "about_job", "reason", "actor"}}
	for _, e := range s.Entries {
		seq, after := "", ""
		if e.Seq != nil {
			seq, after = strconv.FormatInt(*e.Seq, 10), strconv.FormatInt(*e.BalanceAfter, 10)
		}
		rows = append(rows, []string{e.CreatedAt.String(), e.ID, seq, string(e.Kind), strconv.FormatInt(e.Delta, 10), after,
			plain(e.JobID), string(e.AboutJob), plain(e.Reason), plain(e.Actor)})
	}
	return out.WriteAll(rows)
}

// plain keeps a spreadsheet from taking text for a formula.
func plain(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

//go:embed statement.html
var page string

var statementPage = template.Must(template.New("statement").Parse(page))

// HTML writes a page of its own, which needs nothing from elsewhere: for a phone, a screen,
// light or dark, and paper. Amounts have scale decimals.
func (s Statement) HTML(w io.Writer, scale int) error {
	type line struct{ Time, Kind, Amount, Balance, Job, Reason string }
	type sum struct{ Kind, Amount string }
	view := struct {
		Account, From, To, Opening, Closing string
		Sums                                []sum
		Lines                               []line
	}{Account: s.Account, From: Clock(time.Time(s.From)), To: Clock(time.Time(s.To)),
		Opening: Credits(s.Opening, scale), Closing: Credits(s.Closing, scale)}
	for _, kind := range ledger.Kinds { // in the order of a job's life
		if n, ok := s.ByKind[string(kind)]; ok {
			view.Sums = append(view.Sums, sum{string(kind), Signed(n, scale)})
		}
	}
	for _, e := range slices.Backward(s.Entries) {
		l := line{Time: Clock(time.Time(e.CreatedAt)), Kind: string(e.Kind), Job: e.JobID, Reason: e.Reason}
		if e.BalanceAfter != nil {
			l.Amount, l.Balance = Signed(e.Delta, scale), Credits(*e.BalanceAfter, scale)
		}
		view.Lines = append(view.Lines, l)
	}
	return statementPage.Execute(w, view)
}
