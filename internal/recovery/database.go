package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/fakevendor"
)

// Where jobs are when PostgreSQL goes: between two visits to their vendor, in a submit whose
// answer comes while it is away, in a question likewise.
const (
	atRest   = "at rest"
	inSubmit = "in a submit"
	inPoll   = "in a poll"
)

// condemned names the list of jobs that were taken from workers that lived.
const condemned = "condemned"

// missPostgres has PostgreSQL away while a vendor makes what it has accepted. Nothing of it
// must be lost, and nothing made again.
func (s *site) missPostgres(how doorState) ([]finding, error) {
	err := s.vendor.AddFaults(
		fakevendor.Fault{Call: fakevendor.Submit, Times: -1, Work: &fakevendor.Work{Hold: true}},
		fakevendor.Fault{Call: fakevendor.Submit, Prompt: inSubmit, Times: -1, At: fakevendor.After, Gate: "answers"},
		fakevendor.Fault{Call: fakevendor.Get, Prompt: inPoll, Times: -1, At: fakevendor.Before, Gate: "answers"})
	if err != nil {
		return nil, err
	}
	if err := s.startSchedulers(); err != nil {
		return nil, err
	}
	if _, err := s.startWorkers(1, 16, shortJob); err != nil {
		return nil, err
	}
	var orders []order
	for _, where := range []string{atRest, inSubmit, inPoll} {
		orders = append(orders, repeat(order{app.GenerationType, where}, s.vendorJobs)...)
	}
	jobs, err := s.submit(orders...)
	if err != nil {
		return nil, err
	}
	if err := s.vendor.Wait(s.ctx, fakevendor.Accepted, "", len(jobs)); err != nil {
		return nil, err
	}
	if err := s.vendor.Wait(s.ctx, fakevendor.Held, "", 2*s.vendorJobs); err != nil {
		return nil, err
	}
	s.say("PostgreSQL %s for %s; the vendor answers and succeeds meanwhile", how, s.outage)
	if err := s.database.set(s.ctx, how); err != nil {
		return nil, err
	}
	over := time.Now().Add(s.outage)
	if _, err := s.vendor.FinishAll("", fakevendor.Outcome{}); err != nil {
		return nil, err
	}
	s.vendor.Open("answers")
	if !pause(s.ctx, time.Until(over)) {
		return nil, s.ctx.Err()
	}
	back := time.Now()
	if err := errors.Join(s.database.set(s.ctx, doorOpen), s.untilEnded()); err != nil {
		return nil, err
	}
	return s.keptResults(how, jobs, back)
}

func (s *site) keptResults(how doorState, jobs []string, back time.Time) ([]finding, error) {
	wrong, err := s.audit(jobs)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	again, taken := []string{}, []string{}
	bill := s.vendor.Bill()
	for _, id := range jobs {
		var ended time.Time
		var lost int
		err := s.db.QueryRow(s.ctx, `
			SELECT ended_at, (SELECT count(*) FROM attempts WHERE job_id = $1 AND outcome IN ('lost', 'timed_out')) FROM ended_jobs WHERE job_id = $1`,
			id).Scan(&ended, &lost)
		if err != nil {
			return nil, err
		}
		took = append(took, ended.Sub(back))
		if n := bill.Count(fakevendor.Submit, id+":"); n != 1 {
			again = append(again, fmt.Sprintf("job %s was submitted %d times", id, n))
		}
		if lost > 0 {
			taken = append(taken, fmt.Sprintf("job %s was taken from its worker", id))
		}
	}
	return []finding{{name: "postgres_away_" + string(how), what: fmt.Sprintf("PostgreSQL %s for %s s, then back → result settled", how, seconds(s.outage)),
		samples: took, targets: []target{must(most, s.lease)}, nothing: append(wrong, nothing{"resubmits", again}, nothing{condemned, taken})}}, nil
}
