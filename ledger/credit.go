package ledger

import (
	"bytes"
)

// CreateAccount opens an account without credits.
type CreateAccount struct {
	AccountName
	Overdraft int64 // how far below zero a deduct may go, in credits

	id string // minted by check, so that a second run knows its own account (I8)
}

// AccountCreated answers CreateAccount.
type AccountCreated struct {
	Account  Account
	Replayed bool // it existed, with the same overdraft
}

func (c *CreateAccount) check() error {
	c.id = NewID()
	return firstError(c.AccountName.check(), checkAmount("overdraft", c.Overdraft, 0))
}
func (c *CreateAccount) names(n *Names)     { n.Accounts = append(n.Accounts, c.AccountName) }
func (c *CreateAccount) lockKeys() []string { return []string{accountLock(c.AccountName)} }

func (c *CreateAccount) decide(b *Book) (any, error) {
	if a := b.accounts[c.AccountName]; a != nil {
		if a.Overdraft != c.Overdraft {
			return nil, refuse(CodeConflict, "account %s exists with an overdraft of %d", quoteShort(c.Name), a.Overdraft)
		}
		return AccountCreated{Account: *a, Replayed: a.ID != c.id}, nil
	}
	return AccountCreated{Account: *b.newAccount(c.id, c.AccountName, c.Overdraft)}, nil
}

// GrantCredits gives credits; an unknown account is opened in the same commit.
type GrantCredits struct {
	AccountName
	ID     string // minted when ""
	Key    string // "" for none; unique per tenant for ever
	Amount int64  // credits, > 0
	Reason string
	Source string // purchase, plan, promotion, goodwill or signup; "" means goodwill
	Actor  string // "" means ActorClient
}

// Granted answers GrantCredits.
type Granted struct {
	Grant    Grant
	Balance  int64 // available after it, or now for a replay, in credits
	Replayed bool
}

// Sources of a grant.
var grantSources = map[string]bool{"purchase": true, "plan": true, "promotion": true, "goodwill": true, "signup": true}

// DefaultPriority is a grant's place in the order of spending; lower is spent first.
const DefaultPriority = 100

func (c *GrantCredits) check() error {
	if c.ID == "" {
		c.ID = NewID()
	}
	if c.Source == "" {
		c.Source = "goodwill"
	}
	if c.Actor == "" {
		c.Actor = ActorClient
	}
	if !grantSources[c.Source] {
		return invalid("source", "%s is none of purchase, plan, promotion, goodwill, signup", quoteShort(c.Source))
	}
	return firstError(c.AccountName.check(), checkID("id", c.ID), checkKey(c.Key), checkAmount("amount", c.Amount, 1),
		checkText("reason", c.Reason), checkName("actor", c.Actor))
}

func (c *GrantCredits) names(n *Names) {
	n.Accounts = append(n.Accounts, c.AccountName)
	n.Held = append(n.Held, c.AccountName)
	n.Grants = append(n.Grants, c.ID)
	if c.Key != "" {
		n.GrantKeys = append(n.GrantKeys, TenantKey{c.Tenant, c.Key})
	}
}
func (c *GrantCredits) lockKeys() []string { return []string{accountLock(c.AccountName)} }

func (c *GrantCredits) decide(b *Book) (any, error) {
	meant := fingerprint("grant", c.Name, c.Amount, c.Reason, c.Source)
	g := b.grants[c.ID]
	if c.Key != "" {
		if keyed := b.grantByKey[TenantKey{c.Tenant, c.Key}]; keyed != nil {
			g = keyed
		}
	}
	if g != nil {
		if err := sameContent(g.Tenant == c.Tenant && g.Key == c.Key, g.Fingerprint, meant); err != nil {
			return nil, err
		}
		return Granted{Grant: *g, Balance: b.accountByID[g.AccountID].Balance, Replayed: g.ID != c.ID}, nil
	}
	a := b.accounts[c.AccountName]
	if a != nil {
		if err := b.checkRoom(a, c.Amount); err != nil {
			return nil, err
		}
		if a.Status != AccountActive {
			return nil, ErrClosed
		}
	} else {
		a = b.newAccount(b.newID(b.now), c.AccountName, 0)
	}
	e := b.record(a, Entry{Kind: KindGrant, Delta: c.Amount, JobID: c.ID, Reason: c.Source, Actor: ActorClient})
	g = &Grant{ID: c.ID, Key: c.Key, Tenant: c.Tenant, AccountID: a.ID, Account: a.Name, Amount: c.Amount, Source: c.Source,
		Priority: DefaultPriority, Reason: c.Reason, Actor: c.Actor, CreatedAt: e.CreatedAt, Fingerprint: meant}
	b.LoadGrant(g)
	b.changes.Grants = append(b.changes.Grants, g)
	return Granted{Grant: *g, Balance: a.Balance}, nil
}

// sameContent judges a key or id that was used before.
func sameContent(sameName bool, earlier, now []byte) error {
	if !sameName {
		return refuse(CodeConflict, "the id exists already as something else")
	}
	if !bytes.Equal(earlier, now) {
		return &Error{Code: CodeKeyReused, Field: "key", Detail: "was used before with other content; use a new key"}
	}
	return nil
}

// AdjustCredits corrects a balance by hand, up or down. It may leave a debt: an operator who
// books one means it. About a job it may give back no more than the job was charged.
type AdjustCredits struct {
	AccountName
	ID       string // minted when ""
	Key      string // "" for none; unique per tenant for ever
	Amount   int64  // credits, ≠ 0
	AboutJob string // "" for none
	Reason   string
	Actor    string // required: who answers for it
}

// Adjusted answers AdjustCredits.
type Adjusted struct {
	Adjustment Adjustment
	Balance    int64 // available after it, or now for a replay, in credits
	Replayed   bool
}

func (c *AdjustCredits) check() error {
	if c.ID == "" {
		c.ID = NewID()
	}
	if c.Amount == 0 {
		return invalid("amount", "is 0; an adjustment moves something")
	}
	if c.AboutJob != "" {
		if err := checkID("about_job", c.AboutJob); err != nil {
			return err
		}
	}
	return firstError(c.AccountName.check(), checkID("id", c.ID), checkKey(c.Key), checkAmount("amount", c.Amount, -MaxAmount),
		checkText("reason", c.Reason), checkName("actor", c.Actor))
}

func (c *AdjustCredits) names(n *Names) {
	n.Accounts = append(n.Accounts, c.AccountName)
	n.Held = append(n.Held, c.AccountName)
	n.Adjustments = append(n.Adjustments, c.ID)
	if c.Key != "" {
		n.AdjustKeys = append(n.AdjustKeys, TenantKey{c.Tenant, c.Key})
	}
	if c.AboutJob != "" {
		n.Jobs = append(n.Jobs, c.AboutJob)
		n.Credited = append(n.Credited, c.AboutJob)
	}
}
func (c *AdjustCredits) lockKeys() []string { return []string{accountLock(c.AccountName)} }

func (c *AdjustCredits) decide(b *Book) (any, error) {
	meant := fingerprint("adjust", c.Name, c.Amount, c.AboutJob, c.Reason)
	earlier := b.adjusts[c.ID]
	if c.Key != "" {
		if keyed := b.adjustByKey[TenantKey{c.Tenant, c.Key}]; keyed != nil {
			earlier = keyed
		}
	}
	if earlier != nil {
		if err := sameContent(earlier.Tenant == c.Tenant && earlier.Key == c.Key, earlier.Fingerprint, meant); err != nil {
			return nil, err
		}
		return Adjusted{Adjustment: *earlier, Balance: b.accountByID[earlier.AccountID].Balance, Replayed: earlier.ID != c.ID}, nil
	}
	a, err := b.account(c.AccountName)
	if err != nil {
		return nil, err
	}
	if err := b.checkRoom(a, c.Amount); err != nil {
		return nil, err
	}
	if c.AboutJob != "" {
		if err := c.checkJob(b, a); err != nil {
			return nil, err
		}
		b.credited[c.AboutJob] += c.Amount
	}
	e := b.record(a, Entry{Kind: KindAdjust, Delta: c.Amount, JobID: c.ID, AboutJob: c.AboutJob, Reason: "adjust", Actor: ActorClient})
	adj := &Adjustment{ID: c.ID, Key: c.Key, Tenant: c.Tenant, AccountID: a.ID, Account: a.Name, Amount: c.Amount,
		AboutJob: c.AboutJob, Reason: c.Reason, Actor: c.Actor, CreatedAt: e.CreatedAt, Fingerprint: meant}
	b.LoadAdjustment(adj)
	b.changes.Adjustments = append(b.changes.Adjustments, adj)
	return Adjusted{Adjustment: *adj, Balance: a.Balance}, nil
}

// checkJob keeps what is returned for a job within what was taken for it (I6).
func (c *AdjustCredits) checkJob(b *Book, a *Account) error {
	j := b.jobs[c.AboutJob]
	if j == nil || j.AccountID != a.ID {
		return NotFound("job", c.AboutJob)
	}
	if j.End == nil {
		return refuse(CodeConflict, "job %s has not ended; cancel it instead", j.ID)
	}
	if left := j.End.Charged - b.credited[j.ID]; c.Amount > left {
		return invalid("amount", "%d is more than the %d credits that job %s still stands charged with", c.Amount, max(left, 0), j.ID)
	}
	return nil
}
