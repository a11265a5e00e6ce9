// Package shape holds the JSON that people script against: what `--json` prints is what the
// HTTP API answers. Times are RFC 3339 in UTC with milliseconds; what is not set is null.
package shape

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/makegood/makegood/ledger"
)

// Time is a moment, null when zero.
type Time time.Time

// MarshalJSON implements json.Marshaler.
func (t Time) MarshalJSON() ([]byte, error) {
	if time.Time(t).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.String())
}

// String is how the moment is written in JSON and CSV; "" when zero.
func (t Time) String() string {
	if time.Time(t).IsZero() {
		return ""
	}
	return time.Time(t).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Text is a string, null when empty.
type Text string

// MarshalJSON implements json.Marshaler.
func (s Text) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

// Balance is what an account has, in credits.
type Balance struct {
	Available int64 `json:"available"`
	Held      int64 `json:"held"`
}

// BalanceOf shapes a balance.
func BalanceOf(b ledger.Balance) Balance { return Balance{b.Available, b.Held} }

// Entry is one row of the ledger.
type Entry struct {
	ID           string          `json:"id"`
	Account      string          `json:"account"`
	Seq          *int64          `json:"seq"`
	Kind         ledger.Kind     `json:"kind"`
	Delta        int64           `json:"delta"`
	BalanceAfter *int64          `json:"balance_after"`
	JobID        string          `json:"job_id"`
	AboutJob     Text            `json:"about_job"`
	Reason       string          `json:"reason"`
	Actor        string          `json:"actor"`
	Evidence     json.RawMessage `json:"evidence"`
	CreatedAt    Time            `json:"created_at"`
}

// EntryOf shapes an entry.
func EntryOf(e ledger.Entry) Entry {
	s := Entry{ID: e.ID, Account: e.Account, Kind: e.Kind, Delta: e.Delta, JobID: e.JobID, AboutJob: Text(e.AboutJob),
		Reason: e.Reason, Actor: e.Actor, Evidence: e.Evidence, CreatedAt: Time(e.CreatedAt)}
	if e.Movement() {
		s.Seq, s.BalanceAfter = &e.Seq, &e.BalanceAfter
	}
	return s
}

// Entries shapes a list; never null.
func Entries(list []ledger.Entry) []Entry { return each(list, EntryOf) }

// Account is an account with its balance.
type Account struct {
	Account   string   `json:"account"`
	Tenant    string   `json:"tenant"`
	Status    string   `json:"status"`
	Balance   Balance  `json:"balance"`
	Overdraft int64    `json:"overdraft_limit"`
	Grants    []Grant  `json:"grants"`
	Limits    []string `json:"limits"`
	OpenJobs  int      `json:"open_jobs"`
	CreatedAt Time     `json:"created_at"`
}

// Grant is credits given.
type Grant struct {
	ID          string  `json:"id"`
	Key         Text    `json:"key"`
	Account     string  `json:"account"`
	Amount      int64   `json:"amount"`
	Remaining   int64   `json:"remaining"`
	Source      string  `json:"source"`
	Priority    int     `json:"priority"`
	EffectiveAt Time    `json:"effective_at"`
	ExpiresAt   Time    `json:"expires_at"`
	PricePaid   *int64  `json:"price_paid"`
	Reason      string  `json:"reason"`
	Actor       string  `json:"actor"`
	Balance     Balance `json:"balance"`
	CreatedAt   Time    `json:"created_at"`
}

// GrantOf shapes a grant beside its account's balance.
func GrantOf(g ledger.Grant, b ledger.Balance) Grant {
	return Grant{ID: g.ID, Key: Text(g.Key), Account: g.Account, Amount: g.Amount, Remaining: g.Remaining, Source: g.Source,
		Priority: g.Priority, EffectiveAt: Time(g.CreatedAt), Reason: g.Reason, Actor: g.Actor, Balance: BalanceOf(b),
		CreatedAt: Time(g.CreatedAt)}
}

// Adjustment is an operator's correction.
type Adjustment struct {
	ID        string  `json:"id"`
	Key       Text    `json:"key"`
	Account   string  `json:"account"`
	Amount    int64   `json:"amount"`
	AboutJob  Text    `json:"about_job"`
	Reason    string  `json:"reason"`
	Actor     string  `json:"actor"`
	Balance   Balance `json:"balance"`
	CreatedAt Time    `json:"created_at"`
}

// AdjustmentOf shapes an adjustment beside its account's balance.
func AdjustmentOf(a ledger.Adjustment, b ledger.Balance) Adjustment {
	return Adjustment{ID: a.ID, Key: Text(a.Key), Account: a.Account, Amount: a.Amount, AboutJob: Text(a.AboutJob), Reason: a.Reason,
		Actor: a.Actor, Balance: BalanceOf(b), CreatedAt: Time(a.CreatedAt)}
}

// AccountOf shapes an account.
func AccountOf(a ledger.Account, b ledger.Balance, grants []ledger.Grant, openJobs int) Account {
	return Account{Account: a.Name, Tenant: a.Tenant, Status: a.Status, Balance: BalanceOf(b), Overdraft: a.Overdraft,
		Grants: each(grants, func(g ledger.Grant) Grant { return GrantOf(g, b) }), Limits: []string{}, OpenJobs: openJobs,
		CreatedAt: Time(a.CreatedAt)}
}

// List is one page of a list.
type List[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"next_cursor"`
}

// Problem is an error as RFC 9457 has it.
type Problem struct {
	Type      string   `json:"type"`
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Code      string   `json:"code"`
	Detail    string   `json:"detail"`
	Required  *int64   `json:"required"`
	Available *int64   `json:"available"`
	Limit     *string  `json:"limit"`
	RequestID *string  `json:"request_id"`
	Errors    []string `json:"errors"`
}

// statusOf says the HTTP status and the title of each code.
var statusOf = map[ledger.Code]struct {
	status int
	title  string
}{
	ledger.CodeInvalid:       {400, "Invalid request"},
	ledger.CodeInsufficient:  {402, "Insufficient credits"},
	ledger.CodeAccountClosed: {403, "Forbidden"},
	ledger.CodeNotFound:      {404, "Not found"},
	ledger.CodeSettled:       {409, "Already settled"},
	ledger.CodeConflict:      {409, "Conflict"},
	ledger.CodeFenced:        {409, "Fenced"},
	ledger.CodeKeyReused:     {422, "Idempotency key reused"},
	ledger.CodeUnavailable:   {503, "Ledger unavailable"},
	ledger.CodeInternal:      {500, "Internal error"},
}

// ProblemOf shapes an error. What the ledger did not refuse itself is internal, and its text
// stays in the log.
func ProblemOf(err error) Problem {
	e, ok := errors.AsType[*ledger.Error](err)
	if !ok {
		e = &ledger.Error{Code: ledger.CodeInternal, Detail: err.Error()}
	}
	as := statusOf[e.Code]
	p := Problem{Type: "about:blank", Title: as.title, Status: as.status, Code: string(e.Code), Detail: e.Error(), Errors: []string{}}
	if e.Code == ledger.CodeInsufficient {
		p.Required, p.Available = &e.Required, &e.Available
	}
	if e.Field != "" {
		p.Errors = append(p.Errors, e.Error())
	}
	return p
}

func each[T, S any](list []T, shape func(T) S) []S {
	shaped := make([]S, 0, len(list))
	for _, item := range list {
		shaped = append(shaped, shape(item))
	}
	return shaped
}
