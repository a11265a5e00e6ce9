package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/sqlite"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/tasks"
)

// Charge and run a job: a ledger in one file, a queue, one worker. With postgres.Open in place
// of sqlite.Open, and a Redis of its own, the rest stays as it is.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	dir, err := os.MkdirTemp("", "makegood")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	store, err := sqlite.Open(ctx, filepath.Join(dir, "ledger.db"), sqlite.Options{Migrate: true})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	books := ledger.New(store, ledger.Options{Lanes: 1})
	defer books.Close()
	queue, err := miniredis.Run() // any Redis
	if err != nil {
		panic(err)
	}
	defer queue.Close()
	rdb, err := tasks.RedisClient("redis://" + queue.Addr())
	if err != nil {
		panic(err)
	}
	defer rdb.Close()

	// A worker with one generator.
	mux := tasks.NewMux()
	mux.HandleFunc("shout", func(_ context.Context, job tasks.Job) (tasks.Result, error) {
		var in struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(job.Input, &in); err != nil {
			return tasks.Result{}, tasks.Permanent(err)
		}
		return tasks.Result{Text: in.Text + "!"}, nil
	})
	worker := tasks.NewWorker(tasks.WorkerOptions{Ledger: books, Redis: rdb, Mux: mux})
	working, stopWorking := context.WithCancel(ctx)
	stopped := make(chan error, 1)
	go func() { stopped <- worker.Run(working) }()

	// Credits, and a job that costs some.
	ada := ledger.AccountName{Tenant: "default", Name: "ada"}
	if _, err := books.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 20, Reason: "welcome"}); err != nil {
		panic(err)
	}
	client := tasks.NewClient(books, rdb, tasks.ClientOptions{})
	opened, err := client.Submit(ctx, ledger.OpenJob{AccountName: ada, Type: "shout", Cost: 5, Key: "order-17",
		Input: json.RawMessage(`{"text":"hello"}`)})
	if err != nil {
		panic(err)
	}
	job := opened.Job
	for job.End == nil {
		time.Sleep(10 * time.Millisecond)
		if job, err = books.Job(ctx, "default", job.ID); err != nil {
			panic(err)
		}
	}
	balance, err := books.Balance(ctx, ada)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.End.State, *job.End.Result.Text)
	fmt.Println("charged", job.End.Charged, "left", balance.Available)

	// The same key again is the same job, charged once.
	again, err := client.Submit(ctx, ledger.OpenJob{AccountName: ada, Type: "shout", Cost: 5, Key: "order-17",
		Input: json.RawMessage(`{"text":"hello"}`)})
	if err != nil {
		panic(err)
	}
	fmt.Println("same job", again.Job.ID == job.ID)

	stopWorking()
	if err := <-stopped; err != nil {
		panic(err)
	}
	// Output:
	// completed hello!
	// charged 5 left 15
	// same job true
}

// Plug a generator in with one function. What it returns says what is charged, what is tried
// again and what is refunded.
func ExampleHandleFunc() {
	busy := errors.New("all renderers are busy")
	refused := errors.New("the prompt is refused")

	tasks.HandleFunc("poster", func(ctx context.Context, job tasks.Job) (tasks.Result, error) {
		var in struct {
			Prompt string `json:"prompt"`
			N      int    `json:"n"`
		}
		if err := json.Unmarshal(job.Input, &in); err != nil || in.Prompt == "" {
			return tasks.Result{}, tasks.Permanent(refused) // fails at once, refunded
		}
		posters := []provider.Output{}
		for n := range in.N {
			job.Progress(100*n/in.N, fmt.Sprintf("poster %d of %d", n+1, in.N))
			poster, err := render(ctx, in.Prompt, job.VendorKey)
			switch {
			case err != nil && len(posters) > 0: // what there is is delivered and charged, the rest refunded
				cost := job.Cost * int64(len(posters)) / int64(in.N)
				return tasks.Result{Outputs: posters, Units: len(posters), Cost: &cost}, nil
			case errors.Is(err, busy):
				return tasks.Result{}, tasks.RetryAfter(err, 10*time.Second) // tried again then
			case err != nil:
				return tasks.Result{}, err // tried again soon, as long as attempts are left
			}
			posters = append(posters, provider.Output{ContentType: "image/svg+xml", Data: poster})
		}
		return tasks.Result{Outputs: posters}, nil
	})
	// Output:
}

// render stands for a call to whoever makes the picture. It hands the idempotency key on, so
// that a run which is repeated after a crash is not a second picture.
func render(_ context.Context, prompt, _ string) ([]byte, error) {
	return []byte("<svg xmlns='http://www.w3.org/2000/svg'><text>" + prompt + "</text></svg>"), nil
}
