package ledger

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// snapshot is everything of a Book that a command could change, by value.
func snapshot(b *Book) map[string]any {
	accounts, jobs, touched := map[AccountName]Account{}, map[string]Job{}, map[string]bool{}
	for n, a := range b.accounts {
		accounts[n] = *a
	}
	for id, j := range b.jobs {
		jobs[id] = j.clone()
	}
	for id := range b.changes.Touched {
		touched[id] = true
	}
	attempts := map[string]string{}
	for id, list := range b.attempts {
		attempts[id] = fmt.Sprintf("%+v", list)
	}
	return map[string]any{"accounts": accounts, "jobs": jobs, "touched": touched, "attempts": attempts,
		"credited": maps.Clone(b.credited), "held": maps.Clone(b.held), "keys": len(b.jobByKey), "ids": len(b.accountByID),
		"grants": len(b.grants), "grant keys": len(b.grantByKey), "adjusts": len(b.adjusts), "adjust keys": len(b.adjustByKey),
		"entries": len(b.changes.Entries), "new jobs": len(b.changes.Jobs), "ended": len(b.changes.Ended), "closed": len(b.changes.Attempts),
		"new accounts": len(b.changes.Accounts), "new grants": len(b.changes.Grants), "new adjustments": len(b.changes.Adjustments),
		"renewals": maps.Clone(b.changes.Renewals)}
}

// drawCommand draws a command that means one of a few names, jobs, tokens and keys, so that
// many are refused and many are not.
func drawCommand(t *rapid.T, ids []string) Command {
	name := AccountName{"default", rapid.SampledFrom([]string{"ada", "bob", "nobody"}).Draw(t, "account")}
	id := rapid.SampledFrom(ids).Draw(t, "id")
	token := rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(t, "token")
	key := rapid.SampledFrom([]string{"", "", "k1", "k2"}).Draw(t, "key")
	amount := rapid.SampledFrom([]int64{0, 1, 5, 30, 1000, MaxAmount, MaxAmount - 1}).Draw(t, "amount")
	flag := rapid.Bool().Draw(t, "flag")
	switch rapid.IntRange(0, 10).Draw(t, "command") {
	case 0:
		return &CreateAccount{AccountName: name, Overdraft: amount}
	case 1:
		return &GrantCredits{AccountName: name, Key: key, Amount: amount, Reason: "r"}
	case 2:
		about := ""
		if flag {
			about = id
		}
		return &AdjustCredits{AccountName: name, Key: key, Amount: amount - 5, AboutJob: about, Reason: "r", Actor: "ann"}
	case 3, 4:
		return &OpenJob{AccountName: name, ID: id, Key: key, Type: "image", Cost: amount, MaxAttempts: 2}
	case 5:
		ttl := time.Hour
		if flag {
			ttl = time.Nanosecond
		}
		return &StartJob{JobID: id, Token: token, Worker: "w", LeaseTTL: ttl}
	case 6:
		return &YieldJob{JobID: id, Token: token, GiveBack: flag}
	case 7:
		return &CompleteJob{JobID: id, Token: token, Actual: amount}
	case 8:
		return &FailJob{JobID: id, Token: token}
	case 9:
		return &CancelJob{Tenant: "default", JobID: id}
	default:
		return &PutBackJob{JobID: id, Token: token}
	}
}

func TestRefusedCommandLeavesTheBookUnchanged(t *testing.T) {
	t.Parallel()
	refusals, total := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		ids := []string{NewID(), NewID(), NewID()}
		for range rapid.IntRange(1, 60).Draw(t, "commands") {
			cmd := drawCommand(t, ids)
			if cmd.check() != nil {
				continue
			}
			before := snapshot(b)
			answer, panicked, err := decide(cmd, b)
			require.False(t, panicked, "%T: %v", cmd, err)
			total++
			if err != nil {
				refusals++
				require.Nil(t, answer)
				require.Equal(t, before, snapshot(b), "%T: %v", cmd, err)
			}
			for _, a := range b.accounts {
				require.True(t, inBounds(a.Balance))
			}
			require.False(t, heldBeyondRange(b), "%T: a refund would not fit", cmd)
		}
	})
	require.Greater(t, refusals, 100)
	require.Greater(t, total-refusals, 100)
}

// heldBeyondRange says whether what open jobs hold would not fit back into some balance.
func heldBeyondRange(b *Book) bool {
	sum := map[string]int64{}
	for _, j := range b.jobs {
		if j.Open != nil {
			sum[j.AccountID] += j.Open.Held
		}
	}
	for id, n := range sum {
		if b.accountByID[id].Balance+n > MaxAmount {
			return true
		}
	}
	return false
}

// Run again on what it left behind, a command gives the same answer and changes nothing (I8).
func TestEachCommandIsIdempotentOnItsBook(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC))
		ids := []string{NewID(), NewID()}
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			cmd := drawCommand(t, ids)
			if cmd.check() != nil {
				continue
			}
			_, panicked, err := decide(cmd, b)
			require.False(t, panicked, "%T: %v", cmd, err)
			if err != nil {
				continue
			}
			before := snapshot(b)
			_, panicked, err = decide(cmd, b)
			require.False(t, panicked)
			require.NoError(t, err, "%T", cmd)
			require.Equal(t, before, snapshot(b), "%T", cmd)
		}
	})
}
