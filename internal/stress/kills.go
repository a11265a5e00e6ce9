package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// death is one kill.
type death struct {
	worker string    // its id in the ledger; "" when it died before it had one
	at     time.Time // by the ledger's clock
}

// killAll kills a worker each interval, as the plan says which, and starts another one in its
// place at once.
func killAll(ctx context.Context, p plan, every time.Duration, f *fleet, db *pgxpool.Pool, killed func()) ([]death, error) {
	deaths := make([]death, 0, len(p.kills))
	began := time.Now()
	for i, victim := range p.kills {
		if !pause(ctx, time.Until(began.Add(time.Duration(i+1)*every))) {
			return deaths, context.Cause(ctx)
		}
		pid, err := f.kill(victim)
		if err != nil {
			return deaths, err
		}
		if err := f.start("worker", victim); err != nil {
			return deaths, err
		}
		var d death
		if d.worker, d.at, err = workerOf(ctx, db, pid); err != nil {
			return deaths, err
		}
		deaths = append(deaths, d)
		killed()
	}
	return deaths, nil
}
