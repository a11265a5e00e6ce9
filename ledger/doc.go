// Package ledger decides what happens to credits and to the jobs that are paid with them.
//
// It holds the words (Account, Entry, Job, Grant), the commands (OpenJob, StartJob,
// CompleteJob, …) and the Book they decide on. It does no I/O of its own: a store
// (ledger/postgres, ledger/sqlite) locks and loads the rows that a set of commands names,
// the commands decide in plain Go, and the store writes what changed in one transaction.
// Ledger puts that behind one method a command, with group commit.
//
// # Invariants
//
//   - I1 Entries are only ever added. The schema refuses UPDATE, DELETE and TRUNCATE.
//   - I2 UNIQUE (job_id, kind): each logical step of a job happens once.
//   - I3 At most one outcome a job: task_completed, task_failed or reconciler_refund.
//   - I4 Each movement (delta ≠ 0) has a gapless seq in its account and
//     balance_after = previous + delta. The balance is the newest balance_after; no column
//     exists that could drift. A deduct never passes its floor.
//   - I5 A result is readable only after its task_completed is committed, and nothing
//     completes that was not charged (a free job's deduct is a marker with delta 0).
//   - I6 Charged and ended means delivered or refunded, never both, never neither. Money
//     returned for a job is never more than money taken for it.
//   - I7 Every open job ends in bounded time once faults stop, with nobody calling anything.
//   - I8 Each command is idempotent: run again, it changes nothing and gives the same
//     answer. The same key or id with other content is an error. A caller who repeats a
//     command is told besides that it was one (Replayed; Changed is false; a sweep finds the
//     job ended).
//   - I9 Fail closed: when the ledger cannot be checked, no vendor is called.
//   - I10 No transaction is held across a vendor call or any other network call.
//
// I2 and the account's lock are different mechanisms for different races, and both are
// needed: I2 stops one job from being charged twice; the lock stops two different jobs from
// spending the same credits.
//
// # Amounts and times
//
// Amounts are int64 counts of the smallest credit unit within ±MaxAmount (2^53−1). Times are
// UTC with microseconds, read from the database's clock after the locks are taken.
package ledger
