package testenv

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

//go:embed install.sh
var installScript string

const installTimeout = 10 * time.Minute

// Programs are what may have to be installed.
type Programs struct {
	Postgres, Redis bool
	CC              bool // a C compiler with headers, for the race detector
}

// Install installs those of the wanted programs that are missing. Where it
// cannot, its error says what to install.
func Install(ctx context.Context, wanted Programs) error {
	packages, err := wanted.missing(ctx)
	if err == nil {
		return nil
	}
	sudo, ok := canInstall()
	if !ok {
		return fmt.Errorf("%w; %s", err, advice(packages))
	}

	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	unlock, err := lockInstall(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	// Somebody else may have done it while we waited.
	if packages, err = wanted.missing(ctx); err == nil {
		return nil
	}
	if err := install(ctx, sudo, packages); err != nil {
		return err
	}
	if _, err := wanted.missing(ctx); err != nil {
		return fmt.Errorf("even after installing %s: %w", strings.Join(packages, ", "), err)
	}
	return nil
}

// missing returns the Debian packages of what is missing, and an error that
// says what it is.
func (p Programs) missing(ctx context.Context) (packages []string, err error) {
	var errPostgres, errRedis, errCC error
	if p.Postgres {
		if _, errPostgres = findPostgres(); errPostgres != nil {
			packages = append(packages, "postgresql")
		}
	}
	if p.Redis {
		if _, errRedis = findRedis(); errRedis != nil {
			packages = append(packages, "redis-server")
		}
	}
	if p.CC {
		if errCC = findCC(ctx); errCC != nil {
			packages = append(packages, "gcc", "libc6-dev")
		}
	}
	return packages, errors.Join(errPostgres, errRedis, errCC)
}

func install(ctx context.Context, sudo, packages []string) error {
	names := strings.Join(packages, ", ")
	fmt.Fprintf(os.Stderr, "testenv: installing %s (a minute or so) …\n", names)
	began := time.Now()
	args := append(append(sudo, "/bin/sh", "-c", installScript, "install"), packages...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	// TERM, so that the script puts back what it changed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("install %s: %w; the end of what it said:\n%s", names, err, tail(out))
	}
	fmt.Fprintf(os.Stderr, "testenv: installed %s in %.0f s\n", names, time.Since(began).Seconds())
	return nil
}

// canInstall reports whether apt-get can be used, and what to put before it.
func canInstall() (sudo []string, ok bool) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, false
	}
	if os.Geteuid() == 0 {
		return nil, true
	}
	if exec.Command("sudo", "-n", "true").Run() == nil {
		return []string{"sudo", "-n"}, true
	}
	return nil, false
}

func advice(packages []string) string {
	list := strings.Join(packages, " ")
	switch {
	case runtime.GOOS == "darwin":
		return "try: brew install postgresql redis, and xcode-select --install"
	case exec.Command("apt-get", "--version").Run() == nil:
		return "try: sudo apt-get install --no-install-recommends " + list
	default:
		return "install what Debian calls " + list + ", or name servers by " + DatabaseVar + " and " + RedisVar
	}
}

// lockInstall lets one process at a time install. The lock is on a folder that
// every Debian system has, so nothing is left behind.
func lockInstall(ctx context.Context) (unlock func(), err error) {
	dir, err := os.Open("/var/lib/dpkg")
	if err != nil {
		return nil, err
	}
	for waited := false; ; waited = true {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = dir.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", dir.Name(), err), dir.Close())
		}
		if !waited {
			fmt.Fprintln(os.Stderr, "testenv: another process is installing packages, waiting for it …")
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for another installation: %w", ctx.Err()), dir.Close())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
