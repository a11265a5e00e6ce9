package ledger

import "time"

// Observer is told what a Ledger did, for those who count and measure. Each function may be
// nil. They are called from several goroutines at once, and the ledger waits for them: they
// must return at once and not call it.
type Observer struct {
	// Batch is told the size of each batch before it is run.
	Batch func(size int)
	// Commit is told of each transaction that was tried.
	Commit func(Commit)
	// Halve is told the size of each batch that failed for good and is run in two halves.
	Halve func(size int)
	// Ended is told of each job that a committed transaction of this Ledger has ended, once,
	// however often the commands were repeated. It must not change the job.
	Ended func(Job)
	// Answer is told of each command's answer, also of one that was refused before it took a
	// place in a batch.
	Answer func(Answer)
}

// Commit is one transaction that was tried.
type Commit struct {
	Commands int // in it
	Took     time.Duration
	Err      error // nil after a commit
	Fate     Fate  // what is known of one that failed; "" when it was rolled back for a panic
}

// Answer is what a command's caller was told.
type Answer struct {
	Command Command
	Value   any   // Opened of OpenJob, Started of StartJob, …; nil with an error
	Err     error // an *Error, or the error of the context of a caller that had gone before
	// Took is the time from the call to the answer, waiting for others included; 0 when the
	// command was refused before it waited.
	Took time.Duration
}

// Load is how much work a Ledger has at a moment.
type Load struct {
	Waiting int // commands that have no place in a batch yet
	Batches int // being run, at most Options.Lanes
}

func (o Observer) batch(size int) {
	if o.Batch != nil {
		o.Batch(size)
	}
}

func (o Observer) commit(commands int, began time.Time, err error) {
	if o.Commit != nil {
		o.Commit(Commit{Commands: commands, Took: time.Since(began), Err: err, Fate: fateOf(err)})
	}
}

func (o Observer) halve(size int) {
	if o.Halve != nil {
		o.Halve(size)
	}
}

// ended reports the jobs that a commit has ended. unsure are those of an earlier try whose
// commit is unknown: what of them this one did not end, that one did.
func (o Observer) ended(jobs, unsure []Job) {
	if o.Ended == nil {
		return
	}
	told := map[string]bool{}
	for _, list := range [][]Job{jobs, unsure} {
		for _, j := range list {
			if !told[j.ID] {
				told[j.ID] = true
				o.Ended(j)
			}
		}
	}
}

func (o Observer) answer(a Answer) {
	if o.Answer != nil {
		o.Answer(a)
	}
}
