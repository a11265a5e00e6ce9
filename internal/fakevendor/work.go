package fakevendor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// resume takes up what the books say is not done: open work, and callbacks about
// ends that nobody received.
func (v *Vendor) resume() {
	for _, g := range v.books.all("") {
		switch {
		case !g.Status.Ended():
			v.work(g)
		case g.WebhookURL != "" && !g.Told:
			v.post.queue(g.ID, v.callbacks(g)...)
		}
	}
}

// work does by the clock what a generation is to do.
func (v *Vendor) work(g Generation) {
	if g.Work.Hold {
		return
	}
	v.spawn(func() {
		begin := g.AcceptedAt.Add(time.Duration(g.Work.Queue))
		if !v.until(g.ID, begin) || v.Progress(g.ID, 0, 0) != nil {
			return
		}
		if v.until(g.ID, begin.Add(time.Duration(g.Work.Duration))) {
			_, _ = v.end(g.ID, g.Work.Outcome) // fails if a cancel or Finish was faster
		}
	})
}

// until waits for a time; false = the generation ended or the vendor closes.
func (v *Vendor) until(id string, at time.Time) bool {
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	done := v.books.done(id)
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
	case <-ctx.Done():
	}
	return false
}

// Progress lets a generation be processed: percent done and units ready so far,
// which clients see and a cancel leaves. Neither ever falls. The error wraps
// [ErrUnknown] or [ErrEnded].
func (v *Vendor) Progress(id string, percent, delivered int) error {
	v.moves.Lock()
	defer v.moves.Unlock()
	g, began, err := v.books.advance(id, percent, delivered)
	if err == nil && began && g.WebhookURL != "" && !g.Work.Silent && len(g.Work.Callbacks) == 0 {
		v.post.queue(id, v.post.write(g, Callback{}))
	}
	return err
}

// Finish ends a generation, whatever its work says. The error wraps [ErrUnknown]
// or [ErrEnded].
func (v *Vendor) Finish(id string, o Outcome) error {
	if err := o.Validate(); err != nil {
		return err
	}
	_, err := v.end(id, o)
	return err
}

// FinishAll ends the open generations whose key begins with prefix and returns
// how many it ended.
func (v *Vendor) FinishAll(prefix string, o Outcome) (int, error) {
	n := 0
	for _, g := range v.books.all(prefix) {
		switch err := v.Finish(g.ID, o); {
		case err == nil:
			n++
		case !errors.Is(err, ErrEnded):
			return n, err
		}
	}
	return n, nil
}

func (v *Vendor) end(id string, o Outcome) (Generation, error) {
	v.moves.Lock()
	defer v.moves.Unlock()
	g, err := v.books.end(id, o)
	if err == nil && g.WebhookURL != "" {
		v.post.queue(id, v.callbacks(g)...)
	}
	return g, err
}

// callbacks writes those that are sent at the end of a generation.
func (v *Vendor) callbacks(g Generation) []message {
	if g.Work.Silent {
		return nil
	}
	if len(g.Work.Callbacks) == 0 {
		return []message{v.post.write(g, Callback{})}
	}
	var messages []message
	for _, c := range g.Work.Callbacks {
		if !c.Early {
			messages = append(messages, v.post.write(g, c))
		}
	}
	return messages
}

// hurry sends the early callbacks of a generation that is accepted and not yet
// answered. One that is not received waits with the ordinary ones.
func (v *Vendor) hurry(g Generation) {
	if g.WebhookURL == "" || g.Work.Silent {
		return
	}
	for _, c := range g.Work.Callbacks {
		if !c.Early {
			continue
		}
		if c.Status.Ended() {
			o := g.Work.Outcome
			o.Status = c.Status
			_, _ = v.end(g.ID, o) // fails if its work has ended it
		}
		now, _ := v.books.generation(g.ID)
		m := v.post.write(now, c)
		for range max(c.Times, 1) {
			if status, err := v.post.deliver(v.ctx, m); err != nil || !received(status) {
				v.post.queue(g.ID, m)
				break
			}
		}
	}
}

// Call sends one callback about a generation now, past those that wait, once,
// and returns the status it was answered with.
func (v *Vendor) Call(ctx context.Context, id string, c Callback) (int, error) {
	g, err := v.Generation(id)
	if err != nil {
		return 0, err
	}
	if err := c.Validate(); err != nil {
		return 0, err
	}
	if g.WebhookURL == "" {
		return 0, fmt.Errorf("%s has no webhook_url", id)
	}
	return v.post.deliver(ctx, v.post.write(g, c))
}
