package ledger

import "time"

// AccountName is how a tenant names one of its accounts.
type AccountName struct{ Tenant, Name string }

func (n AccountName) check() error {
	if err := checkName("tenant", n.Tenant); err != nil {
		return err
	}
	return checkName("account", n.Name)
}

// Account holds credits. Its balance is the BalanceAfter of its newest movement.
type Account struct {
	ID     string // ours; entries refer to it, so that a name can be erased
	Tenant string
	Name   string
	Status string // "active" or "closed"
	// Overdraft is how far below zero a deduct may take the balance, in credits.
	Overdraft int64
	CreatedAt time.Time

	Seq     int64     // of the newest movement; 0 for none
	Balance int64     // credits after it
	LastAt  time.Time // when its newest entry was written, movement or marker; zero for none
}

// Account states.
const (
	AccountActive = "active"
	AccountClosed = "closed"
)

// Balance is what an account has, in credits.
type Balance struct {
	Available int64 // the newest balance: what open jobs hold is already out of it
	Held      int64 // taken for open jobs
}

// Grant is credits given to an account.
type Grant struct {
	ID          string
	Key         string // the caller's; "" for none
	Tenant      string
	AccountID   string
	Account     string // name
	Amount      int64  // credits, > 0
	Source      string // purchase, plan, promotion, goodwill, signup
	Priority    int    // lower is spent first
	Reason      string
	Actor       string
	CreatedAt   time.Time
	Fingerprint []byte
	// Remaining is what is left of it, in credits, when older grants are spent first. Reads
	// fill it in; it is derived from the balance and stored nowhere.
	Remaining int64
}

// Adjustment is an operator's correction of a balance.
type Adjustment struct {
	ID          string
	Key         string
	Tenant      string
	AccountID   string
	Account     string // name
	Amount      int64  // credits, ≠ 0
	AboutJob    string // "" for none
	Reason      string
	Actor       string
	CreatedAt   time.Time
	Fingerprint []byte
}

// spendOldestFirst fills in Remaining of an account's grants, oldest first, given its
// balance plus what open jobs hold: whatever was spent came out of the oldest grants.
func spendOldestFirst(grants []Grant, left int64) {
	for i := len(grants) - 1; i >= 0; i-- {
		grants[i].Remaining = min(grants[i].Amount, max(left, 0))
		left -= grants[i].Remaining
	}
}

// FillRemaining derives Remaining for all grants of one account, given oldest first.
// balance is the account's newest balance, in credits.
func FillRemaining(grants []Grant, balance int64) { spendOldestFirst(grants, balance) }
