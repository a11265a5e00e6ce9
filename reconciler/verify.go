package reconciler

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// Dialect is a kind of database.
type Dialect string

// Dialects.
const (
	Postgres Dialect = "postgres"
	SQLite   Dialect = "sqlite"
)

// maxBroken is how many broken rows a report names; the counts are exact.
const maxBroken = 1000

// VerifyOptions of Verify.
type VerifyOptions struct {
	DB      *sql.DB
	Dialect Dialect
	// Tenant and Account narrow the check to one account; Account "" means the whole ledger
	// of all tenants.
	Tenant, Account string
	// Progress is told now and then how many rows were read; nil for nobody.
	Progress func(rows int64)
}

// VerifyReport says whether the ledger keeps its promises.
type VerifyReport struct {
	OK           bool         `json:"ok"`
	Counts       Counts       `json:"counts"`
	Seconds      float64      `json:"seconds"`
	Invariants   []Invariant  `json:"invariants"` // I1 to I6
	Broken       []Broken     `json:"broken"`     // the first thousand
	Conservation Conservation `json:"conservation"`
}

// Counts is how much was checked.
type Counts struct {
	Accounts int64 `json:"accounts"`
	Entries  int64 `json:"entries"`
	Jobs     int64 `json:"jobs"`
}

// Invariant is one promise of package ledger.
type Invariant struct {
	ID     string `json:"id"`
	OK     bool   `json:"ok"`
	Broken int64  `json:"broken"`
}

// Broken names a row that breaks an invariant. Expected and Found are numbers, words or nil.
type Broken struct {
	Invariant string  `json:"invariant"`
	Table     string  `json:"table"`
	ID        string  `json:"id"`
	Account   *string `json:"account"`
	JobID     *string `json:"job_id"`
	Detail    string  `json:"detail"`
	Expected  any     `json:"expected"`
	Found     any     `json:"found"`

	accountID string
}

// Conservation says where all credits are. Difference is what was given less what is
// accounted for: 0.
type Conservation struct {
	Granted    int64 `json:"granted"`
	Adjusted   int64 `json:"adjusted"`
	Available  int64 `json:"available"`
	Held       int64 `json:"held"`
	Spent      int64 `json:"spent"`
	Expired    int64 `json:"expired"`
	Revoked    int64 `json:"revoked"`
	Difference int64 `json:"difference"`
}

// Verify checks I1 to I6 on one snapshot of the ledger, in a streaming pass: memory does not
// grow with the ledger, and nobody waits for it. A broken ledger is a report with OK false,
// not an error; errors are ledger.ErrNotFound for an unknown account, and those of the
// database.
func Verify(ctx context.Context, o VerifyOptions) (VerifyReport, error) {
	begun := time.Now()
	v, err := newVerifier(ctx, o)
	if err != nil {
		return VerifyReport{}, fmt.Errorf("verify: %w", err)
	}
	defer func() { _ = v.tx.Rollback() }() // it only reads
	steps := []func() error{v.findAccount, v.checkGuards, v.checkChains, v.checkJobs, v.checkConservation, v.nameAccounts}
	for _, step := range steps {
		if err := step(); err != nil {
			return VerifyReport{}, fmt.Errorf("verify: %w", err)
		}
	}
	if o.Progress != nil {
		o.Progress(v.rows)
	}
	v.report.Seconds = time.Since(begun).Seconds()
	return v.report, nil
}

// verifier is one run of Verify.
type verifier struct {
	ctx       context.Context
	options   VerifyOptions
	tx        *sql.Tx
	accountID string // "" for all
	rows      int64
	streams   int
	report    VerifyReport
}

func newVerifier(ctx context.Context, o VerifyOptions) (*verifier, error) {
	v := &verifier{ctx: ctx, options: o, report: VerifyReport{OK: true, Broken: []Broken{}}}
	for _, id := range []string{"I1", "I2", "I3", "I4", "I5", "I6"} {
		v.report.Invariants = append(v.report.Invariants, Invariant{ID: id, OK: true})
	}
	// One snapshot for all reads. On SQLite every transaction has one, and ReadOnly keeps a
	// connection that begins with BEGIN IMMEDIATE from blocking writers.
	level := sql.LevelDefault
	if o.Dialect == Postgres {
		level = sql.LevelRepeatableRead
	}
	tx, err := o.DB.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true})
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	v.tx = tx
	if o.Dialect == Postgres {
		// The store's connections end transactions that idle; here a terminal that is slow
		// to take the progress must not end the check.
		_, err = tx.ExecContext(ctx, "SELECT set_config('idle_in_transaction_session_timeout', '0', true), "+
			"set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true)")
		if err != nil {
			_ = tx.Rollback()
			return nil, fmt.Errorf("lift the timeouts: %w", err)
		}
	}
	return v, nil
}

// broken records a broken row.
func (v *verifier) broken(b Broken) {
	v.report.OK = false
	inv := &v.report.Invariants[b.Invariant[1]-'1']
	inv.OK = false
	inv.Broken++
	if len(v.report.Broken) < maxBroken {
		v.report.Broken = append(v.report.Broken, b)
	}
}

// checkConservation adds everything up. A difference that no broken row explains is one.
func (v *verifier) checkConservation() error {
	c := &v.report.Conservation
	c.Difference = c.Granted + c.Adjusted - c.Available - c.Held - c.Spent - c.Expired - c.Revoked
	if c.Difference != 0 && v.report.OK {
		v.broken(Broken{Invariant: "I6", Table: "credit_transactions", Detail: "credits given and credits accounted for differ",
			Expected: int64(0), Found: c.Difference})
	}
	return nil
}

// nameAccounts puts the accounts' names beside the broken rows.
func (v *verifier) nameAccounts() error {
	names := map[string]*string{}
	for i := range v.report.Broken {
		id := v.report.Broken[i].accountID
		if id == "" {
			continue
		}
		if _, known := names[id]; !known {
			name, err := v.accountName(id)
			if err != nil {
				return err
			}
			names[id] = name
		}
		v.report.Broken[i].Account = names[id]
	}
	return nil
}
