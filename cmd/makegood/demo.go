package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/embeddedredis"
	"github.com/makegood/makegood/internal/telemetry"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/provider/local"
)

// demoCmd is a tour of what the product is for, with real processes that really die. It
// checks itself: exit 0 means that everything came out as it should.
type demoCmd struct {
	Prompts string `placeholder:"FILE" help:"One job a line; a dozen of its own if not given."`
	Out     string `help:"Where pictures, contact.png and report.json go; ./demo-out/<ulid>/ if not given."`
}

// The demo's patience is seconds where a real installation's is minutes.
const (
	demoOrphan   = 4 * time.Second
	demoLease    = 1500 * time.Millisecond
	demoDuration = 900 * time.Millisecond // a picture, artificially
	demoTimeout  = 60 * time.Second
	demoLook     = 100 * time.Millisecond // between reads of a job that is waited for
)

// demo is one tour under way.
type demo struct {
	*cli
	dir     string
	app     *app.App
	environ []string
	started time.Time

	jobs   []string          // ids in the order of submission
	titles map[string]string // by id
	ended  map[string]ledger.Job
	faults []string // what is not as it should be

	survivor, orphan, doomed string // job ids
	refused, replayed        bool
	leftOut                  []string // lines of the prompts file, and why
}

func (cmd *demoCmd) Run(ctx context.Context, c *cli) error {
	if cmd.Out == "" {
		cmd.Out = filepath.Join("demo-out", ledger.NewID())
	}
	if err := os.MkdirAll(cmd.Out, 0o755); err != nil {
		return err
	}
	d := &demo{cli: c, dir: cmd.Out, titles: map[string]string{}, ended: map[string]ledger.Job{}, started: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	shut, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer shut()
	lines, err := d.readPrompts(cmd.Prompts)
	if err != nil {
		return err
	}
	if err := d.tour(ctx, lines); err != nil {
		return err
	}
	if err := d.finish(ctx); err != nil {
		return err
	}
	if len(d.faults) > 0 {
		for _, fault := range d.faults {
			fmt.Fprintln(d.err, "NOT AS IT SHOULD BE:", fault)
		}
		return exitError(app.ExitFailed)
	}
	d.say("everything is as it should be")
	return nil
}

// open starts the embedded Redis and the ledger, and settles what the children inherit.
func (d *demo) open(ctx context.Context) (shut func(), err error) {
	cfg, err := d.For(config.Demo)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(d.dir)
	if err != nil {
		return nil, err
	}
	server, err := embeddedredis.Start()
	if err != nil {
		return nil, err
	}
	cfg.DatabaseURL, cfg.MigrateDatabaseURL = "sqlite:"+filepath.Join(dir, "demo.db"), ""
	cfg.RedisURL, cfg.ArtifactsURL, cfg.ListenAddr = server.URL(), "file://"+filepath.Join(dir, "artifacts"), ""
	cfg.OrphanThreshold, cfg.LeaseTTL, cfg.RelayInterval = demoOrphan, demoLease, 200*time.Millisecond
	cfg.SweepInterval, cfg.AttemptTimeout, cfg.ShutdownTimeout = 500*time.Millisecond, 20*time.Second, 2*time.Second
	cfg.WorkerConcurrency, cfg.MaxAttempts = 3, 3
	log, err := telemetry.Logger(d.err, "error", cfg.LogFormat)
	if err != nil {
		return nil, err
	}
	if _, err := app.Migrate(ctx, cfg); err != nil {
		return nil, err
	}
	if d.app, err = app.Open(ctx, cfg, log); err != nil {
		return nil, err
	}
	d.environ = append(append(os.Environ(), cfg.Environ()...), app.SlowVar+"="+demoDuration.String())
	return func() { d.app.Close(); server.Close() }, nil
}

// tour is the story.
func (d *demo) tour(ctx context.Context, lines []promptLine) error {
	d.say("the demo's patience: leases of %s, orphans refunded after %s (5m by default)", demoLease, demoOrphan)
	if err := d.grants(ctx, lines); err != nil {
		return err
	}
	scheduler, err := d.spawn("scheduler")
	if err != nil {
		return err
	}
	defer scheduler.stop()
	first, err := d.spawn("worker")
	if err != nil {
		return err
	}
	defer first.stop()
	if err := d.killHalfWay(ctx, first); err != nil {
		return err
	}
	second, err := d.spawn("worker")
	if err != nil {
		return err
	}
	defer second.stop()
	third, err := d.spawn("worker")
	if err != nil {
		return err
	}
	defer third.stop()
	d.say("two workers run: processes %d and %d", second.pid(), third.pid())
	if err := d.submitAll(ctx, lines); err != nil {
		return err
	}
	return d.watch(ctx)
}

// grants gives every account what its jobs will cost.
func (d *demo) grants(ctx context.Context, lines []promptLine) error {
	want := map[string]int64{"ada": 3 * local.DefaultPrice, "linus": local.DefaultPrice - 1}
	for _, line := range lines {
		want[line.Account] += line.cost
	}
	for _, account := range slices.Sorted(maps.Keys(want)) {
		amount := want[account]
		g := ledger.GrantCredits{AccountName: d.name(account), Amount: amount, Reason: "demo", Key: "demo-" + account}
		if _, err := d.app.Ledger.Grant(ctx, g); err != nil {
			return err
		}
		d.say("granted %s credits to %s", d.credits(amount), account)
	}
	return nil
}

// killHalfWay runs two jobs on one worker and kills it in the middle of both. One has
// attempts left and finishes elsewhere; the other was in its last and becomes an orphan.
func (d *demo) killHalfWay(ctx context.Context, worker *child) error {
	var err error
	if d.survivor, err = d.submit(ctx, "ada", "a lighthouse that survives the storm", 3); err != nil {
		return err
	}
	if d.orphan, err = d.submit(ctx, "ada", "a ship that sails once", 1); err != nil {
		return err
	}
	for _, id := range []string{d.survivor, d.orphan} {
		if err := d.await(ctx, id, func(j ledger.Job) bool { return j.State() == ledger.StateRunning }); err != nil {
			return err
		}
	}
	d.say("kill -9 %d: the worker dies in the middle of two jobs, one of them in its last attempt", worker.pid())
	worker.kill()
	return nil
}

// submitAll sends the prompts, and with them what must be refused, repeated, and fail.
func (d *demo) submitAll(ctx context.Context, lines []promptLine) error {
	var err error
	if d.doomed, err = d.submit(ctx, "ada", "a picture that cannot be made "+app.FailWord, 3); err != nil {
		return err
	}
	if err := d.overspend(ctx); err != nil {
		return err
	}
	for i, line := range lines {
		key := line.Key
		if key == "" {
			key = fmt.Sprintf("line-%d", line.n)
		}
		id, err := d.order(ctx, line.Account, line.input, key, 3)
		if errors.Is(err, ledger.ErrKeyReused) { // by another line of the file
			d.leaveOut(line.n, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line.n, err)
		}
		d.titles[id] = line.Prompt
		if i == 0 {
			d.repeat(ctx, line, key, id)
		}
	}
	d.say("submitted %d jobs", len(d.jobs))
	return nil
}

// overspend orders what costs one credit more than the account has.
func (d *demo) overspend(ctx context.Context) error {
	const account = "linus"
	balance, err := d.app.Ledger.Balance(ctx, d.name(account))
	if err != nil {
		return err
	}
	order, err := d.orderOf(account, local.Type, json.RawMessage(`{"prompt":"a picture that nobody paid for"}`))
	if err != nil {
		return err
	}
	order.Cost = balance.Available + 1
	_, err = d.app.Client.Submit(ctx, order)
	switch {
	case err == nil:
		d.fault("%s was charged without having the credits", account)
	case errors.Is(err, ledger.ErrInsufficientCredits):
		d.refused = true
		d.say("refused: %s, %s", account, d.told(err))
	default:
		return err
	}
	return nil
}

// repeat sends a job again under its key.
func (d *demo) repeat(ctx context.Context, line promptLine, key, id string) {
	again, err := d.order(ctx, line.Account, line.input, key, 3)
	if err != nil || again != id {
		d.fault("the same key made another job: %s and %s, %v", id, again, err)
		return
	}
	d.replayed = true
	d.say("sent %s twice under one key: one job, charged once", id)
}
