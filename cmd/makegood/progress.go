package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

const (
	quietFor   = time.Second      // what is over by then says nothing
	redraw     = time.Second / 5  // on a terminal
	repeatLine = 10 * time.Second // elsewhere, while there is nothing new
)

// progress tells somebody who waits how far a command is. On a terminal one line is drawn
// again and again; elsewhere there is a line when there is news, one a second at most.
type progress struct {
	w        io.Writer
	terminal bool
	begun    time.Time
	quit     chan struct{}
	over     sync.WaitGroup

	mu   sync.Mutex
	text string
}

// progress begins to tell. It must be stopped before a result is printed.
func (c *cli) progress(text string) *progress { return newProgress(c.err, isTerminal(c.err), text) }

func newProgress(w io.Writer, terminal bool, text string) *progress {
	p := &progress{w: w, terminal: terminal, begun: time.Now(), quit: make(chan struct{}), text: text}
	p.over.Go(p.tell)
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// set says what is going on now.
func (p *progress) set(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = fmt.Sprintf(format, args...)
}

// stop ends it and leaves a terminal's line clean. Stopping twice is a mistake.
func (p *progress) stop() {
	close(p.quit)
	p.over.Wait()
}

func (p *progress) tell() {
	begin, every := "", quietFor
	if p.terminal {
		begin, every = "\r\x1b[K", redraw
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	said, at := "", p.begun
	for {
		select {
		case <-p.quit:
			if p.terminal && said != "" {
				fmt.Fprint(p.w, begin)
			}
			return
		case now := <-ticker.C:
			p.mu.Lock()
			text := p.text
			p.mu.Unlock()
			elapsed := now.Sub(p.begun)
			if elapsed < quietFor || (!p.terminal && text == said && now.Sub(at) < repeatLine) {
				continue
			}
			said, at = text, now
			fmt.Fprintf(p.w, "%s%s  %ds", begin, text, int(elapsed.Seconds()))
			if !p.terminal {
				fmt.Fprintln(p.w)
			}
		}
	}
}
