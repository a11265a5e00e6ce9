package local

import (
	"context"
	"fmt"
	"time"

	"github.com/makegood/makegood/provider"
)

// steps is how often a picture reports before it is there.
const steps = 10

// stages are what a painter does meanwhile.
var stages = [...]string{"choosing colours", "sketching", "laying in the ground", "painting", "finishing touches"}

// pace spreads a job over its duration and reports how far it has come.
type pace struct {
	ctx      context.Context
	step     time.Duration
	pictures int
	progress provider.Progress
}

func newPace(ctx context.Context, total time.Duration, pictures int, progress provider.Progress) *pace {
	if progress == nil {
		progress = func(int, string) {}
	}
	return &pace{ctx, total / time.Duration(max(pictures, 1)*steps), pictures, progress}
}

// wait lets the time of picture i (from 0) pass. A job that is going to fail
// with fail does so half-way through its first picture.
func (p *pace) wait(i int, fail error) error {
	for s := range steps {
		if fail != nil && s == steps/2 {
			return fail
		}
		if err := p.sleep(); err != nil {
			return err
		}
		done := (i*steps + s + 1) * 99 / (p.pictures * steps)
		line := stages[s*len(stages)/steps]
		if p.pictures > 1 {
			line = fmt.Sprintf("picture %d of %d: %s", i+1, p.pictures, line)
		}
		p.report(done, line)
	}
	return nil
}

func (p *pace) sleep() error {
	if p.step > 0 {
		t := time.NewTimer(p.step)
		defer t.Stop()
		select {
		case <-p.ctx.Done():
		case <-t.C:
		}
	}
	return context.Cause(p.ctx)
}

func (p *pace) report(percent int, line string) { p.progress(percent, line) }
