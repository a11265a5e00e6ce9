package tasks

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

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

// Relay sees to it that the queue has every queued job. Two may run.
type Relay struct {
	RelayOptions
	id        string
	queue     *asynq.Client
	inspector *asynq.Inspector
	outage    time.Time // since when Redis is away; zero while it is not
}

const (
	duePage      = 256
	activeAtMost = time.Minute // an "active" task of a job that we know as queued is dead after it
)

// NewRelay makes a relay.
func NewRelay(o RelayOptions) *Relay {
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.OrphanThreshold == 0 {
		o.OrphanThreshold = 5 * time.Minute
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Relay{RelayOptions: o, id: ledger.NewID(), queue: asynq.NewClientFromRedisClient(o.Redis), inspector: asynq.NewInspectorFromRedisClient(o.Redis)}
}

// Run relays until ctx ends.
func (r *Relay) Run(ctx context.Context) error {
	err := every(ctx, r.Interval, func() {
		if err := r.Round(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("relay", "error", err)
		}
	})
	if err := r.Ledger.RemoveRelay(context.WithoutCancel(ctx), r.id); err != nil {
		r.Logger.Warn("relay", "error", err)
	}
	return err
}

// every runs round at once and then at each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, round func()) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		round()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Round looks once at all jobs that are due, and reports what the queue said.
func (r *Relay) Round(ctx context.Context) error {
	err := r.checkMarker(ctx)
	if err == nil {
		err = r.relayDue(ctx)
	}
	now, clockErr := r.Ledger.Now(ctx)
	if clockErr != nil {
		return errors.Join(err, clockErr)
	}
	switch {
	case !unreachable(err):
		r.outage = time.Time{}
	case r.outage.IsZero():
		r.outage = now
	}
	return errors.Join(err, r.Ledger.ReportRelay(ctx, ledger.RelayStatus{ID: r.id, OutageSince: r.outage}))
}

// redisError marks what Redis, and not the ledger, could not do.
type redisError struct{ error }

func (e redisError) Unwrap() error { return e.error }

func unreachable(err error) bool {
	_, ok := errors.AsType[redisError](err)
	return ok
}

// checkMarker tells a Redis that lost its memory by a key that is gone: restarted empty, or
// flushed. Then everything queued becomes due at once under the next epoch, and only after
// that the marker is set: a relay that dies in between leaves the work to the next round, and
// two that do it both only waste wake-ups, which the epoch fences.
func (r *Relay) checkMarker(ctx context.Context) error {
	id, err := r.Ledger.InstallationID(ctx)
	if err != nil {
		return err
	}
	key := "makegood:marker:" + id
	redisCtx, cancel := context.WithTimeout(ctx, enqueueWithin)
	defer cancel()
	switch n, err := r.Redis.Exists(redisCtx, key).Result(); {
	case err != nil:
		return redisError{err}
	case n == 1:
		return nil
	}
	requeued := 0
	for after := ""; ; {
		jobs, err := r.Ledger.OpenJobs(ctx, after, duePage)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			after = j.ID
			if o := j.Open; o.State == ledger.StateQueued {
				wait := max(0, time.Until(o.RunAfter))
				if _, err := r.Ledger.Sight(ctx, ledger.SightJob{JobID: j.ID, Epoch: o.Epoch, Sign: ledger.SignLost, Next: wait}); err != nil {
					return err
				}
				requeued++
			}
		}
		if len(jobs) < duePage {
			break
		}
	}
	if requeued > 0 {
		r.Logger.Warn("the queue has lost its memory; all waiting jobs are queued again", "jobs", requeued)
	}
	// Registers the queue again: asynq does so only once in a client's life.
	if err := r.Redis.SAdd(ctx, "asynq:queues", Queue).Err(); err != nil {
		return redisError{err}
	}
	if err := r.Redis.Set(ctx, key, r.id, 0).Err(); err != nil {
		return redisError{err}
	}
	return nil
}

// relayDue enqueues what is due until nothing is.
func (r *Relay) relayDue(ctx context.Context) error {
	for {
		jobs, err := r.Ledger.Due(ctx, duePage)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			if err := r.relay(ctx, j); err != nil {
				return err
			}
		}
		if len(jobs) < duePage {
			return nil
		}
	}
}

// relay hands one job to the queue and writes down what it said.
func (r *Relay) relay(ctx context.Context, j ledger.Job) error {
	redisCtx, cancel := context.WithTimeout(ctx, 2*enqueueWithin)
	defer cancel()
	err := enqueue(redisCtx, r.queue, j.ID, j.Open.Epoch)
	sight := ledger.SightJob{JobID: j.ID, Epoch: j.Open.Epoch, Next: r.next(j)}
	var reply redis.Error
	switch {
	case err == nil:
		sight.Sign = ledger.SignEnqueued
	case errors.Is(err, asynq.ErrTaskIDConflict):
		if sight.Sign, err = r.look(j); err != nil {
			return redisError{err}
		}
	case errors.As(err, &reply):
		sight.Sign = ledger.SignRefused
		r.Logger.Warn("the queue refused a job", "job", j.ID, "account", j.Account, "epoch", j.Open.Epoch, "error", err)
	default:
		return redisError{err}
	}
	if sight.Sign == ledger.SignLost {
		sight.Next = 0
		r.Logger.Warn("the queue cannot deliver a job any more; the next epoch can", "job", j.ID, "account", j.Account, "epoch", j.Open.Epoch)
	}
	_, err = r.Ledger.Sight(ctx, sight)
	return err
}

// look asks what became of a task whose id the queue knows.
func (r *Relay) look(j ledger.Job) (ledger.Sign, error) {
	info, err := r.inspector.GetTaskInfo(Queue, taskID(j.ID, j.Open.Epoch))
	switch {
	case errors.Is(err, asynq.ErrTaskNotFound), errors.Is(err, asynq.ErrQueueNotFound):
		return ledger.SignLost, nil
	case err != nil:
		return "", err
	}
	switch info.State {
	case asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry:
		return ledger.SignSeen, nil
	case asynq.TaskStateActive:
		if now, err := r.Ledger.Now(context.Background()); err == nil && now.Sub(j.Open.QueuedAt) < activeAtMost {
			return ledger.SignSeen, nil
		}
	}
	return ledger.SignLost, nil
}

// next is when to look again: half the time that the job has waited, at least 10 s, at most
// half the orphan threshold.
func (r *Relay) next(j ledger.Job) time.Duration {
	waited := j.Open.CheckAt.Sub(j.Open.QueuedAt)
	return min(max(waited/2, firstLook), r.OrphanThreshold/2)
}
