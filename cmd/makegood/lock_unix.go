//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockFile keeps a second `up` off the same SQLite file. The lock is the kernel's, so it
// goes with the process, however that ends; the file beside the database only names the pid.
func lockFile(database string) (unlock func(), err error) {
	f, err := os.OpenFile(database+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		pid := make([]byte, 20)
		n, _ := f.ReadAt(pid, 0)
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another `makegood up`, process %s: stop it first", database, strings.TrimSpace(string(pid[:n])))
	}
	_ = f.Truncate(0)
	_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return func() { _ = f.Close() }, nil
}
