package ledgertest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var history = []scenario{{"HistoryByPages", historyByPages}, {"BalanceAtAPastTime", balanceAt}}

func historyByPages(t *testing.T, w *world) {
	w.fund(t, ada, 1000)
	for range 60 {
		w.submit(t, 1)
	}
	all := w.audit(t, ada)
	require.Len(t, all, 61)
	seen := map[string]bool{}
	page := ledger.Page{Limit: 7}
	for {
		list, err := w.Entries(bg, ledger.EntryFilter{Account: ada}, page)
		require.NoError(t, err)
		for _, e := range list {
			require.False(t, seen[e.ID])
			seen[e.ID] = true
		}
		if len(list) < page.Limit {
			break
		}
		page.AfterAt, page.AfterID = list[len(list)-1].CreatedAt, list[len(list)-1].ID
		w.submit(t, 1) // rows added meanwhile are on no page of an older history
	}
	for _, e := range all {
		require.True(t, seen[e.ID])
	}
	require.Len(t, seen, 61)

	jobs, err := w.Jobs(bg, ledger.JobFilter{Tenant: ada.Tenant, Account: ada.Name, State: ledger.StateQueued}, ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Equal(t, w.balance(t, ada).Held, int64(len(jobs)))
	from, to := all[10].CreatedAt, all[20].CreatedAt
	some, err := w.Entries(bg, ledger.EntryFilter{Account: ada, From: from, To: to}, ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, some, 10)
	some, err = w.Entries(bg, ledger.EntryFilter{Account: ada, JobID: all[5].JobID}, ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, some, 1)
}

func balanceAt(t *testing.T, w *world) {
	before := w.clock.Now()
	w.clock.Advance(time.Hour)
	w.fund(t, ada, 100)
	w.clock.Advance(time.Hour)
	id := w.submit(t, 30)
	w.clock.Advance(time.Hour)
	_, err := w.Cancel(bg, ledger.CancelJob{Tenant: ada.Tenant, JobID: id})
	require.NoError(t, err)
	want := []int64{0, 100, 70, 100}
	for i, n := range want {
		at, err := w.BalanceAt(bg, ada, before.Add(time.Duration(i)*time.Hour+time.Minute))
		require.NoError(t, err)
		require.Equal(t, n, at, i)
	}
}
