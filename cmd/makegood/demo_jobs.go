package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	demonstration "github.com/makegood/makegood/examples"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider/local"
)

// promptLine is one line of a prompts file.
type promptLine struct {
	n       int
	cost    int64
	input   json.RawMessage
	Account string  `json:"account"`
	Type    string  `json:"type"`
	Prompt  string  `json:"prompt"`
	Size    *string `json:"size"`
	Style   *string `json:"style"`
	Seed    *int64  `json:"seed"`
	Key     string  `json:"key"`
}

// readPrompts reads a prompts file, or the demo's own when none is named. A line that cannot be
// used is named, and the others go on.
func (d *demo) readPrompts(file string) (lines []promptLine, err error) {
	raw := demonstration.Prompts
	if file != "" {
		if raw, err = os.ReadFile(file); err != nil {
			return nil, ledger.Invalid("prompts", err.Error())
		}
	}
	n := 0
	for text := range bytes.Lines(raw) {
		n++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		line, err := d.readPrompt(n, text)
		if err != nil {
			d.leaveOut(n, err)
			continue
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return nil, ledger.Invalid("prompts", fmt.Sprintf("%s has no line that can be used: %s", file, strings.Join(d.leftOut, "; ")))
	}
	return lines, nil
}

func (d *demo) readPrompt(n int, text []byte) (line promptLine, err error) {
	line.n = n
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&line); err != nil {
		return line, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return line, errors.New("has more than one object")
	}
	line.input, err = json.Marshal(map[string]any{"prompt": line.Prompt, "size": line.Size, "style": line.Style, "seed": line.Seed})
	if err != nil {
		return line, err
	}
	order, err := d.orderOf(line.Account, line.Type, line.input)
	if err != nil {
		return line, err
	}
	order.Key, line.cost = line.Key, order.Cost
	return line, order.Validate()
}

// leaveOut names a line of the prompts file that cannot be used.
func (d *demo) leaveOut(n int, err error) {
	d.leftOut = append(d.leftOut, fmt.Sprintf("line %d: %v", n, err))
	fmt.Fprintf(d.err, "makegood: left out line %d: %v\n", n, err)
}

// submit orders one picture by its prompt.
func (d *demo) submit(ctx context.Context, account, prompt string, attempts int) (string, error) {
	input, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		return "", err
	}
	id, err := d.order(ctx, account, input, "", attempts)
	if err == nil {
		d.titles[id] = prompt
	}
	return id, err
}

func (d *demo) order(ctx context.Context, account string, input json.RawMessage, key string, attempts int) (string, error) {
	order, err := d.orderOf(account, local.Type, input)
	if err != nil {
		return "", err
	}
	order.Key, order.MaxAttempts = key, attempts
	opened, err := d.app.Client.Submit(ctx, order)
	if err != nil {
		return "", err
	}
	if id := opened.Job.ID; !slices.Contains(d.jobs, id) {
		d.jobs = append(d.jobs, id)
	}
	return opened.Job.ID, nil
}

// orderOf is a job at its price.
func (d *demo) orderOf(account, jobType string, input json.RawMessage) (order ledger.OpenJob, err error) {
	order = ledger.OpenJob{AccountName: d.name(account), Type: jobType, Input: input, MaxWait: d.app.Config.MaxWait}
	order.Cost, order.Units, err = d.app.Estimate(jobType, input)
	return order, err
}

// await reads a job until it is as asked.
func (d *demo) await(ctx context.Context, id string, until func(ledger.Job) bool) error {
	for {
		j, err := d.app.Ledger.Job(ctx, d.Tenant, id)
		if err != nil {
			return err
		}
		if until(j) {
			return nil
		}
		if err := pause(ctx, demoLook); err != nil {
			return fmt.Errorf("job %s is still %s: %w", id, j.State(), err)
		}
	}
}

// watch shows each job as it ends, until all have.
func (d *demo) watch(ctx context.Context) error {
	for len(d.ended) < len(d.jobs) {
		for _, id := range d.jobs {
			if _, over := d.ended[id]; over {
				continue
			}
			j, err := d.app.Ledger.Job(ctx, d.Tenant, id)
			if err != nil {
				return err
			}
			if j.End != nil {
				d.ended[id] = j
				d.say("%2d of %d  %-9s %-18s %s", len(d.ended), len(d.jobs), j.End.State, j.End.Reason, d.titles[id])
			}
		}
		if err := pause(ctx, demoLook); err != nil {
			return fmt.Errorf("%d of %d jobs have not ended: %w", len(d.jobs)-len(d.ended), len(d.jobs), err)
		}
	}
	return nil
}

// say tells the story as it goes, on stderr: stdout is for what came out.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.err, "%6.1fs  %s\n", time.Since(d.started).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// child is a process of the demo's.
type child struct {
	cmd  *exec.Cmd
	log  *os.File
	dead bool
}

// spawn starts this program again as a worker or a scheduler, with its log beside the pictures.
func (d *demo) spawn(what string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(d.dir, what+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(context.Background(), self, what) // the demo ends it itself, in its own ways
	cmd.Env, cmd.Stdout, cmd.Stderr = d.environ, log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{cmd: cmd, log: log}, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

func (c *child) kill() { c.end(syscall.SIGKILL) }

// stop lets the process finish; one that does not is killed.
func (c *child) stop() {
	killer := time.AfterFunc(5*time.Second, func() { _ = c.cmd.Process.Kill() })
	defer killer.Stop()
	c.end(syscall.SIGTERM)
}

func (c *child) end(sig syscall.Signal) {
	if c.dead {
		return
	}
	c.dead = true
	_ = c.cmd.Process.Signal(sig)
	_ = c.cmd.Wait()
	_ = c.log.Close()
}
