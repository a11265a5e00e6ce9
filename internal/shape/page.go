package shape

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/makegood/makegood/ledger"
)

// MaxPage is the most rows that one page of a list has.
const MaxPage = 200

// Cursor names a row, opaquely: the next page begins behind it.
func Cursor(at time.Time, id string) *string {
	s := base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(at.UnixMicro(), 10) + "." + id))
	return &s
}

// PageOf reads the bounds of a page: 1 to MaxPage rows, behind the row that cursor names, or
// from the first when it is "". Errors are ledger.ErrInvalid.
func PageOf(limit int, cursor string) (ledger.Page, error) {
	if limit < 1 || limit > MaxPage {
		return ledger.Page{}, ledger.Invalid("limit", "choose 1 to "+strconv.Itoa(MaxPage)+" rows")
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
