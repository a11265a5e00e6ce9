package ledger

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// How hard to try, and who asks, is not what was bought: a repetition that says otherwise is a
// repetition, and the first one's word stands.
func TestMaxAttemptsIsNotPartOfAKey(t *testing.T) {
	t.Parallel()
	l := ledgerOn(t, newFakeStore(), Options{})
	_, err := l.Grant(bg, give(ada, 10))
	require.NoError(t, err)
	first := OpenJob{AccountName: ada, Type: "image", Cost: 5, Key: "k", MaxAttempts: 3}
	opened, err := l.Open(bg, first)
	require.NoError(t, err)
	again := first
	again.MaxAttempts, again.Actor = 7, "somebody"
	replay, err := l.Open(bg, again)
	require.NoError(t, err)
	require.True(t, replay.Replayed)
	require.Equal(t, []any{opened.Job.ID, 3}, []any{replay.Job.ID, replay.Job.MaxAttempts})
}
