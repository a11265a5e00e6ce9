// Package fleet runs this tree's own programs as processes that may be killed, stopped and
// frozen, and leaves none behind.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stopWithin is how long a process that was asked to stop may take.
const stopWithin = 30 * time.Second

// Build builds commands of this tree, such as "worker", into dir.
func Build(ctx context.Context, dir string, programs ...string) error {
	args := []string{"build", "-buildvcs=false", "-o", dir + string(filepath.Separator)}
	for _, program := range programs {
		args = append(args, "github.com/makegood/makegood/cmd/"+program)
	}
	if out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", strings.Join(programs, " and "), err, out)
	}
	return nil
}

// Fleet is the processes under test. One that ends by itself is a fault.
type Fleet struct {
	programs string // directory
	logs     string // directory
	environ  []string
	fault    func(error)

	starts chan func() // run by one thread, which lives as long as the fleet: see dieWithUs
	mu     sync.Mutex
	live   map[string]*Process
}

// Process is one run of a program.
type Process struct {
	name   string
	cmd    *exec.Cmd
	log    *os.File
	file   string      // of the log
	wanted atomic.Bool // its end
	ended  chan struct{}
	err    error // of Wait; valid once ended is closed
}

// New makes a fleet of the programs in one directory with their logs in another. All get this
// environment. fault is told of a process that ends by itself, at most once a process. The
// caller stops the fleet.
func New(programs, logs string, environ []string, fault func(error)) *Fleet {
	f := &Fleet{programs: programs, logs: logs, environ: environ, fault: fault, starts: make(chan func()), live: map[string]*Process{}}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range f.starts {
			start()
		}
	}()
	return f
}

// Start runs a program as its nth process, from 0, with more variables than the others have.
// The log goes on where an earlier run of the same process ended.
func (f *Fleet) Start(program string, n int, environ ...string) (*Process, error) {
	p := &Process{name: processName(program, n), ended: make(chan struct{})}
	p.file = filepath.Join(f.logs, p.name+".log")
	var err error
	if p.log, err = os.OpenFile(p.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, err
	}
	p.cmd = exec.CommandContext(context.Background(), filepath.Join(f.programs, program)) // it ends as we decide
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = slices.Concat(f.environ, environ), p.log, p.log, dieWithUs()
	done := make(chan error)
	f.starts <- func() { done <- p.cmd.Start() }
	if err := <-done; err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), p.log.Close())
	}
	f.mu.Lock()
	f.live[p.name] = p
	f.mu.Unlock()
	go f.watch(p)
	return p, nil
}

func (f *Fleet) watch(p *Process) {
	p.err = p.cmd.Wait()
	_ = p.log.Close()
	f.mu.Lock()
	delete(f.live, p.name)
	f.mu.Unlock()
	if !p.wanted.Load() {
		f.fault(fmt.Errorf("%s ended by itself (%s); its log ends:\n%s", p.name, p.cmd.ProcessState, p.Tail()))
	}
	close(p.ended)
}

// Process finds a running process; nil when it does not run.
func (f *Fleet) Process(program string, n int) *Process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live[processName(program, n)]
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill sends SIGKILL and waits until the process is gone.
func (p *Process) Kill() error {
	p.wanted.Store(true)
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s ended with %s, not by SIGKILL", p.name, p.cmd.ProcessState)
	}
	return nil
}

// Terminate asks the process to stop with SIGTERM and waits until it is gone. One that takes
// too long is killed; that and a failure of its own are errors.
func (p *Process) Terminate() error {
	p.ask(syscall.SIGTERM)
	return p.await(time.After(stopWithin))
}

// ask sends a signal that ends the process.
func (p *Process) ask(sig syscall.Signal) {
	p.wanted.Store(true)
	_ = p.cmd.Process.Signal(sig) // it may have ended
}

// await waits until the process is gone, which it should be before over, and in order.
func (p *Process) await(over <-chan time.Time) error {
	select {
	case <-p.ended:
	case <-over:
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("%s did not stop within %s", p.name, stopWithin)
	}
	return p.err
}

// Stop ends all processes: in order with SIGTERM, or at once with SIGKILL. A process that does
// not end in order is killed and reported. The fleet cannot be used afterwards; stopping it
// again does nothing.
func (f *Fleet) Stop(sig syscall.Signal) error {
	f.mu.Lock()
	running := make([]*Process, 0, len(f.live))
	for _, p := range f.live {
		running = append(running, p)
	}
	if f.starts != nil {
		close(f.starts)
		f.starts = nil
	}
	f.mu.Unlock()
	for _, p := range running {
		p.ask(sig)
	}
	var errs []error
	over := time.After(stopWithin)
	for _, p := range running {
		if err := p.await(over); err != nil && sig == syscall.SIGTERM {
			errs = append(errs, fmt.Errorf("%s did not stop in order (%w); its log ends:\n%s", p.name, err, p.Tail()))
		}
	}
	return errors.Join(errs...)
}

func processName(program string, n int) string { return fmt.Sprintf("%s-%d", program, n+1) }

// Tail is the end of what the process has printed, without white space around it.
func (p *Process) Tail() string {
	const most = 2000
	text, err := os.ReadFile(p.file)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
