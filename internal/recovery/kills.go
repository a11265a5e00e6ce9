package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/fakevendor"
	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/provider/local"
)

const (
	// longJob is how long a victim would take for a job of the local generator, shortJob how
	// long the others do.
	longJob  = 10 * time.Minute
	shortJob = 100 * time.Millisecond

	spares           = 2
	spareConcurrency = 32
)

// killWorkers kills workers that have one job each: some while a vendor has accepted their
// submit and holds its answer, some while they work themselves. The kills are spread over one
// lease, so that they meet all phases of renewals and of the watcher's reads.
func (s *site) killWorkers() ([]finding, error) {
	if err := s.vendor.AddFaults(fakevendor.Fault{Call: fakevendor.Submit, Times: -1, At: fakevendor.After, Gate: "never"}); err != nil {
		return nil, err
	}
	if err := s.startSchedulers(); err != nil {
		return nil, err
	}
	var deaths []death
	var jobs []string
	for n := range s.rounds {
		s.say("round %d of %d: %d workers take a job each", n+1, s.rounds, s.vendorVictims+s.localVictims)
		ids, died, err := s.killRound()
		if err != nil {
			return nil, err
		}
		jobs, deaths = append(jobs, ids...), append(deaths, died...)
	}
	return s.recoveries(jobs, deaths)
}

// death is a kill of a worker that had a job.
type death struct {
	jobID   string
	jobType string
	at      time.Time
}

func (s *site) killRound() (jobs []string, deaths []death, err error) {
	all := s.vendorVictims + s.localVictims
	victims, err := s.startWorkers(all, 1, longJob)
	if err != nil {
		return nil, nil, err
	}
	accepted := len(s.vendor.Generations(""))
	jobs, err = s.submit(append(repeat(order{app.GenerationType, "a fox"}, s.vendorVictims), repeat(order{local.Type, "a hare"}, s.localVictims)...)...)
	if err != nil {
		return nil, nil, err
	}
	if err := s.untilRunning(all); err != nil {
		return nil, nil, err
	}
	if err := s.vendor.Wait(s.ctx, fakevendor.Accepted, "", accepted+s.vendorVictims); err != nil {
		return nil, nil, err
	}
	others, err := s.startWorkers(spares, spareConcurrency, shortJob)
	if err != nil {
		return nil, nil, err
	}
	if deaths, err = s.killAll(victims); err != nil {
		return nil, nil, err
	}
	s.say("all are dead; their jobs go on")
	if err := s.untilEnded(); err != nil {
		return nil, nil, err
	}
	for _, p := range others {
		if err := p.Terminate(); err != nil {
			return nil, nil, err
		}
	}
	return jobs, deaths, nil
}

// killAll kills workers in any order, evenly over one lease, and says which jobs they had.
func (s *site) killAll(victims []*fleet.Process) ([]death, error) {
	type held struct {
		PID         int
		ID, JobType string
	}
	rows, err := s.db.Query(s.ctx, `
		SELECT w.pid, o.job_id, j.type FROM open_jobs o JOIN jobs j USING (job_id) JOIN workers w ON w.id = o.worker WHERE o.state = 'running'`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[held])
	if err != nil {
		return nil, err
	}
	jobOf := map[int]held{}
	for _, h := range list {
		jobOf[h.PID] = h
	}
	var deaths []death
	began := time.Now()
	for n, i := range rand.Perm(len(victims)) {
		p := victims[i]
		job, has := jobOf[p.PID()]
		if !has {
			return nil, fmt.Errorf("worker %d has no job", p.PID())
		}
		if !pause(s.ctx, time.Until(began.Add(s.lease*time.Duration(n)/time.Duration(len(victims))))) {
			return nil, s.ctx.Err()
		}
		at := time.Now()
		if err := p.Kill(); err != nil {
			return nil, err
		}
		deaths = append(deaths, death{job.ID, job.JobType, at})
		if (n+1)%10 == 0 {
			s.say("%d of %d killed", n+1, len(victims))
		}
	}
	return deaths, nil
}

// recoveries measures from each kill to the next start of its job, by the log of attempts:
// ledger and kills are on one machine and so on one clock.
func (s *site) recoveries(jobs []string, deaths []death) ([]finding, error) {
	took := map[string][]time.Duration{} // by type
	var noticed, taken []time.Duration
	for _, d := range deaths {
		var putBack, started time.Time
		err := s.db.QueryRow(s.ctx, `
			SELECT (SELECT min(ended_at) FROM attempts WHERE job_id = $1 AND ended_at > $2),
			       (SELECT min(started_at) FROM attempts WHERE job_id = $1 AND started_at > $2)`, d.jobID, d.at).Scan(&putBack, &started)
		if err != nil {
			return nil, fmt.Errorf("job %s was not started again: %w", d.jobID, err)
		}
		took[d.jobType] = append(took[d.jobType], started.Sub(d.at))
		noticed, taken = append(noticed, putBack.Sub(d.at)), append(taken, started.Sub(putBack))
	}
	wrong, err := s.audit(jobs)
	if err != nil {
		return nil, err
	}
	targets := []target{must(p99, 2*s.lease), hopeMedian(s.lease * 6 / 5)}
	return []finding{
		{name: "worker_killed", what: "worker killed in a submit → job starts again", samples: took[app.GenerationType], targets: targets, nothing: wrong},
		{name: "worker_killed.local", what: "worker killed while it works → job starts again", samples: took[local.Type], targets: targets},
		{name: "worker_killed.noticed", what: "  of which until it is put back", samples: noticed},
		{name: "worker_killed.taken", what: "  and from then until it starts", samples: taken},
	}, nil
}
