package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

// printJSON prints one document.
func printJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fmt.Fprintln(os.Stderr, "makegood:", err)
	}
}

// table prints rows under a head, in columns.
func table(w io.Writer, head []string, rows [][]string) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(head, "\t")))
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush()
}

// credits shows an amount with CREDIT_SCALE decimals.
func (c *cli) credits(n int64) string {
	if c.CreditScale == 0 {
		return strconv.FormatInt(n, 10)
	}
	sign, unit := "", int64(1)
	if n < 0 {
		sign, n = "-", -n
	}
	for range c.CreditScale {
		unit *= 10
	}
	return fmt.Sprintf("%s%d.%0*d", sign, n/unit, c.CreditScale, n%unit)
}

// cursorOf names a row, opaquely, for the next page.
func cursorOf(at time.Time, id string) *string {
	s := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + "." + id))
	return &s
}

// pageOf reads a page's bounds from flags.
func pageOf(limit int, cursor string) (ledger.Page, error) {
	if limit < 1 || limit > 200 {
		return ledger.Page{}, ledger.Invalid("limit", "choose 1 to 200 rows")
	}
	page := ledger.Page{Limit: limit}
	if cursor == "" {
		return page, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	at, id, ok := strings.Cut(string(raw), ".")
	micros, numErr := strconv.ParseInt(at, 10, 64)
	if err != nil || !ok || numErr != nil || id == "" {
		return page, ledger.Invalid("cursor", "is not a next_cursor of ours")
	}
	page.AfterAt, page.AfterID = time.UnixMicro(micros).UTC(), id
	return page, nil
}

// printJob shows one job to a person.
func (c *cli) printJob(s shape.Job) {
	fmt.Printf("%s  %s  %s", s.ID, s.Account, s.State)
	if s.EndReason != "" {
		fmt.Printf(" (%s)", string(s.EndReason))
	}
	fmt.Printf("  held %s, charged %s, refunded %s\n", c.credits(s.Cost.Held), c.credits(s.Cost.Charged), c.credits(s.Cost.Refunded))
	if s.Error != nil {
		fmt.Println("  error:", s.Error.Message)
	}
	if s.Result != nil {
		for _, a := range s.Result.Artifacts {
			fmt.Println(" ", a.URL)
		}
	}
}
