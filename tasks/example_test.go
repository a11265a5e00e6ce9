package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/alicebob/miniredis/v2"
	"golang.org/x/sync/errgroup"

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

// What makes posters may say.
var (
	errRefused = errors.New("the prompt is refused")
	errBusy    = errors.New("all renderers are busy")
)

// Plug a generator in with one function. What it returns says what is charged, what is tried
// again and what is refunded.
func ExampleHandleFunc() {
	tasks.DefaultMux = tasks.NewMux() // an example may run twice in a process

	tasks.HandleFunc("poster", func(ctx context.Context, job tasks.Job) (tasks.Result, error) {
		var posters []provider.Output
		for n := range job.Units {
			job.Progress(100*n/job.Units, fmt.Sprintf("poster %d of %d", n+1, job.Units))
			poster, err := render(ctx, job, n)
			switch {
			case errors.Is(err, errRefused):
				return tasks.Result{}, tasks.Permanent(err) // fails at once, all of it is refunded
			case errors.Is(err, errBusy):
				return tasks.Result{}, tasks.RetryAfter(err, 10*time.Millisecond) // tried again then
			case err != nil && n > 0: // what there is is delivered and charged, the rest refunded
				cost := job.Cost * int64(n) / int64(job.Units)
				return tasks.Result{Outputs: posters, Units: n, Cost: &cost}, nil
			case err != nil:
				return tasks.Result{}, err // tried again soon, while attempts are left
			}
			posters = append(posters, provider.Output{ContentType: "image/svg+xml", Data: poster})
		}
		return tasks.Result{Outputs: posters}, nil
	})

	run, closeShop := openShop()
	defer closeShop()
	for _, prompt := range []string{"dunes", "torn", "rude", "busy"} {
		end := run(ledger.OpenJob{Type: "poster", Cost: 6, Units: 3, Input: json.RawMessage(`"` + prompt + `"`)}).End
		fmt.Printf("%s: %s, %d of 3, charged %d, attempts %d\n", prompt, end.Reason, end.Delivered, end.Charged, end.Attempts)
	}
	// Output:
	// dunes: delivered, 3 of 3, charged 6, attempts 1
	// torn: partial, 2 of 3, charged 4, attempts 1
	// rude: vendor_error, 0 of 3, charged 0, attempts 1
	// busy: delivered, 3 of 3, charged 6, attempts 2
}

// render stands for a call to whoever makes the poster. It would hand job.VendorKey on, so that
// a run which is repeated after a crash is not a second poster.
func render(_ context.Context, job tasks.Job, n int) ([]byte, error) {
	switch prompt := string(job.Input); {
	case prompt == `"rude"`:
		return nil, errRefused
	case prompt == `"busy"` && job.Attempt == 1:
		return nil, errBusy
	case prompt == `"torn"` && n == 2:
		return nil, errors.New("the paper tore")
	}
	return []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"), nil
}

// openShop starts a worker and a relay for an account with credits. run submits a job of that
// account and waits for its end.
func openShop() (run func(ledger.OpenJob) ledger.Job, closeShop func()) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	dir, err := os.MkdirTemp("", "makegood")
	must(err)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "ledger.db"), sqlite.Options{Migrate: true})
	must(err)
	quiet := slog.New(slog.DiscardHandler)
	books := ledger.New(store, ledger.Options{Lanes: 1, Logger: quiet})
	queue, err := miniredis.Run()
	must(err)
	rdb, err := tasks.RedisClient("redis://" + queue.Addr())
	must(err)
	artifacts, err := tasks.OpenArtifacts(ctx, "mem://")
	must(err)
	ada := ledger.AccountName{Tenant: "default", Name: "ada"}
	_, err = books.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "welcome"})
	must(err)
	var running errgroup.Group
	running.Go(func() error {
		return tasks.NewWorker(tasks.WorkerOptions{Ledger: books, Redis: rdb, Artifacts: artifacts, Logger: quiet}).Run(ctx)
	})
	running.Go(func() error {
		return tasks.NewRelay(tasks.RelayOptions{Ledger: books, Redis: rdb, Interval: 20 * time.Millisecond, Logger: quiet}).Run(ctx)
	})
	client := tasks.NewClient(books, rdb, tasks.ClientOptions{Logger: quiet})

	run = func(order ledger.OpenJob) ledger.Job {
		order.AccountName = ada
		opened, err := client.Submit(ctx, order)
		must(err)
		job := opened.Job
		for job.End == nil {
			time.Sleep(5 * time.Millisecond)
			job, err = books.Job(ctx, ada.Tenant, job.ID)
			must(err)
		}
		return job
	}
	return run, func() {
		stop()
		must(errors.Join(running.Wait(), artifacts.Close(), rdb.Close()))
		queue.Close()
		books.Close()
		must(errors.Join(store.Close(), os.RemoveAll(dir)))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
