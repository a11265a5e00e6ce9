package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	dirPattern = "makegood-test-*" // as keeper.sh names them
	lockName   = "lock"

	// A directory this young may not have got its lock yet.
	sweepAge = time.Minute
)

// tempDirs lists where a server's directory may go, best first.
func tempDirs() []string {
	dirs := []string{filepath.Clean(os.TempDir())}
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// lockDir marks a directory as in use for as long as the file stays open,
// which is at most as long as this process lives.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	return f, nil
}

// sweep removes what is left where owner and keeper were killed together. It
// touches only directories that are ours by name and owner and that nobody
// holds the lock of; what it cannot remove is somebody else's to remove.
func sweep(bases []string, who *account) {
	for _, base := range bases {
		dirs, _ := filepath.Glob(filepath.Join(base, dirPattern))
		for _, dir := range dirs {
			sweepDir(dir, who)
		}
	}
}

func sweepDir(dir string, who *account) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() || !ownedBy(info, who) ||
		time.Since(info.ModTime()) < sweepAge {
		return
	}
	lock, err := lockDir(dir)
	if err != nil {
		return // In use.
	}
	defer func() { _ = lock.Close() }()
	killServerIn(dir)
	removeSharedMemory(dir)
	_ = os.RemoveAll(dir)
}

// removeSharedMemory does what keeper.sh does for a PostgreSQL that died
// without tidying up.
func removeSharedMemory(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		return
	}
	const line = 7 // "key id"
	lines := strings.Split(string(text), "\n")
	if len(lines) < line {
		return
	}
	if words := strings.Fields(lines[line-1]); len(words) == 2 {
		_ = exec.Command("ipcrm", "-m", words[1]).Run()
	}
}

// killServerIn kills a server that outlived its keeper. Its pid may long be
// another's, so it must also work in that directory (where /proc can tell).
func killServerIn(dir string) {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid <= 1 {
		return
	}
	cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil || (cwd != dir && !strings.HasPrefix(cwd, dir+"/")) {
		return
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) {
		return
	}
	deadline := time.Now().Add(5 * time.Second)
	for running(pid) && time.Now().Before(deadline) {
		time.Sleep(pollEvery)
	}
}
