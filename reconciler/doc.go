// Package reconciler ends what nobody else will end. Every minute it looks at all open jobs
// and refunds those that cannot be delivered any more: lost by the queue, abandoned with
// their worker, waited for too long. So a charged job is delivered or made good with nobody
// calling anything (I6, I7).
//
// It decides from the database alone, works while Redis is down, and never calls a vendor.
// What it does with a job is a table, [Policy.Decide]; each decision is an ordinary command
// of package ledger that decides again on the job as it is under lock, so any number of
// sweeps may run at once.
//
// [Verify] is its other half: it reads the whole ledger and names each row that breaks one of
// the invariants I1 to I6.
package reconciler
