package ledger

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A vendor's Retry-After may be years: the job would never end.
func TestYieldWaitsInBounds(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l := ledgerOn(t, s, Options{})
	_, err := l.Grant(bg, give(ada, 10))
	require.NoError(t, err)
	opened, err := l.Open(bg, OpenJob{AccountName: ada, Type: "image", Cost: 5})
	require.NoError(t, err)
	_, err = l.Start(bg, StartJob{JobID: opened.Job.ID, Token: "t", Worker: "w"})
	require.NoError(t, err)
	left, err := l.Yield(bg, YieldJob{JobID: opened.Job.ID, Token: "t", After: math.MaxInt64})
	require.NoError(t, err)
	require.Equal(t, MaxYield, left.Job.Open.RunAfter.Sub(left.Job.Open.QueuedAt))
	_, err = l.Yield(bg, YieldJob{JobID: opened.Job.ID, Token: "t", After: -time.Second})
	require.ErrorIs(t, err, ErrInvalid)
}
