package ledger_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/sqlite"
)

// Answer a dispute: every movement has a time, a reason, a job and a running balance, and what
// was decided without anybody has its evidence.
func Example_dispute() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "makegood")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "ledger.db"), sqlite.Options{Migrate: true})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	books := ledger.New(store, ledger.Options{Lanes: 1})
	defer books.Close()
	ada := ledger.AccountName{Tenant: "default", Name: "ada"}
	happened(ctx, books, ada)

	entries, err := books.Entries(ctx, ledger.EntryFilter{Account: ada}, ledger.Page{Limit: 50}) // newest first
	if err != nil {
		panic(err)
	}
	for _, e := range entries {
		if e.Movement() {
			fmt.Printf("%-17s %+4d = %3d  %s\n", e.Kind, e.Delta, e.BalanceAfter, e.Reason)
		}
		if e.Evidence != nil {
			fmt.Println("  because", string(e.Evidence))
		}
	}
	// Output:
	// reconciler_refund   +5 =  17  orphaned
	//   because {"sign":"lease"}
	// settle              +2 =  12  partial
	// deduct              -5 =  10  image
	// deduct              -5 =  15  image
	// grant              +20 =  20  purchase
}

// happened is a purchase, a job delivered in part, and one whose worker was never heard of again.
func happened(ctx context.Context, books *ledger.Ledger, ada ledger.AccountName) {
	_, err := books.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 20, Reason: "purchase"})
	must(err)
	first, err := books.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 5, Units: 2})
	must(err)
	second, err := books.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 5})
	must(err)
	_, err = books.Start(ctx, ledger.StartJob{JobID: first.Job.ID, Token: "run-1", Worker: "w1"})
	must(err)
	_, err = books.Complete(ctx, ledger.CompleteJob{JobID: first.Job.ID, Token: "run-1", Actual: 3, Delivered: 1})
	must(err)
	_, err = books.Sweep(ctx, ledger.SweepJob{JobID: second.Job.ID, Policy: func(ledger.Job, time.Time) ledger.SweepDecision {
		return ledger.SweepDecision{Action: ledger.SweepRefund, Reason: ledger.EndOrphaned, Evidence: []byte(`{"sign":"lease"}`)}
	}})
	must(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
