// Command stress kills workers with SIGKILL, again and again, while jobs are submitted and
// run, and then accounts for every credit.
//
//	make stress                        # 2 000 jobs, 50 accounts, 3 workers, 20 kills
//	make stress ARGS='-seed 7 -json'   # the same run as another one with this seed
//
// It starts what an installation runs: PostgreSQL, Redis, workers and schedulers as processes
// of their own, built from this tree. One seed decides what is submitted when and which worker
// dies when ([newPlan]); what the machine makes of it is different each time, and must not
// matter. Once all jobs have ended, the rows of the ledger are read with plain SQL ([books])
// and held against the plan and against the answers that the clients were given ([checkAll]).
// The exit code is 0 only if everything holds.
package main
