package sqlite

import (
	"errors"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/makegood/makegood/ledger"
)

// replaceRefused is what the trigger against INSERT OR REPLACE says. It fires before the
// unique indexes are asked, so for a plain INSERT it stands in for their error.
const replaceRefused = "UNIQUE entry exists already"

// code is SQLite's extended result code; 0 for an error that is not SQLite's.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code()
	}
	return 0
}

// primary is the part of a result code that names the kind of error.
func primary(err error) int { return code(err) & 0xff }

// isBusy reports that another connection held the lock that was needed.
func isBusy(err error) bool {
	p := primary(err)
	return p == lib.SQLITE_BUSY || p == lib.SQLITE_LOCKED
}

// failedBefore says what an error before COMMIT means: the transaction is rolled back.
func failedBefore(err error) error {
	fate := ledger.FateUnreached // I/O, disk full, corrupt, cancelled, a lock waited for in vain: nothing was written
	if errors.Is(err, errMissingRow) {
		fate = ledger.FateRejected
	}
	switch primary(err) {
	case lib.SQLITE_CONSTRAINT:
		fate = ledger.FateRejected
		if isDuplicate(err) {
			fate = ledger.FateContended
		}
	case lib.SQLITE_ERROR, lib.SQLITE_MISMATCH, lib.SQLITE_TOOBIG, lib.SQLITE_RANGE:
		fate = ledger.FateRejected
	}
	return &ledger.StoreError{Fate: fate, Err: explain(err)}
}

// failedAtCommit says what an error of COMMIT means. The commit frame may have reached the
// log although writing or syncing it failed, and recovery would then find it; so only a lock
// or a constraint, which are judged before anything is written, are known to be rolled back.
func failedAtCommit(err error) error {
	switch primary(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_CONSTRAINT:
		return failedBefore(err)
	}
	return &ledger.StoreError{Fate: ledger.FateUnknown, Err: explain(err)}
}

// isDuplicate reports that a row with the same unique key exists: somebody was faster, or a
// commit thought lost did happen.
func isDuplicate(err error) bool {
	switch code(err) {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID:
		return true
	case lib.SQLITE_CONSTRAINT_TRIGGER:
		return strings.Contains(err.Error(), replaceRefused)
	}
	return false
}

// explain puts before SQLite's words what an operator can do about it.
func explain(err error) error {
	advice := ""
	switch primary(err) {
	case lib.SQLITE_FULL:
		advice = "the disk that holds the ledger is full; free some space"
	case lib.SQLITE_IOERR:
		advice = "the disk that holds the ledger fails"
		if code(err) == lib.SQLITE_IOERR_WRITE || code(err) == lib.SQLITE_IOERR_SHMSIZE {
			advice = "the ledger's file could not be written; look whether the disk is full"
		}
	case lib.SQLITE_READONLY, lib.SQLITE_PERM:
		advice = "the ledger's file is not writable by this process; look at the owner and mode of the file and its directory"
	case lib.SQLITE_CANTOPEN:
		advice = "the ledger's file, or the -wal and -shm files beside it, cannot be opened; look at the owner and mode of the file and its directory"
	case lib.SQLITE_NOTADB:
		advice = "the file is not a SQLite database"
	case lib.SQLITE_CORRUPT:
		advice = "the database file is damaged; restore a backup"
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		advice = "another process kept the write lock longer than the busy timeout"
	}
	if advice == "" {
		return err
	}
	return fmt.Errorf("%s: %w", advice, err)
}
