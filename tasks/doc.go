// Package tasks carries jobs through asynq: it wakes workers up, and the ledger decides.
//
// asynq delivers at least once and has no fencing token, so nothing here believes it. A
// delivery becomes an attempt only by StartJob's verdict; its end counts only by CompleteJob,
// FailJob or YieldJob. A lost task costs time and never credits: the job row is the outbox,
// the Relay enqueues what Redis does not have, and the Watcher puts back what a dead worker
// left.
//
// The parts: Client submits, Worker runs, Relay enqueues, Watcher watches leases. The last
// three have one Run(ctx) that ends with its context; an error of Redis or of the ledger
// never ends it.
//
// A handler is a function:
//
//	tasks.HandleFunc("image", func(ctx context.Context, job tasks.Job) (tasks.Result, error) {
//		picture, err := draw(ctx, job.Input)
//		return tasks.Result{Outputs: []provider.Output{{ContentType: "image/png", Data: picture}}}, err
//	})
//
// Logs name the job, account, attempt, epoch and worker, and never an input, an output or what
// a vendor said about them: that is in the job, where it can be erased.
package tasks

// What the queue carries. The queue's name never changes: asynq sees no conflict of task ids
// across queues.
const (
	Queue      = "makegood"
	TypeJob    = "makegood:job"    // payload: a job id, alone
	TypeCharge = "makegood:charge" // payload: a Charge, opened by the worker
)
