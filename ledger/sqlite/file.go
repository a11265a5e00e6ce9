package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// networkFileSystems are refused, by statfs's f_type. WAL keeps its index in memory shared
// through mmap, which two hosts do not share, and their byte-range locks are emulated, lost at
// reconnection, or absent: two processes could both believe they hold the write lock.
//
// 9p is among them: it is how WSL mounts Windows' drives and how virtual machines share
// directories, with neither locks nor coherent mmap by default. (gVisor reports its bind
// mounts as 9p too; there another directory, or PostgreSQL, is needed.) FUSE is not: f_type
// does not tell a local disk from a remote one, and many local ones are FUSE.
var networkFileSystems = map[uint32]string{
	0x00006969: "NFS",
	0x0000517B: "SMB",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x01021997: "9p",
	0x5346414F: "AFS",
	0x00C36400: "Ceph",
}

// checkPlace refuses a file that could not be kept safely or created, in words for the person
// who chose it. It never opens the file: closing any descriptor of it would drop the locks
// that SQLite holds on it in this process (POSIX record locks belong to the process).
func checkPlace(file string, create bool, fsType func(string) (uint32, error)) error {
	dir := filepath.Dir(file)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the directory %s of the ledger's file does not exist; create it first", dir)
	case err != nil:
		return fmt.Errorf("the directory of the ledger's file: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a directory, so it cannot hold the ledger's file", dir)
	}
	info, err = os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !create:
		return fmt.Errorf("the ledger's file %s does not exist; `makegood migrate up` creates it", file)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the ledger's file: %w", err)
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, so it cannot be the ledger", file)
	}
	return refuseNetwork(dir, fsType)
}

func refuseNetwork(dir string, fsType func(string) (uint32, error)) error {
	kind, err := fsType(dir)
	if err != nil {
		return fmt.Errorf("asking for the file system of %s: %w", dir, err)
	}
	if name, network := networkFileSystems[kind]; network {
		return fmt.Errorf("%s is on a network file system (%s), where SQLite's locks do not hold; use a local disk, or PostgreSQL", dir, name)
	}
	return nil
}

// access says what a handle is for.
type access string

const (
	toRead   access = "read"
	toWrite  access = "write"
	toCreate access = "create"
)

// dsn spells the driver's name of a file. The path is escaped, so that a ? or % in it stays
// part of it.
func dsn(file string, how access, busy time.Duration) string {
	q := url.Values{"mode": {"rw"}, "_dqs": {"0"}}
	q.Set("_busy_timeout", strconv.FormatInt(busy.Milliseconds(), 10))
	switch how {
	case toRead:
		// Not mode=ro: such a connection could not recover the log that a killed process left.
		q.Add("_pragma", "query_only(1)")
	case toCreate:
		q.Set("mode", "rwc")
		fallthrough
	default:
		q.Set("_txlock", "immediate")
		q.Add("_pragma", "journal_mode(WAL)")
		// FULL syncs the log at every commit; with NORMAL a power cut takes answered commits back.
		q.Add("_pragma", "synchronous(FULL)")
		q.Add("_pragma", "foreign_keys(1)")
	}
	u := url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}
	return u.String()
}
