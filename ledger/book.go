package ledger

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// Names says which rows a set of commands needs. A store locks the accounts (those named
// and those of the jobs named), then the jobs, each sorted, and then loads everything.
type Names struct {
	Accounts    []AccountName
	Jobs        []string // lock and load, with the account
	JobKeys     []TenantKey
	JobRefs     []string // load only
	Grants      []string // ids
	GrantKeys   []TenantKey
	Attempts    []AttemptRef
	Calls       []string // jobs whose calls to vendors are to be loaded, all of them
	Adjustments []string // ids
	AdjustKeys  []TenantKey
	Credited    []string      // jobs whose adjustments are to be summed
	Held        []AccountName // accounts of which the sum that open jobs hold is to be loaded
}

// AttemptRef names an attempt that may be over. A job that waits for its vendor has thousands
// of them, so a command names the one that it is about.
type AttemptRef struct{ JobID, Token string }

// TenantKey is a key, or an id, within a tenant.
type TenantKey struct{ Tenant, Key string }

// Book is the working set of one transaction: the rows that its commands named, loaded
// under lock, and what the commands changed. A store makes one with NewBook, fills it with
// the Load methods, lets the commands decide, and writes Changes.
type Book struct {
	now time.Time

	accounts    map[AccountName]*Account
	accountByID map[string]*Account
	jobs        map[string]*Job
	jobByKey    map[TenantKey]*Job
	attempts    map[string][]Attempt
	calls       map[string][]*Call // by job id
	grants      map[string]*Grant
	grantByKey  map[TenantKey]*Grant
	adjusts     map[string]*Adjustment
	adjustByKey map[TenantKey]*Adjustment
	credited    map[string]int64
	held        map[string]int64 // by account id

	changes Changes
	entropy *ulid.MonotonicEntropy
}

// Changes is what a Book's commands want written, each slice in the order of the decisions.
type Changes struct {
	Accounts    []*Account // new
	Entries     []Entry
	Jobs        []*Job          // new
	Touched     map[string]*Job // open jobs whose OpenState changed, new ones among them
	Ended       []*Job
	Attempts    []Attempt
	Calls       map[string]*Call // by key, new ones among them
	Grants      []*Grant
	Adjustments []*Adjustment
	Renewals    map[string]time.Time // worker id → alive until
}

// Empty reports whether there is nothing to write.
func (c *Changes) Empty() bool {
	return len(c.Accounts)+len(c.Entries)+len(c.Jobs)+len(c.Touched)+len(c.Ended)+
		len(c.Attempts)+len(c.Calls)+len(c.Grants)+len(c.Adjustments)+len(c.Renewals) == 0
}

// NewBook makes an empty Book whose decisions are taken at now.
func NewBook(now time.Time) *Book {
	return &Book{
		now:         now.UTC().Truncate(time.Microsecond),
		accounts:    map[AccountName]*Account{},
		accountByID: map[string]*Account{},
		jobs:        map[string]*Job{},
		jobByKey:    map[TenantKey]*Job{},
		attempts:    map[string][]Attempt{},
		calls:       map[string][]*Call{},
		grants:      map[string]*Grant{},
		grantByKey:  map[TenantKey]*Grant{},
		adjusts:     map[string]*Adjustment{},
		adjustByKey: map[TenantKey]*Adjustment{},
		credited:    map[string]int64{},
		held:        map[string]int64{},
		changes:     Changes{Touched: map[string]*Job{}, Calls: map[string]*Call{}, Renewals: map[string]time.Time{}},
		entropy:     ulid.Monotonic(rand.Reader, 0),
	}
}

// Now is the time of decision, read from the database's clock after the locks were taken.
func (b *Book) Now() time.Time { return b.now }

// Changes is what there is to write after the commands have decided.
func (b *Book) Changes() *Changes { return &b.changes }

// LoadAccount adds an account that exists.
func (b *Book) LoadAccount(a *Account) {
	b.accounts[AccountName{a.Tenant, a.Name}] = a
	b.accountByID[a.ID] = a
}

// LoadJob adds a job that exists. A job loaded twice counts once.
func (b *Book) LoadJob(j *Job) {
	if _, ok := b.jobs[j.ID]; ok {
		return
	}
	b.jobs[j.ID] = j
	if j.Call != nil {
		b.calls[j.ID] = append(b.calls[j.ID], j.Call)
	}
	if j.Key != "" {
		b.jobByKey[TenantKey{j.Tenant, j.Key}] = j
	}
}

// LoadAttempt adds an attempt that is over.
func (b *Book) LoadAttempt(a Attempt) { b.attempts[a.JobID] = append(b.attempts[a.JobID], a) }

// LoadCall adds a call of a job that was loaded before. One that the job brought along counts
// once.
func (b *Book) LoadCall(c *Call) {
	if b.call(c.JobID, c.N) == nil {
		b.calls[c.JobID] = append(b.calls[c.JobID], c)
	}
}

// LoadGrant adds a grant that exists.
func (b *Book) LoadGrant(g *Grant) {
	b.grants[g.ID] = g
	if g.Key != "" {
		b.grantByKey[TenantKey{g.Tenant, g.Key}] = g
	}
}

// LoadAdjustment adds an adjustment that exists.
func (b *Book) LoadAdjustment(a *Adjustment) {
	b.adjusts[a.ID] = a
	if a.Key != "" {
		b.adjustByKey[TenantKey{a.Tenant, a.Key}] = a
	}
}

// LoadCredited adds the sum of the adjustments about a job, in credits.
func (b *Book) LoadCredited(jobID string, sum int64) { b.credited[jobID] = sum }

// LoadHeld adds the sum that an account's open jobs hold, in credits.
func (b *Book) LoadHeld(accountID string, sum int64) { b.held[accountID] = sum }

// bears reports whether a row, as it was loaded, was written by a decision taken at that time.
// A time of decision is read under the locks, so no two decisions on one row share it. A row
// that moved on since bears it no longer: false says nothing.
func (b *Book) bears(at time.Time) bool {
	for _, j := range b.jobs {
		if j.CreatedAt.Equal(at) || (j.End != nil && j.End.EndedAt.Equal(at)) {
			return true
		}
		if o := j.Open; o != nil && (o.QueuedAt.Equal(at) || o.CheckAt.Equal(at) || o.StartedAt.Equal(at) || o.CancelAt.Equal(at)) {
			return true
		}
		for _, past := range b.attempts[j.ID] {
			if past.EndedAt.Equal(at) {
				return true
			}
		}
	}
	for _, calls := range b.calls {
		for _, c := range calls {
			if c.SentAt.Equal(at) || c.HeardAt.Equal(at) || c.EndedAt.Equal(at) {
				return true
			}
		}
	}
	for _, a := range b.accounts {
		if a.LastAt.Equal(at) {
			return true
		}
	}
	return false
}

// checkRoom refuses a movement that would leave the bounds, now or when all that open jobs
// hold comes back: a refund must always fit (I6, I7).
func (b *Book) checkRoom(a *Account, amount int64) error {
	if amount > 0 {
		return checkSum("amount", a.Balance+b.held[a.ID], amount)
	}
	return checkSum("amount", a.Balance, amount)
}

// account finds an account by name, or an ErrNotFound.
func (b *Book) account(n AccountName) (*Account, error) {
	if a := b.accounts[n]; a != nil {
		return a, nil
	}
	return nil, NotFound("account", n.Name)
}

// job finds a job of a tenant ("" for any), or an ErrNotFound.
func (b *Book) job(tenant, id string) (*Job, error) {
	if j := b.jobs[id]; j != nil && (tenant == "" || j.Tenant == tenant) {
		return j, nil
	}
	return nil, NotFound("job", id)
}

// newAccount opens an account.
func (b *Book) newAccount(id string, n AccountName, overdraft int64) *Account {
	a := &Account{ID: id, Tenant: n.Tenant, Name: n.Name, Status: AccountActive, Overdraft: overdraft, CreatedAt: b.now}
	b.LoadAccount(a)
	b.changes.Accounts = append(b.changes.Accounts, a)
	return a
}

// record appends an entry and, for a movement, carries the account's chain on. Commands
// check bounds and floor before; here they are asserted, so that a fault of ours stops the
// transaction and not the books.
func (b *Book) record(a *Account, e Entry) Entry {
	e.AccountID, e.Account = a.ID, a.Name
	e.CreatedAt = b.now
	if least := a.LastAt.Add(time.Microsecond); !a.LastAt.IsZero() && e.CreatedAt.Before(least) {
		e.CreatedAt = least
	}
	if e.Movement() {
		e.Seq = a.Seq + 1
		e.BalanceAfter = a.Balance + e.Delta
		if !inBounds(e.BalanceAfter) || (e.Kind == KindDeduct && e.BalanceAfter < e.Floor) {
			panic(fmt.Sprintf("%s of %d would leave %d in account %s", e.Kind, e.Delta, e.BalanceAfter, a.ID))
		}
		a.Seq, a.Balance = e.Seq, e.BalanceAfter
	}
	a.LastAt = e.CreatedAt
	e.ID = b.newID(e.CreatedAt)
	b.changes.Entries = append(b.changes.Entries, e)
	return e
}

// touch marks an open job as changed.
func (b *Book) touch(j *Job) { b.changes.Touched[j.ID] = j }

// newID mints an id that sorts after all others of this Book at the same time.
func (b *Book) newID(at time.Time) string {
	id, err := ulid.New(ulid.Timestamp(at), b.entropy)
	if err != nil { // 2^80 ids in one millisecond, or no randomness
		panic(err)
	}
	return id.String()
}

// SortedCalls lists the changed calls by their keys.
func (c *Changes) SortedCalls() []*Call {
	list := make([]*Call, 0, len(c.Calls))
	for _, key := range slices.Sorted(maps.Keys(c.Calls)) {
		list = append(list, c.Calls[key])
	}
	return list
}

// SortedTouched lists the changed open jobs by id, the order in which they are locked.
func (c *Changes) SortedTouched() []*Job {
	list := make([]*Job, 0, len(c.Touched))
	for _, j := range c.Touched {
		list = append(list, j)
	}
	slices.SortFunc(list, func(x, y *Job) int { return cmp.Compare(x.ID, y.ID) })
	return list
}
