package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

// scriptedStore has no open jobs and notes when it was swept. It is away between down and up.
type scriptedStore struct {
	ledger.Store
	begun    time.Time
	down, up time.Duration
	broken   time.Duration // one sweep at about then cannot read jobs
	sweeps   []time.Duration
}

func (s *scriptedStore) at() time.Duration { return time.Since(s.begun) }

func (s *scriptedStore) Now(context.Context) (time.Time, error) {
	if at := s.at(); at >= s.down && at < s.up {
		return time.Time{}, ledger.Unavailable(errors.New("away"))
	}
	return time.Now(), nil
}

func (s *scriptedStore) Relays(context.Context) ([]ledger.RelayStatus, error) { return nil, nil }

func (s *scriptedStore) OpenJobs(context.Context, string, int) ([]ledger.Job, error) {
	if s.broken > 0 && s.at() >= s.broken {
		s.broken = 0
		return nil, errors.New("broken row")
	}
	return nil, nil
}

func (s *scriptedStore) SaveSweep(context.Context, ledger.SweepReport) error {
	s.sweeps = append(s.sweeps, s.at())
	return nil
}

func (s *scriptedStore) ForgetSweeps(context.Context, time.Time, int) error { return nil }

func (s *scriptedStore) ForgetVendorEvents(context.Context, time.Time) error { return nil }

func runFor(t *testing.T, s *scriptedStore, interval, length time.Duration) {
	s.begun = time.Now()
	r := New(Options{Ledger: ledger.Direct(s), Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	require.ErrorIs(t, r.Run(ctx, interval), context.DeadlineExceeded)
}

func TestRunSweepsEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{}
		runFor(t, s, time.Minute, 3*time.Minute)
		require.Equal(t, []time.Duration{10 * time.Second, 70 * time.Second, 130 * time.Second}, s.sweeps)
	})
}

// TestRunLetsEverybodyReportAfterAnOutage: the first sweep after it waits until the workers
// could renew their leases.
func TestRunLetsEverybodyReportAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{down: 60 * time.Second, up: 600 * time.Second}
		runFor(t, s, time.Minute, 700*time.Second)
		require.Equal(t, []time.Duration{10 * time.Second, 610 * time.Second, 670 * time.Second}, s.sweeps)
	})
}

func TestRunGoesOnAfterAFailedSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{broken: 5 * time.Second}
		runFor(t, s, 2*time.Second, 11*time.Second)
		require.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second, 10 * time.Second}, s.sweeps)
	})
}
