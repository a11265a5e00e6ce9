package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/makegood/makegood/internal/crash"
)

// group is the group commit: callers hand in commands, lanes take whatever waits and run it
// on one Book in one transaction. There is no linger: a lane that is free takes what is
// there, so one caller waits for one commit, and many share one.
//
//   - Every answer, refusals included, is given after the commit.
//   - Commands that share a lock key never run in two lanes at once, and run in the order in
//     which they came: lanes of one process do not wait for each other's row locks.
//   - A command whose caller has gone before its batch began is dropped. One already in a
//     batch counts, and the same key tells its caller so later.
//   - A batch that fails because of one command is halved until that command stands alone.
//   - An unknown commit is run again, which changes nothing when it had happened (I8). The
//     rows then bear the time at which it was decided, and its own answers are given.
type group struct {
	store   Store
	log     *slog.Logger
	cap     int
	giveUp  time.Duration // how long an outage is waited out before callers hear of it
	observe Observer

	mu      sync.Mutex
	wake    *sync.Cond
	waiting []*call
	busy    map[string]bool // lock keys of the batches being run
	batches int             // being run
	closed  bool
	lanes   sync.WaitGroup
}

// call is one command on its way.
type call struct {
	ctx    context.Context
	cmd    Command
	keys   []string
	began  time.Time
	answer any
	err    error
	done   chan struct{}
}

func newGroup(store Store, o Options) *group {
	g := &group{store: store, log: o.Logger, cap: o.BatchSize, giveUp: o.GiveUp, observe: o.Observe, busy: map[string]bool{}}
	g.wake = sync.NewCond(&g.mu)
	for range o.Lanes {
		g.lanes.Go(g.lane)
	}
	return g
}

// do runs one command and waits for its answer, or for ctx.
func (g *group) do(ctx context.Context, cmd Command) (any, error) {
	c := &call{ctx: ctx, cmd: cmd, keys: cmd.lockKeys(), began: time.Now(), done: make(chan struct{})}
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		g.finish(c, nil, Unavailable(errors.New("the ledger is closed")))
		return nil, c.err
	}
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	g.wake.Signal()
	select {
	case <-c.done:
		return c.answer, c.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the ledger: %w", ctx.Err())
	}
}

// close lets what waits finish and stops the lanes.
func (g *group) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.wake.Broadcast()
	g.lanes.Wait()
}

func (g *group) lane() {
	for {
		batch := g.take()
		if batch == nil {
			return
		}
		g.observe.batch(len(batch))
		g.run(batch)
		g.release(batch)
	}
}

// take waits for work and takes a batch, oldest first; nil when the group is closed and
// nothing waits that this lane could run.
func (g *group) take() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	for {
		if batch := g.pick(); len(batch) > 0 {
			return batch
		}
		if g.closed && len(g.waiting) == 0 {
			return nil
		}
		g.wake.Wait()
	}
}

// pick takes the waiting commands whose lock keys are free. One that must wait makes the
// later ones with its keys wait too, which keeps their order.
func (g *group) pick() []*call {
	var batch, rest []*call
	blocked := map[string]bool{}
	for _, c := range g.waiting {
		switch {
		case c.ctx.Err() != nil:
			g.finish(c, nil, c.ctx.Err())
		case len(batch) < g.cap && !anyIn(c.keys, g.busy) && !anyIn(c.keys, blocked):
			batch = append(batch, c)
		default:
			rest = append(rest, c)
			for _, k := range c.keys {
				blocked[k] = true
			}
		}
	}
	for _, c := range batch {
		for _, k := range c.keys {
			g.busy[k] = true
		}
	}
	g.waiting = rest
	if len(batch) > 0 {
		g.batches++
	}
	return batch
}

func (g *group) release(batch []*call) {
	g.mu.Lock()
	for _, c := range batch {
		for _, k := range c.keys {
			delete(g.busy, k)
		}
	}
	g.batches--
	g.mu.Unlock()
	g.wake.Broadcast()
}

func anyIn(keys []string, set map[string]bool) bool {
	for _, k := range keys {
		if set[k] {
			return true
		}
	}
	return false
}

// finish tells the observer first: whoever has an answer finds it counted.
func (g *group) finish(c *call, answer any, err error) {
	c.answer, c.err = answer, err
	g.observe.answer(Answer{Command: c.cmd, Value: answer, Err: err, Took: time.Since(c.began)})
	close(c.done)
}

func (g *group) load() Load {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Load{Waiting: len(g.waiting), Batches: g.batches}
}

// run brings a batch to its answers.
func (g *group) run(batch []*call) {
	deadline := time.Now().Add(g.giveUp)
	var doubt verdict // of the newest run whose commit is unknown
	for try := 0; ; try++ {
		began := time.Now()
		decided, culprit, err := attempt(g.store, batch, doubt)
		g.observe.commit(len(batch), began, err)
		if fateOf(err) == FateUnknown && decided.answers != nil {
			doubt = decided
		}
		// Contention fails fast. Of a single command it is another transaction's doing and
		// passes; of a batch it may be one command's, for good, so the batch is halved.
		contended := fateOf(err) == FateContended && len(batch) > 1
		switch {
		case err == nil:
			g.observe.ended(decided.ended, doubt.ended)
			for i, c := range batch {
				g.finish(c, decided.answers[i].value, decided.answers[i].err)
			}
			return
		case culprit >= 0:
			g.log.Error("a command panicked", "command", fmt.Sprintf("%T", batch[culprit].cmd), "error", err)
			g.finish(batch[culprit], nil, &Error{Code: CodeInternal, Detail: ErrInternal.Detail, cause: err})
			if batch = append(batch[:culprit:culprit], batch[culprit+1:]...); len(batch) == 0 {
				return
			}
			doubt = verdict{} // its answers are another batch's
		case fateOf(err) == FateRejected || fateOf(err) == "", contended && try >= 3:
			g.split(batch, err)
			return
		case !contended && time.Now().After(deadline):
			g.log.Warn("the ledger is unavailable", "commands", len(batch), "error", err)
			for _, c := range batch {
				g.finish(c, nil, Unavailable(err))
			}
			return
		default:
			pause(try, fateOf(err))
		}
	}
}

// split halves a batch that fails because of something in it; a command that fails alone is
// the one.
func (g *group) split(batch []*call, err error) {
	if len(batch) > 1 {
		g.observe.halve(len(batch))
		half := len(batch) / 2
		g.run(batch[:half:half])
		g.run(batch[half:])
		return
	}
	g.log.Error("a command was refused by the database", "command", fmt.Sprintf("%T", batch[0].cmd), "error", err)
	g.finish(batch[0], nil, &Error{Code: CodeInternal, Detail: ErrInternal.Detail, cause: err})
}

// pause before the next try: nothing when another transaction was merely faster, up to a
// quarter of a second while the database is away.
func pause(try int, fate Fate) {
	if fate == FateContended && try < 3 {
		return
	}
	time.Sleep(min(time.Duration(5<<min(try, 6))*time.Millisecond, 250*time.Millisecond))
}

// answer is what a command decided.
type answer struct {
	value any
	err   error
}

// verdict is what a batch decided, when, and which jobs it ended.
type verdict struct {
	answers []answer // one a command
	at      time.Time
	ended   []Job
}

// attempt runs the commands in one transaction. doubt is an earlier run of them whose commit
// is unknown; if it happened, its answers stand. culprit ≥ 0 names the command that panicked;
// the transaction was then rolled back, since the Book may be half changed.
func attempt(store Store, batch []*call, doubt verdict) (decided verdict, culprit int, err error) {
	var names Names
	for _, c := range batch {
		c.cmd.names(&names)
	}
	culprit = -1
	// Callers come and go; the batch is everybody's, so it runs on a context of its own. The
	// store's timeouts bound it.
	err = store.Transact(context.Background(), &names, func(b *Book) error {
		if doubt.answers != nil && b.bears(doubt.at) {
			decided = doubt
			return nil
		}
		decided, culprit = verdict{answers: make([]answer, len(batch)), at: b.now}, -1
		for i, c := range batch {
			value, panicked, err := decide(c.cmd, b)
			if panicked {
				culprit = i
				return err
			}
			decided.answers[i] = answer{value, err}
		}
		for _, j := range b.changes.Ended {
			decided.ended = append(decided.ended, j.clone())
		}
		if crash.Compiled {
			crashBefore(commands(batch)...)
		}
		return nil
	})
	if crash.Compiled && err == nil {
		crashAfter(commands(batch)...)
	}
	return decided, culprit, err
}

func commands(batch []*call) []Command {
	list := make([]Command, len(batch))
	for i, c := range batch {
		list[i] = c.cmd
	}
	return list
}

// decide shields the batch from a panic in one command.
func decide(cmd Command, b *Book) (value any, panicked bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			value, panicked, err = nil, true, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	value, err = cmd.decide(b)
	return value, false, err
}
