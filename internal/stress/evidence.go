package main

import (
	"time"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
)

// evidence is all that is known of a run once it is over.
type evidence struct {
	plan    plan
	answers []answer
	deaths  []death
	books   books
	verify  reconciler.VerifyReport
	// artifacts are the stored artefacts that are not what the ledger says, by key.
	artifacts map[string]error
	// waiting is why the wait for the last job was given up; nil when all ended.
	waiting error
	// stopping is what went wrong when workers and schedulers were asked to stop; nil for nothing.
	stopping error
}

// orderOf says which order each job was made for, by the answers that clients were given.
func (e *evidence) orderOf() map[string]order {
	made := map[string]order{}
	for _, a := range e.answers {
		if a.accepted() {
			made[a.jobID] = e.plan.orders[a.submit.order]
		}
	}
	return made
}

// hit is a job that was running when its worker was killed.
type hit struct {
	jobID string
	took  time.Duration // from the kill until the job had ended
}

// hits lists the attempts that kills cut off. A job may be hit more than once.
func (e *evidence) hits() []hit {
	died := map[string]time.Time{}
	for _, d := range e.deaths {
		if d.worker != "" {
			died[d.worker] = d.at
		}
	}
	ended := map[string]time.Time{}
	for _, j := range e.books.jobs {
		if j.End != nil {
			ended[j.JobID] = j.End.At
		}
	}
	var list []hit
	for _, a := range e.books.attempts {
		at, dead := died[a.Worker]
		end, over := ended[a.JobID]
		cut := a.Outcome == ledger.AttemptLost || a.Outcome == ledger.AttemptReplaced || a.Outcome == ledger.AttemptTimedOut
		if dead && over && cut {
			list = append(list, hit{a.JobID, end.Sub(at)})
		}
	}
	return list
}
