package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/makegood/makegood/internal/fleet"
)

// death is one kill.
type death struct {
	worker string    // its id in the ledger; "" when it died before it had one
	at     time.Time // by the ledger's clock
}

// killAll kills a worker each interval, as the plan says which, and starts another one in its
// place at once.
func killAll(ctx context.Context, p plan, every time.Duration, f *fleet.Fleet, db *pgxpool.Pool, killed func()) ([]death, error) {
	deaths := make([]death, 0, len(p.kills))
	began := time.Now()
	for i, victim := range p.kills {
		if !pause(ctx, time.Until(began.Add(time.Duration(i+1)*every))) {
			return deaths, context.Cause(ctx)
		}
		p := f.Process("worker", victim)
		if p == nil {
			return deaths, fmt.Errorf("worker %d does not run", victim)
		}
		if err := p.Kill(); err != nil {
			return deaths, err
		}
		if _, err := f.Start("worker", victim); err != nil {
			return deaths, err
		}
		var d death
		var err error
		if d.worker, d.at, err = workerOf(ctx, db, p.PID()); err != nil {
			return deaths, err
		}
		deaths = append(deaths, d)
		killed()
	}
	return deaths, nil
}
