package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider/local"
	"github.com/makegood/makegood/tasks"
)

// answer is what a client was told.
type answer struct {
	submit   submit
	jobID    string // "" when refused
	replayed bool
	code     ledger.Code // of the refusal; "" when accepted
	err      error       // the refusal
	retries  int         // while the ledger was unavailable
	began    time.Time
	ended    time.Time
}

func (a answer) accepted() bool { return a.err == nil }

// ordering makes an order a command.
func (p plan) ordering(o order, tenant string) ledger.OpenJob {
	return ledger.OpenJob{AccountName: ledger.AccountName{Tenant: tenant, Name: p.accounts[o.account].name}, ID: ledger.NewID(),
		Key: o.key, Type: local.Type, Cost: o.cost, Units: o.pictures, Input: o.input, MaxAttempts: o.maxAttempts}
}

// grantAll opens the accounts with their credits.
func (p plan) grantAll(ctx context.Context, a *app.App) error {
	for _, x := range p.accounts {
		if x.grant == 0 {
			continue
		}
		g := ledger.GrantCredits{AccountName: ledger.AccountName{Tenant: a.Config.Tenant, Name: x.name}, Amount: x.grant, Reason: "stress", Key: x.name}
		if _, err := a.Ledger.Grant(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// load sends every submit at its time, however many are still unanswered, as clients do, and
// returns the answers in the order of the plan.
func (p plan) load(ctx context.Context, client *tasks.Client, tenant string, answered func(answer)) ([]answer, error) {
	answers := make([]answer, len(p.submits))
	var clients sync.WaitGroup
	defer clients.Wait()
	began := time.Now()
	for i, s := range p.submits {
		if !pause(ctx, time.Until(began.Add(s.at))) {
			return nil, context.Cause(ctx)
		}
		clients.Go(func() {
			answers[i] = send(ctx, client, s, p.ordering(p.orders[s.order], tenant))
			answered(answers[i])
		})
	}
	clients.Wait()
	return answers, context.Cause(ctx)
}

// retryAfter is the wait before a submit is repeated whose result is unknown, and retries how
// often it is.
const (
	retryAfter = 250 * time.Millisecond
	retries    = 40
)

// send submits once. While the ledger is unavailable it repeats with the same id and key, as
// every client should: the result is unknown until there is an answer.
func send(ctx context.Context, client *tasks.Client, s submit, job ledger.OpenJob) answer {
	a := answer{submit: s, began: time.Now()}
	for {
		opened, err := client.Submit(ctx, job)
		if errors.Is(err, ledger.ErrUnavailable) && a.retries < retries && pause(ctx, retryAfter) {
			a.retries++
			continue
		}
		a.ended, a.err = time.Now(), err
		switch refusal, ok := errors.AsType[*ledger.Error](err); {
		case err == nil:
			a.jobID, a.replayed = opened.Job.ID, opened.Replayed
		case ok:
			a.code = refusal.Code
		default:
			a.code = ledger.CodeInternal
		}
		return a
	}
}

// pause waits; false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return ctx.Err() == nil
	}
}
