package tasks

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/crash"
	"github.com/makegood/makegood/ledger"
)

// RelayOptions of NewRelay.
type RelayOptions struct {
	Ledger          *ledger.Ledger
	Redis           redis.UniversalClient
	Interval        time.Duration // between rounds; 0 means 1 s
	OrphanThreshold time.Duration // looks at a job are at most half of it apart; 0 means 5 min
	Logger          *slog.Logger  // nil means slog.Default()
}

// Relay sees to it that the queue has every queued job. Two may run: what they do twice, the
// task ids and the epochs make one.
type Relay struct {
	o         RelayOptions
	log       *slog.Logger
	id        string
	queue     *asynq.Client
	inspector *asynq.Inspector

	reached time.Time // when Redis last answered, by the ledger's clock
	outage  time.Time // since when it has not; zero while it does

	mu     sync.Mutex
	active map[string]time.Time // task ids found active while their job was queued, since when
}

const (
	duePage      = 256             // jobs that are relayed at once, so that their sights share commits
	relayWithin  = 2 * time.Second // for each call to Redis
	activeAtMost = 5 * time.Second // an "active" task of a job that we know as queued is dead after it
)

// NewRelay makes a relay.
func NewRelay(o RelayOptions) *Relay {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.OrphanThreshold == 0 {
		o.OrphanThreshold = 5 * time.Minute
	}
	id := ledger.NewID()
	return &Relay{o: o, log: orDefault(o.Logger).With("relay", id), id: id, active: map[string]time.Time{},
		queue: asynq.NewClientFromRedisClient(o.Redis), inspector: asynq.NewInspectorFromRedisClient(o.Redis)}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	every(ctx, r.o.Interval, func() {
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("a round of the relay ended early; the next goes on", "error", err)
		}
	})
	last, stop := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer stop()
	if err := r.o.Ledger.RemoveRelay(last, r.id); err != nil {
		r.log.Warn("the relay's report stays", "error", err)
	}
	return nil
}

// Round looks once at all jobs that are due, and reports whether the queue could be reached.
func (r *Relay) Round(ctx context.Context) error {
	now, err := r.o.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if err = r.checkMarker(ctx, now); err == nil {
		err = r.relayDue(ctx)
	}
	if ctx.Err() != nil {
		return ctx.Err() // says nothing of Redis
	}
	switch away := (redisError{}); {
	case !errors.As(err, &away):
		r.reached, r.outage = now, time.Time{}
	case r.outage.IsZero():
		if r.outage = r.reached; r.outage.IsZero() {
			r.outage = now
		}
		r.log.Warn("Redis is away; jobs are accepted and wait", "since", r.outage)
	}
	r.forgetActive()
	return errors.Join(err, r.o.Ledger.ReportRelay(ctx, ledger.RelayStatus{ID: r.id, OutageSince: r.outage}))
}

// redisError marks what Redis, and not the ledger, could not do.
type redisError struct{ error }

func (e redisError) Unwrap() error { return e.error }

// checkMarker tells a Redis that lost its memory by a key that is gone: restarted empty, or
// flushed. Then everything queued becomes due under the next epoch (a job that waits to be
// tried again becomes due when it would have), and only after that the marker is set.
//
// The order makes a crash safe: a relay that dies in between leaves the marker unset, and the
// next round does it all again. The other way round, it would leave jobs that nobody looks at
// for up to half the orphan threshold. Doing it twice wastes wake-ups, which the epoch fences.
func (r *Relay) checkMarker(ctx context.Context, now time.Time) error {
	id, err := r.o.Ledger.InstallationID(ctx)
	if err != nil {
		return err
	}
	key := "makegood:marker:" + id
	redisCtx, cancel := context.WithTimeout(ctx, relayWithin)
	defer cancel()
	switch n, err := r.o.Redis.Exists(redisCtx, key).Result(); {
	case err != nil:
		return redisError{err}
	case n == 1:
		return nil
	}
	again, err := r.queueAgain(ctx, now)
	if err != nil {
		return err
	}
	if again > 0 {
		r.log.Warn("the queue has lost its memory, or is new; all waiting jobs are queued again", "jobs", again)
	}
	crash.Here(crash.MarkerBefore)
	redisCtx, cancel = context.WithTimeout(ctx, relayWithin)
	defer cancel()
	// asynq registers a queue once in a client's life; running ones have done so.
	if err := r.o.Redis.SAdd(redisCtx, "asynq:queues", Queue).Err(); err != nil {
		return redisError{err}
	}
	if err := r.o.Redis.Set(redisCtx, key, r.id, 0).Err(); err != nil {
		return redisError{err}
	}
	return nil
}

// queueAgain makes all queued jobs due under the next epoch.
func (r *Relay) queueAgain(ctx context.Context, now time.Time) (again int, err error) {
	err = eachPage(ctx, r.o.Ledger.OpenJobs, func(jobs []ledger.Job) error {
		var g errgroup.Group
		for _, j := range jobs {
			o := j.Open
			if o.State != ledger.StateQueued {
				continue
			}
			again++
			g.Go(func() error {
				return r.sight(ctx, j, ledger.SightJob{Sign: ledger.SignLost, Next: max(0, o.RunAfter.Sub(now))})
			})
		}
		return g.Wait()
	})
	return again, err
}

// eachPage reads all jobs of a list, page by page.
func eachPage(ctx context.Context, list func(ctx context.Context, afterID string, limit int) ([]ledger.Job, error), do func([]ledger.Job) error) error {
	for after := ""; ; {
		jobs, err := list(ctx, after, duePage)
		if err != nil {
			return err
		}
		if err := do(jobs); err != nil {
			return err
		}
		if len(jobs) < duePage {
			return nil
		}
		after = jobs[len(jobs)-1].ID
	}
}

// relayDue enqueues what is due until nothing is. A job that cannot be relayed for a reason of
// its own stays due and does not hold up the others.
func (r *Relay) relayDue(ctx context.Context) error {
	failed := map[string]bool{}
	for {
		jobs, err := r.o.Ledger.Due(ctx, duePage)
		if err != nil {
			return err
		}
		now, err := r.o.Ledger.Now(ctx)
		if err != nil {
			return err
		}
		errs := make([]error, len(jobs))
		var g errgroup.Group
		for i, j := range jobs {
			if failed[j.ID] {
				continue
			}
			g.Go(func() error {
				errs[i] = r.relay(ctx, j, now)
				if away := (redisError{}); errors.As(errs[i], &away) || errors.Is(errs[i], ledger.ErrUnavailable) {
					return errs[i]
				}
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		moved := false
		for i, j := range jobs {
			switch {
			case errs[i] != nil:
				failed[j.ID] = true
				r.log.Error("a job could not be relayed", "job", j.ID, "account", j.Account, "epoch", j.Open.Epoch, "error", errs[i])
			case !failed[j.ID]:
				moved = true
			}
		}
		if ctx.Err() != nil || !moved { // a page that was lost goes on: its next epochs are due
			return ctx.Err()
		}
	}
}

// relay hands one job to the queue and writes down what it said.
func (r *Relay) relay(ctx context.Context, j ledger.Job, now time.Time) error {
	redisCtx, cancel := context.WithTimeout(ctx, relayWithin)
	defer cancel()
	crash.Here(crash.RelayBefore)
	err := enqueue(redisCtx, r.queue, j.ID, j.Open.Epoch)
	crash.Here(crash.RelayAfter)
	sight := ledger.SightJob{Next: r.next(j, now)}
	switch {
	case err == nil:
		sight.Sign = ledger.SignEnqueued
	case errors.Is(err, asynq.ErrTaskIDConflict):
		if err := r.look(redisCtx, j, &sight); err != nil {
			return redisError{err}
		}
	case refused(err):
		sight.Sign = ledger.SignRefused
		r.log.Warn("the queue refused a job", "job", j.ID, "account", j.Account, "epoch", j.Open.Epoch, "error", err)
	default:
		return redisError{err}
	}
	return r.sight(ctx, j, sight)
}

func (r *Relay) sight(ctx context.Context, j ledger.Job, s ledger.SightJob) error {
	s.JobID, s.Epoch = j.ID, j.Open.Epoch
	_, err := r.o.Ledger.Sight(ctx, s)
	return err
}

// look asks what became of a task whose id the queue knows. "Active" is believed for a few
// seconds: a worker tells the ledger at once what it took, and if it died before it could, no
// lease of ours says so (asynq's own, in Redis, is found lapsed after a minute, or never). A
// worker that was only slow meets the next epoch, so a wrong guess costs one delivery.
func (r *Relay) look(ctx context.Context, j ledger.Job, sight *ledger.SightJob) error {
	id := taskID(j.ID, j.Open.Epoch)
	info, err := r.taskInfo(ctx, id)
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		// Gone since the conflict, or something else holds the id: the next epoch tells.
	case err != nil:
		return err
	case info.State == asynq.TaskStatePending, info.State == asynq.TaskStateScheduled, info.State == asynq.TaskStateRetry:
		sight.Sign = ledger.SignSeen
		return nil
	case info.State == asynq.TaskStateActive && r.activeFor(id) < activeAtMost:
		sight.Sign, sight.Next = ledger.SignSeen, min(sight.Next, activeAtMost)
		return nil
	}
	sight.Sign, sight.Next = ledger.SignLost, 0
	r.log.Warn("the queue cannot deliver a job any more; its next epoch will be", "job", j.ID, "account", j.Account, "epoch", j.Open.Epoch)
	return nil
}

// taskInfo asks the inspector, which takes no context.
func (r *Relay) taskInfo(ctx context.Context, id string) (*asynq.TaskInfo, error) {
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		info, err := r.inspector.GetTaskInfo(Queue, id)
		got <- answer{info, err}
	}()
	select {
	case a := <-got:
		return a.info, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// activeFor is for how long this relay has found a task active.
func (r *Relay) activeFor(id string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	since, known := r.active[id]
	if !known {
		since = time.Now()
		r.active[id] = since
	}
	return time.Since(since)
}

// forgetActive drops what will not be asked about again: looks at an active task are at most
// activeAtMost apart, by this relay or another one.
func (r *Relay) forgetActive() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, since := range r.active {
		if time.Since(since) > 10*activeAtMost {
			delete(r.active, id)
		}
	}
}

// next is when to look again: after half the time that the job has waited, at least 10 s, at
// most half the orphan threshold.
func (r *Relay) next(j ledger.Job, now time.Time) time.Duration {
	return min(max(now.Sub(j.Open.QueuedAt)/2, firstLook), r.o.OrphanThreshold/2)
}
