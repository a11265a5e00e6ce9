package ledger

import (
	"context"
	"errors"
	"time"
)

// Store keeps the ledger. ledger/postgres and ledger/sqlite implement it;
// ledger/ledgertest holds the suite that both pass.
type Store interface {
	// Transact runs one transaction: it locks the accounts and then the jobs that names
	// names, each sorted by id, loads a Book, calls decide once, writes the Book's Changes
	// and commits. When decide returns an error nothing is written and that error is
	// returned as it is. A failure of the store is a *StoreError that says what is known.
	Transact(ctx context.Context, names *Names, decide func(*Book) error) error
	Reader
	Bookkeeping
	Close() error
}

// StoreError says what a failed transaction left behind.
type StoreError struct {
	Fate Fate
	Err  error
}

// Error implements error.
func (e *StoreError) Error() string { return string(e.Fate) + ": " + e.Err.Error() }

// Unwrap returns the driver's error.
func (e *StoreError) Unwrap() error { return e.Err }

// Fate is what is known of a transaction that failed.
type Fate string

// Fates.
const (
	// FateContended: rolled back because another transaction was faster (unique key,
	// deadlock, serialization), and at once. Running it again will do.
	FateContended Fate = "contended"
	// FateUnknown: the connection broke at the commit. Running it again tells (I8).
	FateUnknown Fate = "unknown"
	// FateUnreached: the database was not reached, broke before the commit, or a lock was
	// waited for in vain; nothing was written.
	FateUnreached Fate = "unreached"
	// FateRejected: the database refused the content of some row (a CHECK, a trigger).
	FateRejected Fate = "rejected"
)

// fateOf reads the fate out of an error of Transact; "" when it is not a store's.
func fateOf(err error) Fate {
	if e, ok := errors.AsType[*StoreError](err); ok {
		return e.Fate
	}
	return ""
}

// Page asks for one page of a list, newest first.
type Page struct {
	Limit int // rows; 1–200
	// After is the last row of the page before: its time (entries, accounts, grants) and
	// its id. Zero for the first page.
	AfterAt time.Time
	AfterID string
}

// Reader answers questions. What a tenant asks names the tenant: an account, job or grant that
// this tenant does not have is ErrNotFound, also as the filter of a list. What belongs to a job
// (entries, attempts, calls, credits) is asked by its id alone, after Job has said whose it is;
// of an unknown id there is nothing. A list without rows is empty and not nil. A store that
// cannot be reached is ErrUnavailable.
type Reader interface {
	// Now is the clock that decisions are taken by.
	Now(ctx context.Context) (time.Time, error)
	// InstallationID names this database, for ever.
	InstallationID(ctx context.Context) (string, error)

	Account(ctx context.Context, name AccountName) (Account, error)
	Accounts(ctx context.Context, tenant string, page Page) ([]Account, error)
	// Balance is what an account has now. Held costs the number of its open jobs.
	Balance(ctx context.Context, name AccountName) (Balance, error)
	// BalanceAt is the available balance at a past time, in credits; 0 before the first entry.
	BalanceAt(ctx context.Context, name AccountName, at time.Time) (int64, error)
	// Grants lists an account's grants, oldest first, with Remaining filled in.
	Grants(ctx context.Context, name AccountName) ([]Grant, error)
	Grant(ctx context.Context, tenant, id string) (Grant, error)

	// Entries lists entries by (created_at, id), newest first.
	Entries(ctx context.Context, filter EntryFilter, page Page) ([]Entry, error)
	Job(ctx context.Context, tenant, id string) (Job, error)
	Jobs(ctx context.Context, filter JobFilter, page Page) ([]Job, error)
	// JobEntries lists a job's entries and the adjustments about it, oldest first.
	JobEntries(ctx context.Context, jobID string) ([]Entry, error)
	// Attempts lists the attempts of a job that are over, oldest first.
	Attempts(ctx context.Context, jobID string) ([]Attempt, error)
	// Calls lists a job's calls to vendors, oldest first.
	Calls(ctx context.Context, jobID string) ([]Call, error)
	// CallByRef finds a call by the vendor's name for it, or ErrNotFound.
	CallByRef(ctx context.Context, provider, ref string) (Call, error)
	// VendorEvents lists what a vendor called back with about a reference, oldest first.
	VendorEvents(ctx context.Context, provider, ref string) ([]VendorEvent, error)
	// Credited is the sum of the adjustments about a job, in credits.
	Credited(ctx context.Context, jobID string) (int64, error)

	// Due lists up to limit queued jobs whose CheckAt has come, the longest due first.
	Due(ctx context.Context, limit int) ([]Job, error)
	// OpenJobs lists up to limit open jobs of all tenants by id, from the one after afterID.
	OpenJobs(ctx context.Context, afterID string, limit int) ([]Job, error)
	// Running lists up to limit running jobs of all tenants by id, from the one after afterID.
	Running(ctx context.Context, afterID string, limit int) ([]Job, error)
	// Workers lists all workers with a lease, dead ones too.
	Workers(ctx context.Context) ([]WorkerLease, error)
	Relays(ctx context.Context) ([]RelayStatus, error)
	// Gauges measures the open jobs, the leases and the newest sweep. Its cost is that of the
	// open jobs, not of the history.
	Gauges(ctx context.Context) (Gauges, error)
}

// EntryFilter narrows Entries. The account is required; the rest is optional.
type EntryFilter struct {
	Account  AccountName
	From, To time.Time // From ≤ created_at < To
	JobID    string    // entries of the job and adjustments about it
}

// JobFilter narrows Jobs. The tenant is required; the rest is optional.
type JobFilter struct {
	Tenant, Account, Type string
	State                 State
	Since                 time.Time
}

// Bookkeeping is what the machinery writes outside the books: leases, progress, reports. No
// credit depends on it.
type Bookkeeping interface {
	// RenewWorker renews a worker's lease for ttl and lists its jobs that somebody asked
	// to cancel.
	RenewWorker(ctx context.Context, w WorkerLease, ttl time.Duration) (cancelled []string, err error)
	// RemoveWorker gives a lease back; the worker counts as dead at once.
	RemoveWorker(ctx context.Context, id string) error
	// SaveProgress keeps the newest report of an attempt; one that is no longer the job's
	// current attempt changes nothing.
	SaveProgress(ctx context.Context, jobID, token string, percent int, text string) error
	// SaveVendorEvent keeps a callback; the same id again changes nothing.
	SaveVendorEvent(ctx context.Context, e VendorEvent) error
	// ForgetVendorEvents drops the callbacks received before.
	ForgetVendorEvents(ctx context.Context, before time.Time) error
	ReportRelay(ctx context.Context, s RelayStatus) error
	RemoveRelay(ctx context.Context, id string) error
	SaveSweep(ctx context.Context, s SweepReport) error
	// ForgetSweeps drops up to most reports of sweeps that began before, ended no job and met
	// no error, the oldest first. The others are kept for ever.
	ForgetSweeps(ctx context.Context, before time.Time, most int) error
}

// WorkerLease is one worker process that may run jobs.
type WorkerLease struct {
	ID                    string
	Host                  string
	PID                   int
	RenewedAt, AliveUntil time.Time
}

// VendorEvent is one callback of a vendor, as it was received.
type VendorEvent struct {
	Provider   string
	ID         string // the vendor's name for the event: it counts once
	Ref        string // the call it is about
	News       []byte // JSON, as the provider reads it
	ReceivedAt time.Time
}

// RelayStatus is what a relay knows of the queue.
type RelayStatus struct {
	ID          string
	StartedAt   time.Time
	RoundAt     time.Time // its last round; RoundAt and StartedAt are set by ReportRelay
	OutageSince time.Time // when Redis was last reached, while it is not; zero while it is
}

// Gauges is the state of all tenants' work at one moment.
type Gauges struct {
	At      time.Time // the moment, by the clock that decisions are taken by
	Queued  int       // open jobs, by state
	Running int
	Held    int64 // credits that the open jobs have taken
	// AtVendor counts the open jobs that have a call without a verdict, and VendorUnknown
	// those of them of which nobody knows whether the vendor has them.
	AtVendor, VendorUnknown int
	OldestOpen              time.Time   // when the oldest open job was opened; zero for none
	OldestDue               time.Time   // since when the longest due job waits for the relay; zero for none
	WorkersAlive            int         // leases that hold
	WorkersDead             int         // leases that lapsed and are kept for people to see
	LastSweep               SweepReport // without its decisions; its ID is "" when there was none
}

// SweepReport is one row of the sweeps table.
type SweepReport struct {
	ID                                string
	StartedAt, EndedAt                time.Time
	Seen, Refunded, Remaining, Errors int
	Decisions                         []byte // JSON
}
