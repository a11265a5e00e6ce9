package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// stopWithin is how long a process that was asked to stop may take.
const stopWithin = 30 * time.Second

// buildPrograms builds cmd/worker and cmd/scheduler of this tree into dir.
func buildPrograms(ctx context.Context, dir string) error {
	const module = "github.com/makegood/makegood/cmd/"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", dir+string(filepath.Separator), module+"worker", module+"scheduler")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker and the scheduler: %w\n%s", err, out)
	}
	return nil
}

// fleet is the processes under test. One that ends by itself is a fault.
type fleet struct {
	dir     string // holds the programs and their logs
	environ []string
	fault   func(error) // told of it, at most once a process

	starts chan func() // run by one thread, which lives as long as the fleet: see dieWithUs
	mu     sync.Mutex
	live   map[string]*process
}

// process is one run of a program.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    *os.File
	wanted atomic.Bool // its end
	ended  chan struct{}
	err    error // of Wait; valid once ended is closed
}

func newFleet(dir string, environ []string, fault func(error)) *fleet {
	f := &fleet{dir: dir, environ: environ, fault: fault, starts: make(chan func()), live: map[string]*process{}}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range f.starts {
			start()
		}
	}()
	return f
}

// start runs a program, "worker" or "scheduler", as its nth process. The log goes on where an
// earlier run of the same process ended.
func (f *fleet) start(program string, n int) error {
	p := &process{name: processName(program, n), ended: make(chan struct{})}
	var err error
	if p.log, err = os.OpenFile(p.logFile(f.dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	p.cmd = exec.CommandContext(context.Background(), filepath.Join(f.dir, program)) // it ends as we decide
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr, p.cmd.SysProcAttr = f.environ, p.log, p.log, dieWithUs()
	done := make(chan error)
	f.starts <- func() { done <- p.cmd.Start() }
	if err := <-done; err != nil {
		return errors.Join(fmt.Errorf("start %s: %w", p.name, err), p.log.Close())
	}
	f.mu.Lock()
	f.live[p.name] = p
	f.mu.Unlock()
	go f.watch(p)
	return nil
}

func (f *fleet) watch(p *process) {
	p.err = p.cmd.Wait()
	_ = p.log.Close()
	f.mu.Lock()
	delete(f.live, p.name)
	f.mu.Unlock()
	if !p.wanted.Load() {
		f.fault(fmt.Errorf("%s ended by itself (%s); its log ends:\n%s", p.name, p.cmd.ProcessState, p.tail(f.dir)))
	}
	close(p.ended)
}

// kill sends SIGKILL to a worker and waits until it is gone. It returns the process id.
func (f *fleet) kill(worker int) (pid int, err error) {
	f.mu.Lock()
	p := f.live[processName("worker", worker)]
	f.mu.Unlock()
	if p == nil {
		return 0, fmt.Errorf("worker %d does not run", worker)
	}
	p.wanted.Store(true)
	if err := p.cmd.Process.Kill(); err != nil {
		return 0, fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return 0, fmt.Errorf("%s ended with %s, not by SIGKILL", p.name, p.cmd.ProcessState)
	}
	return p.cmd.Process.Pid, nil
}

// stop ends all processes: in order with SIGTERM, or at once with SIGKILL. A process that does
// not end in order is killed and reported. The fleet cannot be used afterwards; stopping it
// again does nothing.
func (f *fleet) stop(sig syscall.Signal) error {
	f.mu.Lock()
	running := make([]*process, 0, len(f.live))
	for _, p := range f.live {
		running = append(running, p)
	}
	if f.starts != nil {
		close(f.starts)
		f.starts = nil
	}
	f.mu.Unlock()
	for _, p := range running {
		p.wanted.Store(true)
		_ = p.cmd.Process.Signal(sig) // it may have ended
	}
	var errs []error
	over := time.After(stopWithin)
	for _, p := range running {
		select {
		case <-p.ended:
		case <-over:
			_ = p.cmd.Process.Kill()
			<-p.ended
			errs = append(errs, fmt.Errorf("%s did not stop within %s", p.name, stopWithin))
		}
		if sig == syscall.SIGTERM && p.err != nil {
			errs = append(errs, fmt.Errorf("%s did not stop in order (%w); its log ends:\n%s", p.name, p.err, p.tail(f.dir)))
		}
	}
	return errors.Join(errs...)
}

func processName(program string, n int) string { return fmt.Sprintf("%s-%d", program, n+1) }

func (p *process) logFile(dir string) string { return filepath.Join(dir, p.name+".log") }

// tail is the end of a process's log.
func (p *process) tail(dir string) string {
	const most = 2000
	text, err := os.ReadFile(p.logFile(dir))
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}
