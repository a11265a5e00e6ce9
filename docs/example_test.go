package docs_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
	"github.com/makegood/makegood/provider"
	"github.com/makegood/makegood/tasks"
)

// Charge an account, run its job on PostgreSQL and Redis, look at what became of it.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	place, err := testenv.OpenPlace(ctx) // a PostgreSQL and a Redis to try it on
	check(err)
	defer place.Close()
	url := migrated(ctx, place.DatabaseURL)
	tasks.DefaultMux = tasks.NewMux() // an example may run twice in a process

	store, err := postgres.Open(ctx, url, postgres.Options{})
	check(err)
	defer store.Close()
	books := ledger.New(store, ledger.Options{})
	defer books.Close()
	rdb, err := tasks.RedisClient(place.RedisURL)
	check(err)
	defer rdb.Close()
	artifacts, err := tasks.OpenArtifacts(ctx, "mem://")
	check(err)
	defer artifacts.Close()
	var running errgroup.Group

	tasks.HandleFunc("image", func(ctx context.Context, job tasks.Job) (tasks.Result, error) {
		job.Progress(10, "mixing the colours")
		picture, err := draw(ctx, job.Input, job.VendorKey)
		return tasks.Result{Outputs: []provider.Output{{ContentType: "image/png", Data: picture}}}, err
	})
	worker := tasks.NewWorker(tasks.WorkerOptions{Ledger: books, Redis: rdb, Artifacts: artifacts})
	running.Go(func() error { return worker.Run(ctx) })

	ada := ledger.AccountName{Tenant: "default", Name: "ada"}
	_, err = books.Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 100, Reason: "welcome"})
	check(err)

	client := tasks.NewClient(books, rdb, tasks.ClientOptions{})
	opened, err := client.Submit(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 5, Key: "order-17",
		Input: json.RawMessage(`{"prompt":"a quiet harbour"}`)})
	check(err)

	job := opened.Job
	for job.End == nil {
		time.Sleep(10 * time.Millisecond)
		job, err = books.Job(ctx, "default", job.ID)
		check(err)
	}
	picture, err := artifacts.Read(ctx, job.End.Result.Artifacts[0].Key)
	check(err)
	size, err := png.DecodeConfig(bytes.NewReader(picture))
	check(err)
	balance, err := books.Balance(ctx, ada)
	check(err)
	fmt.Println(job.End.State, size.Width, "x", size.Height)
	fmt.Println("charged", job.End.Charged, "left", balance.Available)
	stop()
	check(running.Wait())
	// Output:
	// completed 64 x 64
	// charged 5 left 95
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func migrated(ctx context.Context, url string) string {
	db, err := sql.Open("pgx", url)
	check(err)
	defer db.Close()
	_, err = migrations.Up(ctx, db, migrations.Postgres)
	check(err)
	return url
}

// draw stands for a call to whoever makes the picture. The key lets a vendor tell a repetition
// from another order.
func draw(context.Context, json.RawMessage, string) ([]byte, error) {
	harbour := image.NewPaletted(image.Rect(0, 0, 64, 64), color.Palette{color.RGBA{38, 70, 83, 255}})
	var out bytes.Buffer
	err := png.Encode(&out, harbour)
	return out.Bytes(), err
}
