package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Place is a schema and a Redis database that belong to one program, as those of [Postgres]
// and [Redis] belong to one test.
type Place struct {
	DatabaseURL string // superuser; its search_path is the schema
	RedisURL    string

	closers []func() error // in the order of opening
}

// OpenPlace makes a place on the servers that TEST_DATABASE_URL and TEST_REDIS_URL name. What
// they do not name is started, flushing to disk, and ends with Close or with this process.
func OpenPlace(ctx context.Context) (*Place, error) {
	p := &Place{}
	if err := p.open(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Place) open(ctx context.Context) error {
	superURL, sharedURL := os.Getenv(DatabaseVar), os.Getenv(RedisVar)
	opts := []Option{Durable()}
	if superURL != "" {
		opts = append(opts, RedisOnly())
	}
	if sharedURL != "" {
		opts = append(opts, PostgresOnly())
	}
	servers, err := Start(ctx, opts...)
	if err != nil {
		return err
	}
	p.closers = append(p.closers, servers.Stop)
	if superURL == "" {
		superURL = servers.DatabaseURL
	}
	if sharedURL == "" {
		sharedURL = servers.RedisURL
	}
	schema, ownURL, err := createSchema(ctx, superURL)
	if err != nil {
		return fmt.Errorf("create a schema: %w", err)
	}
	p.DatabaseURL = ownURL
	p.closers = append(p.closers, func() error { return dropSchema(superURL, schema) })
	n, err := claimDatabase(ctx, sharedURL)
	if err != nil {
		return fmt.Errorf("claim a Redis database: %w", err)
	}
	p.closers = append(p.closers, func() error { return releaseDatabase(sharedURL, n) })
	p.RedisURL, err = databaseURL(sharedURL, n)
	return err
}

// Close removes the schema, empties the Redis database, and ends what was started.
func (p *Place) Close() error {
	var errs []error
	for ; len(p.closers) > 0; p.closers = p.closers[:len(p.closers)-1] {
		errs = append(errs, p.closers[len(p.closers)-1]())
	}
	return errors.Join(errs...)
}
