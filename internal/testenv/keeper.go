package testenv

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

//go:embed keeper.sh
var keeperScript string

// keeper is our end of the shell script that keeps a server's directory. The
// directory lives exactly as long as the script, which lives exactly as long
// as the pipe that we hold: see the package documentation.
type keeper struct {
	dir     string
	cmd     *exec.Cmd
	orders  *os.File // closing it is the order to kill and remove
	lock    *os.File // held while we live, so that a sweep leaves dir alone
	dirs    chan string
	started chan *process
	gone    chan struct{}
}

// process is one run of a script in the keeper's directory.
type process struct {
	pid   int
	code  int // valid once ended is closed
	ended chan struct{}
}

// newKeeper starts a keeper in the first temporary directory that the servers'
// user can reach: the usual one may be private to us.
func newKeeper(ctx context.Context, who *account, signal string) (*keeper, error) {
	var failed []error
	for _, base := range tempDirs() {
		k, err := newKeeperIn(ctx, base, who, signal)
		if err == nil {
			return k, nil
		}
		failed = append(failed, fmt.Errorf("in %s: %w", base, err))
	}
	return nil, fmt.Errorf("no directory for a server: %w", errors.Join(failed...))
}

func newKeeperIn(ctx context.Context, base string, who *account, signal string) (_ *keeper, err error) {
	k, err := startKeeper(base, who, signal)
	if err != nil {
		return nil, fmt.Errorf("start its keeper: %w", err)
	}
	defer func() {
		if err != nil {
			_ = k.close()
		}
	}()
	select {
	case k.dir = <-k.dirs:
	case <-k.gone:
		return nil, fmt.Errorf("the servers' user %s cannot make a directory", who)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	k.lock, err = lockDir(k.dir)
	return k, err
}

func startKeeper(base string, who *account, signal string) (*keeper, error) {
	stdin, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	answers, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), orders.Close())
	}
	// Not CommandContext: the keeper ends by its pipe and has work to do then.
	cmd := exec.Command("/bin/sh", "-c", keeperScript, "keeper", base, signal)
	cmd.Dir = "/"
	cmd.Env = serverEnv()
	cmd.Stdin, cmd.Stdout = stdin, stdout // stderr: none, nothing may hold ours open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: who.credential()}
	err = cmd.Start()
	// Its ends are the keeper's alone from here on, or their closing says nothing.
	_, _ = stdin.Close(), stdout.Close()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), answers.Close())
	}
	k := &keeper{
		cmd:     cmd,
		orders:  orders,
		dirs:    make(chan string, 1),
		started: make(chan *process, 1),
		gone:    make(chan struct{}),
	}
	go k.listen(answers)
	return k, nil
}

// listen reads what the keeper says until it has gone.
func (k *keeper) listen(answers *os.File) {
	defer func() { _ = answers.Close() }()
	defer close(k.gone)
	var p *process
	for lines := bufio.NewScanner(answers); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "dir":
			k.dirs <- rest
		case "pid":
			p = &process{ended: make(chan struct{})}
			p.pid, _ = strconv.Atoi(rest)
			k.started <- p
		case "ended":
			p.code, _ = strconv.Atoi(rest)
			close(p.ended)
			p = nil
		}
	}
	if p != nil {
		close(p.ended)
	}
}

// run has the keeper run a command in its directory, output appended to the
// file log there. At most one at a time.
func (k *keeper) run(ctx context.Context, name string, args ...string) (*process, error) {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	// Readable by all: we may be root and the keeper is not; the directory is private.
	script := "exec " + strings.Join(quoted, " ") + "\n"
	if err := os.WriteFile(filepath.Join(k.dir, name), []byte(script), 0o644); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprintln(k.orders, name); err != nil {
		return nil, fmt.Errorf("the keeper of %s has gone: %w", k.dir, err)
	}
	select {
	case p := <-k.started:
		return p, nil
	case <-k.gone:
		return nil, fmt.Errorf("the keeper of %s has gone", k.dir)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// log returns the end of what the commands printed, for error messages.
func (k *keeper) log() string {
	text, err := os.ReadFile(filepath.Join(k.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return tail(text)
}

// tail returns the end of a long text.
func tail(text []byte) string {
	const most = 2000
	return strings.TrimSpace(string(text[max(0, len(text)-most):]))
}

// close ends the server, removes the directory and returns when both are gone.
func (k *keeper) close() error {
	err := k.orders.Close()
	_ = k.cmd.Wait() // Its exit status says nothing that the directory does not.
	<-k.gone
	if k.lock != nil {
		_ = k.lock.Close()
	}
	if k.dir == "" {
		return err
	}
	return errors.Join(err, os.RemoveAll(k.dir))
}

// signal sends sig to the process itself; one that has ended is no error.
func (p *process) signal(sig syscall.Signal) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	if err := syscall.Kill(p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %v to process %d: %w", sig, p.pid, err)
	}
	return nil
}
