package tasks

import (
	"context"
	"time"
)

// every runs round at once and then at each interval until ctx ends. A round that takes longer
// delays the next; none is made up for.
func every(ctx context.Context, interval time.Duration, round func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		round()
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// pause waits, and reports false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
