//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/makegood/makegood/ledger"
)

// lockFile keeps a second `up` off the same SQLite file. The lock is the kernel's, so it
// goes with the process, however that ends; the file beside the database only names the pid.
func lockFile(database string) (unlock func(), err error) {
	if target, err := filepath.EvalSymlinks(database); err == nil { // one file, one lock, whatever it is called
		database = target
	}
	f, err := os.OpenFile(database+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, conflict("the directory %s of the ledger's file does not exist: create it first", filepath.Dir(database))
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid := make([]byte, 20)
		n, _ := f.ReadAt(pid, 0)
		_ = f.Close()
		return nil, conflict("%s is in use by another `makegood up`, process %s: stop it first", database, strings.TrimSpace(string(pid[:n])))
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return func() { _ = f.Close() }, nil
}

func conflict(format string, args ...any) error {
	return &ledger.Error{Code: ledger.CodeConflict, Detail: fmt.Sprintf(format, args...)}
}
