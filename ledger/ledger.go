package ledger

import (
	"context"
	"log/slog"
	"time"
)

// Ledger runs commands on a store, many in one commit. It is safe for concurrent use.
//
// Reads go to the Store, which Ledger embeds as a Reader.
type Ledger struct {
	Reader
	Bookkeeping
	do     func(context.Context, Command) (any, error)
	load   func() Load
	close  func()
	answer func(Answer)
}

// Options of New. The zero value is ready for use.
type Options struct {
	// Lanes is how many transactions may be in flight at once; 0 means 4. SQLite has one
	// writer, so 1 is best there.
	Lanes int
	// BatchSize is how many commands share one commit at most; 0 means 256.
	BatchSize int
	// GiveUp is how long an outage of the database is waited out before callers get
	// ErrUnavailable; 0 means 1.5 s.
	GiveUp time.Duration
	Logger *slog.Logger // nil means slog.Default()
	// Observe is told what is done; the zero value tells nobody.
	Observe Observer
}

// New puts group commit in front of a store. Close stops it; the store stays the caller's to
// close.
func New(store Store, o Options) *Ledger {
	if o.Lanes == 0 {
		o.Lanes = 4
	}
	if o.BatchSize == 0 {
		o.BatchSize = 256
	}
	if o.GiveUp == 0 {
		o.GiveUp = 1500 * time.Millisecond
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	g := newGroup(store, o)
	return &Ledger{Reader: store, Bookkeeping: store, do: g.do, load: g.load, close: g.close, answer: o.Observe.answer}
}

// Direct runs each command in a transaction of its own, without lanes: for a store that is
// bound to a transaction of the caller's (postgres.WithTx).
func Direct(store Store) *Ledger {
	do := func(ctx context.Context, cmd Command) (any, error) {
		var value any
		var refusal error
		err := store.Transact(ctx, namesOf(cmd), func(b *Book) error {
			value, refusal = cmd.decide(b)
			return nil
		})
		switch {
		case fateOf(err) == FateRejected:
			return nil, &Error{Code: CodeInternal, Detail: ErrInternal.Detail, cause: err}
		case err != nil:
			return nil, Unavailable(err)
		}
		return value, refusal
	}
	return &Ledger{Reader: store, Bookkeeping: store, do: do, load: func() Load { return Load{} }, close: func() {}, answer: func(Answer) {}}
}

func namesOf(cmd Command) *Names {
	var n Names
	cmd.names(&n)
	return &n
}

// Close waits for the commands under way and stops the lanes.
func (l *Ledger) Close() { l.close() }

// Load is how much work there is at the moment; of a Ledger without lanes it is zero.
func (l *Ledger) Load() Load { return l.load() }

// run checks a command before it takes a place in a batch, and gives its answer its type.
func run[A any](ctx context.Context, l *Ledger, cmd Command) (A, error) {
	var none A
	if err := cmd.check(); err != nil {
		l.answer(Answer{Command: cmd, Err: err})
		return none, err
	}
	value, err := l.do(ctx, cmd)
	if err != nil {
		return none, err
	}
	return value.(A), nil //nolint:forcetypeassert,errcheck // each command has one type of answer
}

// CreateAccount opens an account; the same again is a replay.
func (l *Ledger) CreateAccount(ctx context.Context, c CreateAccount) (AccountCreated, error) {
	return run[AccountCreated](ctx, l, &c)
}

// Grant gives credits. Errors: ErrInvalid, ErrKeyReused, ErrClosed, ErrUnavailable.
func (l *Ledger) Grant(ctx context.Context, c GrantCredits) (Granted, error) {
	return run[Granted](ctx, l, &c)
}

// Adjust corrects a balance by hand. Errors: ErrInvalid, ErrNotFound, ErrConflict,
// ErrKeyReused, ErrUnavailable.
func (l *Ledger) Adjust(ctx context.Context, c AdjustCredits) (Adjusted, error) {
	return run[Adjusted](ctx, l, &c)
}

// CreditJob gives credits back for a job that was delivered but bad: an adjustment tied to
// it, never above what it was charged. AboutJob names the job; the account is the job's.
func (l *Ledger) CreditJob(ctx context.Context, c AdjustCredits) (Adjusted, error) {
	if err := checkAmount("amount", c.Amount, 1); err != nil {
		return Adjusted{}, err
	}
	j, err := l.Job(ctx, c.Tenant, c.AboutJob)
	if err != nil {
		return Adjusted{}, err
	}
	c.Name = j.Account
	return l.Adjust(ctx, c)
}

// Open charges an account and queues a job. Errors: ErrInvalid, ErrNotFound (account),
// ErrInsufficientCredits, ErrKeyReused, ErrConflict, ErrClosed, ErrUnavailable. After
// ErrUnavailable the same key tells whether the job was opened.
func (l *Ledger) Open(ctx context.Context, c OpenJob) (Opened, error) {
	return run[Opened](ctx, l, &c)
}

// Start gives a job to a worker. Errors: ErrNotFound, ErrInvalid, ErrUnavailable.
func (l *Ledger) Start(ctx context.Context, c StartJob) (Started, error) {
	return run[Started](ctx, l, &c)
}

// Complete delivers a job. Errors: ErrAlreadySettled when it ended otherwise, ErrFenced for
// a token that no attempt of it had, ErrNotFound, ErrInvalid, ErrUnavailable.
func (l *Ledger) Complete(ctx context.Context, c CompleteJob) (Completed, error) {
	return run[Completed](ctx, l, &c)
}

// Fail ends a job as not delivered. Errors: ErrFenced, ErrAlreadySettled, ErrNotFound,
// ErrInvalid, ErrUnavailable.
func (l *Ledger) Fail(ctx context.Context, c FailJob) (Failed, error) {
	return run[Failed](ctx, l, &c)
}

// Yield gives a job back to the queue. Errors as for Fail.
func (l *Ledger) Yield(ctx context.Context, c YieldJob) (Failed, error) {
	return run[Failed](ctx, l, &c)
}

// Cancel ends a queued job and asks the worker of a running one to stop. Errors:
// ErrAlreadySettled, ErrNotFound, ErrInvalid, ErrUnavailable.
func (l *Ledger) Cancel(ctx context.Context, c CancelJob) (Cancelled, error) {
	return run[Cancelled](ctx, l, &c)
}

// ClaimCall permits an attempt to submit its job to a vendor. Errors: ErrFenced,
// ErrAlreadySettled, ErrNotFound, ErrInvalid, ErrUnavailable.
func (l *Ledger) ClaimCall(ctx context.Context, c ClaimCall) (Claimed, error) {
	return run[Claimed](ctx, l, &c)
}

// HearCall records what a vendor said of a call. Errors: ErrNotFound (job or call),
// ErrConflict (another reference), ErrInvalid, ErrUnavailable.
func (l *Ledger) HearCall(ctx context.Context, c HearCall) (Heard, error) {
	return run[Heard](ctx, l, &c)
}

// Sight records what the relay learned of a queued job.
func (l *Ledger) Sight(ctx context.Context, c SightJob) (Sighted, error) {
	return run[Sighted](ctx, l, &c)
}

// PutBack returns a job of a dead worker, or one past its deadline, to the queue.
func (l *Ledger) PutBack(ctx context.Context, c PutBackJob) (PutBack, error) {
	return run[PutBack](ctx, l, &c)
}

// Sweep ends an open job if the policy says so, under lock.
func (l *Ledger) Sweep(ctx context.Context, c SweepJob) (Swept, error) {
	return run[Swept](ctx, l, &c)
}
