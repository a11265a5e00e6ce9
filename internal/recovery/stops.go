package main

import (
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/provider/local"
)

// shutdownTimeout of the workers that are stopped.
const shutdownTimeout = 2 * time.Second

// stopWorkers stops workers in order whose jobs take longer than they are given.
func (s *site) stopWorkers() ([]finding, error) {
	if err := s.startSchedulers(); err != nil {
		return nil, err
	}
	workers, err := s.startWorkers(s.stopped, s.stoppedJobs, longJob, "SHUTDOWN_TIMEOUT="+shutdownTimeout.String())
	if err != nil {
		return nil, err
	}
	jobs, err := s.submit(repeat(order{local.Type, "a hare"}, s.stopped*s.stoppedJobs)...)
	if err != nil {
		return nil, err
	}
	if err := s.untilRunning(len(jobs)); err != nil {
		return nil, err
	}
	if _, err := s.startWorkers(1, spareConcurrency, shortJob); err != nil {
		return nil, err
	}
	s.say("SIGTERM to %d workers with %d jobs each", s.stopped, s.stoppedJobs)
	stopped := time.Now()
	exits, err := terminate(workers)
	if err != nil {
		return nil, err
	}
	if err := s.untilEnded(); err != nil {
		return nil, err
	}
	return s.handovers(jobs, stopped, exits)
}

// terminate stops workers at once, and says how long each took beyond the time that its jobs
// have. One that does not end in order is an error.
func terminate(workers []*fleet.Process) ([]time.Duration, error) {
	over := make([]time.Duration, len(workers))
	var g errgroup.Group
	for i, p := range workers {
		g.Go(func() error {
			began := time.Now()
			err := p.Terminate()
			over[i] = time.Since(began) - shutdownTimeout
			return err
		})
	}
	return over, g.Wait()
}

// handovers measures what became of the jobs of workers that were stopped.
func (s *site) handovers(jobs []string, stopped time.Time, exits []time.Duration) ([]finding, error) {
	var given, taken []time.Duration
	for _, id := range jobs {
		var back, started time.Time
		err := s.db.QueryRow(s.ctx, `
			SELECT g.ended_at, (SELECT min(a.started_at) FROM attempts a WHERE a.job_id = g.job_id AND a.started_at >= g.ended_at)
			  FROM attempts g WHERE g.job_id = $1 AND g.outcome = 'given_back'`, id).Scan(&back, &started)
		if err != nil {
			return nil, fmt.Errorf("job %s was not given back and taken again: %w", id, err)
		}
		given, taken = append(given, back.Sub(stopped)-shutdownTimeout), append(taken, started.Sub(back))
	}
	wrong, err := s.audit(jobs)
	if err != nil {
		return nil, err
	}
	ended, err := s.readEnded()
	if err != nil {
		return nil, err
	}
	used := []string{}
	for _, id := range jobs {
		if e := ended[id]; e.Attempts != 1 || e.Starts != 2 {
			used = append(used, fmt.Sprintf("job %s: %d attempts used up by %d starts", id, e.Attempts, e.Starts))
		}
	}
	return []finding{
		{name: "graceful_stop", what: "SIGTERM, time over → job given back", samples: given, targets: []target{must(most, 2*time.Second)},
			nothing: append(wrong, nothing{"attempts_used", used})},
		{name: "graceful_stop.exit", what: "SIGTERM, time over → process ended", samples: exits, targets: []target{must(most, 5*time.Second)}},
		{name: "graceful_stop.taken", what: "job given back → starts elsewhere", samples: taken},
	}, nil
}
