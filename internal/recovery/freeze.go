package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/fleet"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/ledger/postgres"
	"github.com/makegood/makegood/provider/local"
)

// freezeVar makes this program the one that freezes.
const freezeVar = "MAKEGOOD_RECOVERY_FREEZE"

func freezing() bool { return os.Getenv(freezeVar) != "" }

// locked is what it says once it holds the account's lock.
const locked = "locked"

// freeze charges the account in a transaction of its own and stops itself before the commit.
func freeze() int {
	err := freezeIn(context.Background(), os.Getenv("DATABASE_URL"), os.Getenv("TENANT"))
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// freezeIn returns only when something is wrong.
func freezeIn(ctx context.Context, url, tenant string) error {
	cfg, err := postgres.Config(url, postgres.Options{})
	if err != nil {
		return err
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	store, err := postgres.OpenPool(ctx, pool, postgres.Options{})
	if err != nil {
		return err
	}
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	_, err = ledger.Direct(store.WithTx(tx)).Open(ctx, ledger.OpenJob{AccountName: ledger.AccountName{Tenant: tenant, Name: account},
		Key: fmt.Sprintf("frozen-%d", os.Getpid()), Type: local.Type, Cost: cost})
	if err != nil {
		return err
	}
	fmt.Println(locked)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	time.Sleep(time.Hour) // the other threads may be stopped before this one
	return errors.New("it was thawed")
}

// startFrozen starts the process that freezes, and returns once it holds the lock.
func (s *site) startFrozen(n int) (*fleet.Process, error) {
	p, err := s.fleet.Start(frozenProgram, n, freezeVar+"=1")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeoutCause(s.ctx, readyWithin, errors.New("the process that is to freeze does not hold the lock"))
	defer stop()
	for p.Tail() != locked {
		if !pause(ctx, time.Millisecond) {
			return nil, context.Cause(ctx)
		}
	}
	return p, nil
}

// frozenProgram is this program itself, among the others.
const frozenProgram = "frozen"

func installFrozen(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return os.Symlink(self, filepath.Join(dir, frozenProgram))
}

// freezeTransactions has a process freeze while it holds an account's lock, and measures
// everybody's submits: on that account, and on another one.
func (s *site) freezeTransactions() ([]finding, error) {
	const other = "bob"
	if err := s.grant(s.ctx, other); err != nil {
		return nil, err
	}
	var same, others []time.Duration
	for n := range s.freezes {
		s.say("freeze %d of %d", n+1, s.freezes)
		f, err := s.startFrozen(n)
		if err != nil {
			return nil, err
		}
		onSame, onOthers, err := s.submitWhileFrozen(account, other)
		if err := errors.Join(err, f.Kill()); err != nil {
			return nil, err
		}
		same, others = append(same, onSame...), append(others, onOthers...)
	}
	var ghosts int
	if err := s.db.QueryRow(s.ctx, `SELECT count(*) FROM jobs WHERE key LIKE 'frozen-%'`).Scan(&ghosts); err != nil {
		return nil, err
	}
	wrong := []string{}
	if ghosts > 0 {
		wrong = append(wrong, fmt.Sprintf("%d charges of frozen processes were committed", ghosts))
	}
	report, err := app.Verify(s.ctx, s.client.Config, "", nil)
	if err != nil {
		return nil, err
	}
	for _, b := range report.Broken {
		wrong = append(wrong, fmt.Sprintf("verify: %s %s %s: %s", b.Invariant, b.Table, b.ID, b.Detail))
	}
	targets := []target{must(most, 3*time.Second)}
	return []finding{
		{name: "frozen_transaction", what: "process frozen in a transaction: submit on its account", samples: same, targets: targets,
			nothing: []nothing{{"faults", wrong}}},
		{name: "frozen_transaction.others", what: "  submit on another account", samples: others, targets: targets},
	}, nil
}

// submitWhileFrozen submits on two accounts from several callers at once, each one submit
// after the other, and times each.
func (s *site) submitWhileFrozen(accounts ...string) (same, others []time.Duration, err error) {
	var mu sync.Mutex
	took := map[string][]time.Duration{}
	var failures []error
	var callers sync.WaitGroup
	for _, name := range accounts {
		for range s.freezeCallers {
			callers.Go(func() {
				for range s.submitsOfCalls {
					began := time.Now()
					_, err := s.client.Ledger.Open(s.ctx, ledger.OpenJob{AccountName: s.holder(name), Type: local.Type, Cost: cost})
					mu.Lock()
					took[name], failures = append(took[name], time.Since(began)), append(failures, err)
					mu.Unlock()
				}
			})
		}
	}
	callers.Wait()
	return took[accounts[0]], took[accounts[1]], errors.Join(failures...)
}
