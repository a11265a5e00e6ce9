package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/internal/testenv"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/migrations"
)

// Charge inside your own transaction: the order and its charge commit together or not at all.
//
// There is no group commit then, and the account's lock is held until your transaction ends,
// so end it soon. The relay queues the job within a second of the commit.
func ExampleStore_WithTx() {
	ctx := context.Background()
	place, err := testenv.OpenPlace(ctx) // a PostgreSQL to try it on
	if err != nil {
		panic(err)
	}
	defer place.Close()
	migrate(ctx, place.DatabaseURL)
	store, err := postgres.Open(ctx, place.DatabaseURL, postgres.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	conn, err := pgx.Connect(ctx, place.DatabaseURL)
	if err != nil {
		panic(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "CREATE TABLE orders (number int PRIMARY KEY, job_id text NOT NULL)"); err != nil {
		panic(err)
	}
	ada := ledger.AccountName{Tenant: "default", Name: "ada"}
	if _, err := ledger.Direct(store).Grant(ctx, ledger.GrantCredits{AccountName: ada, Amount: 12, Reason: "welcome"}); err != nil {
		panic(err)
	}

	order := func(number int) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			books := ledger.Direct(store.WithTx(tx))
			opened, err := books.Open(ctx, ledger.OpenJob{AccountName: ada, Type: "image", Cost: 5})
			if err != nil {
				return err // the order is not stored either
			}
			_, err = tx.Exec(ctx, "INSERT INTO orders VALUES ($1, $2)", number, opened.Job.ID)
			return err // a number that is taken takes the charge back
		})
	}
	fmt.Println("first:", order(1))
	fmt.Println("the same number:", order(1) != nil)
	fmt.Println("second:", order(2))
	fmt.Println("third, for lack of credits:", errors.Is(order(3), ledger.ErrInsufficientCredits))

	var orders int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM orders").Scan(&orders); err != nil {
		panic(err)
	}
	balance, err := store.Balance(ctx, ada)
	if err != nil {
		panic(err)
	}
	fmt.Println(orders, "orders,", balance.Available, "credits left")
	// Output:
	// first: <nil>
	// the same number: true
	// second: <nil>
	// third, for lack of credits: true
	// 2 orders, 2 credits left
}

func migrate(ctx context.Context, url string) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		panic(err)
	}
	defer db.Close()
	if _, err := migrations.Up(ctx, db, migrations.Postgres); err != nil {
		panic(err)
	}
}
