package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
)

type jobCmd struct {
	Submit jobSubmitCmd `cmd:"" help:"Charge an account and queue a job."`
	Show   jobShowCmd   `cmd:"" help:"Everything that happened to a job."`
	Watch  jobWatchCmd  `cmd:"" help:"Follow a job until it ends."`
	Cancel jobCancelCmd `cmd:"" help:"Cancel a job; a queued one is refunded at once."`
	List   jobListCmd   `cmd:"" help:"List jobs, newest first."`
	Credit jobCreditCmd `cmd:"" help:"Give credits back for a delivered but bad job."`
}

type jobSubmitCmd struct {
	Account  string            `required:"" help:"Who pays."`
	Type     string            `required:"" help:"What is made, such as image."`
	Prompt   string            `xor:"input" help:"Short for --input '{\"prompt\":\"…\"}'."`
	Input    string            `xor:"input" help:"JSON, @FILE, or - for standard input."`
	Cost     *ledger.Amount    `help:"Credits; what the generator asks if not given."`
	Key      string            `help:"Your own name for this job: the same again charges nothing."`
	RetryOf  string            `help:"The ended job that this one tries again."`
	Metadata map[string]string `help:"k=v, kept with the job."`
	Wait     bool              `help:"Wait for the job to end; exit 1 if it is not delivered."`
}

func (cmd *jobSubmitCmd) Run(ctx context.Context, c *cli) error {
	input, err := cmd.input(c.in)
	if err != nil {
		return err
	}
	return c.with(ctx, func(a *app.App) error {
		order, err := cmd.order(c, a, input)
		if err != nil {
			return err
		}
		opened, err := a.Client.Submit(ctx, order)
		if err != nil {
			return err
		}
		if opened.Job.End == nil {
			c.warnIfNobodyRuns(ctx, a)
		}
		if cmd.Wait {
			return c.wait(ctx, a, opened.Job.ID)
		}
		return c.showJob(ctx, a, opened.Job)
	})
}

// input is what was given to make, at most one byte more than is allowed.
func (cmd *jobSubmitCmd) input(stdin io.Reader) (json.RawMessage, error) {
	source := stdin
	switch {
	case cmd.Prompt != "":
		return json.Marshal(map[string]string{"prompt": cmd.Prompt})
	case cmd.Input == "":
		return nil, ledger.Invalid("input", "say what to make with --prompt or --input")
	case cmd.Input == "-":
	case strings.HasPrefix(cmd.Input, "@"):
		file, err := os.Open(cmd.Input[1:])
		if err != nil {
			return nil, ledger.Invalid("input", err.Error())
		}
		defer file.Close()
		source = file
	default:
		return json.RawMessage(cmd.Input), nil
	}
	raw, err := io.ReadAll(io.LimitReader(source, ledger.MaxInputLen+1))
	if err != nil {
		return nil, ledger.Invalid("input", err.Error())
	}
	return raw, nil
}

func (cmd *jobSubmitCmd) order(c *cli, a *app.App, input json.RawMessage) (order ledger.OpenJob, err error) {
	order = ledger.OpenJob{AccountName: c.name(cmd.Account), Type: cmd.Type, Key: cmd.Key, Input: input, RetryOf: cmd.RetryOf,
		MaxAttempts: a.Config.MaxAttempts, MaxWait: a.Config.MaxWait} // --max-wait is a setting too
	if order.Cost, order.Units, err = a.Estimate(cmd.Type, input); err != nil {
		return order, err
	}
	if cmd.Cost != nil {
		order.Cost = int64(*cmd.Cost)
	}
	if len(cmd.Metadata) > 0 {
		order.Metadata, err = json.Marshal(cmd.Metadata)
	}
	return order, err
}

// warnIfNobodyRuns tells why a job that was accepted may wait for long.
func (c *cli) warnIfNobodyRuns(ctx context.Context, a *app.App) {
	relays, err := a.Ledger.Relays(ctx)
	if err != nil {
		return // the job is accepted all the same
	}
	now, err := a.Ledger.Now(ctx)
	if err != nil {
		return
	}
	switch queue := reconciler.HealthOf(relays, now); {
	case queue.Out():
		fmt.Fprintf(c.err, "makegood: accepted; the job waits for Redis, which the scheduler last reached at %s\n", shape.Clock(queue.OutSince))
	case !queue.Reached():
		fmt.Fprintln(c.err, "makegood: accepted; the job waits for a scheduler and a worker: start `makegood up`, or both of them")
	}
}

func (c *cli) showJob(ctx context.Context, a *app.App, j ledger.Job) error {
	s, err := a.Job(ctx, j)
	if err != nil {
		return err
	}
	return c.show(s, func() { c.printJob(s) })
}

// printJob shows one job to a person.
func (c *cli) printJob(s shape.Job) {
	fmt.Fprintf(c.out, "%s  %s  %s", s.ID, s.Account, s.State)
	if s.EndReason != "" {
		fmt.Fprintf(c.out, " (%s)", string(s.EndReason))
	}
	fmt.Fprintf(c.out, "  held %s, charged %s, refunded %s\n", c.credits(s.Cost.Held), c.credits(s.Cost.Charged), c.credits(s.Cost.Refunded))
	if s.Error != nil {
		fmt.Fprintln(c.out, "  error:", s.Error.Message)
	}
	if s.Result != nil {
		for _, a := range s.Result.Artifacts {
			fmt.Fprintln(c.out, " ", a.URL)
		}
	}
}

type jobShowCmd struct {
	ID string `arg:"" help:"The job."`
}

func (cmd *jobShowCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		story, err := a.JobStory(ctx, c.Tenant, cmd.ID)
		if err != nil {
			return err
		}
		return c.show(story, func() { c.printStory(story) })
	})
}

func (c *cli) printStory(s shape.JobStory) {
	c.printJob(s.Job)
	if len(s.Flags) > 0 {
		fmt.Fprintln(c.out, "  flags:", strings.Join(s.Flags, ", "))
	}
	moments := shape.Timeline(s, c.credits)
	rows := make([][]string, 0, len(moments))
	for _, m := range moments {
		rows = append(rows, []string{shape.Clock(m.At), m.What, m.Details})
	}
	fmt.Fprintln(c.out)
	c.table([]string{"time (UTC)", "what", "details"}, rows)
	if s.Evidence != nil {
		fmt.Fprintf(c.out, "\nevidence: %s\n", s.Evidence)
	}
}

type jobWatchCmd struct {
	ID string `arg:"" help:"The job."`
}

func (cmd *jobWatchCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		_, err := c.follow(ctx, a, cmd.ID, func(s shape.Job) {
			_ = c.show(s, func() {
				fmt.Fprintf(c.out, "%3d %% %-24s ", s.Progress.Percent, s.Progress.Text)
				c.printJob(s)
			})
		})
		return err
	})
}

// wait follows a job on stderr and prints how it ended.
func (c *cli) wait(ctx context.Context, a *app.App, id string) error {
	waiting := c.progress(id)
	last, err := c.follow(ctx, a, id, func(s shape.Job) {
		waiting.set("%s  %s  %d %%  %s", id, s.State, s.Progress.Percent, s.Progress.Text)
	})
	waiting.stop()
	if last.ID == "" {
		return err
	}
	_ = c.show(last, func() { c.printJob(last) })
	return err
}

// lookEvery is how often somebody who waits for a job reads it.
const lookEvery = 200 * time.Millisecond

// follow reads a job until it ends, and tells each change. It returns the job as it ended; one
// that was not delivered ends the program with ExitFailed.
func (c *cli) follow(ctx context.Context, a *app.App, id string, tell func(shape.Job)) (shape.Job, error) {
	for seen := ""; ; {
		j, err := a.Ledger.Job(ctx, c.Tenant, id)
		if err != nil {
			return shape.Job{}, err
		}
		s, err := a.Job(ctx, j)
		if err != nil {
			return shape.Job{}, err
		}
		if now := fmt.Sprint(s.State, s.Attempts, s.Progress); now != seen {
			seen = now
			tell(s)
		}
		if j.End != nil && j.End.State != ledger.StateCompleted {
			return s, exitError(app.ExitFailed)
		}
		if j.End != nil {
			return s, nil
		}
		if err := pause(ctx, lookEvery); err != nil {
			return shape.Job{}, err
		}
	}
}

// pause waits, or returns the error of a context that ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

type jobCancelCmd struct {
	ID string `arg:"" help:"The job."`
}

func (cmd *jobCancelCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		cancelled, err := a.Ledger.Cancel(ctx, ledger.CancelJob{Tenant: c.Tenant, JobID: cmd.ID})
		if err != nil {
			return err
		}
		return c.showJob(ctx, a, cancelled.Job)
	})
}

type jobListCmd struct {
	Account string    `help:"Of this account."`
	State   *string   `enum:"queued,running,completed,failed,refunded" help:"queued, running, completed, failed or refunded."`
	Type    string    `help:"Of this type."`
	Since   time.Time `help:"Opened since (RFC 3339)."`
	Flagged bool      `help:"Only jobs with a flag: what somebody should look at."`
	pageFlags
}

func (cmd *jobListCmd) Run(ctx context.Context, c *cli) error {
	page, err := shape.PageOf(cmd.Limit, cmd.Cursor)
	if err != nil {
		return err
	}
	return c.with(ctx, func(a *app.App) error {
		if cmd.Account != "" {
			if _, err := a.Ledger.Account(ctx, c.name(cmd.Account)); err != nil {
				return err
			}
		}
		filter := ledger.JobFilter{Tenant: c.Tenant, Account: cmd.Account, Type: cmd.Type, Since: cmd.Since}
		if cmd.State != nil {
			filter.State = ledger.State(*cmd.State)
		}
		list, err := a.Jobs(ctx, filter, cmd.Flagged, page)
		if err != nil {
			return err
		}
		defer c.more(list.NextCursor)
		return c.show(list, func() { c.printJobs(list.Data) })
	})
}

func (c *cli) printJobs(jobs []shape.Job) {
	rows := make([][]string, 0, len(jobs))
	for _, s := range jobs {
		rows = append(rows, []string{s.ID, s.Account, s.Type, string(s.State), string(s.EndReason), strconv.Itoa(s.Attempts),
			c.credits(s.Cost.Charged), c.credits(s.Cost.Refunded), strings.Join(s.Flags, " ")})
	}
	c.table([]string{"job", "account", "type", "state", "why", "attempts", "charged", "refunded", "flags"}, rows)
}

type jobCreditCmd struct {
	ID     string        `arg:"" help:"The job."`
	Amount ledger.Amount `arg:"" help:"Credits, more than 0, at most what the job was charged."`
	Reason string        `required:"" help:"Why, in a few words."`
	Actor  string        `required:"" help:"Who answers for it."`
	Key    string        `help:"Your own name for this credit: the same again gives nothing."`
}

func (cmd *jobCreditCmd) Run(ctx context.Context, c *cli) error {
	return c.with(ctx, func(a *app.App) error {
		adjusted, err := a.Ledger.CreditJob(ctx, ledger.AdjustCredits{AccountName: ledger.AccountName{Tenant: c.Tenant}, Key: cmd.Key,
			Amount: int64(cmd.Amount), AboutJob: cmd.ID, Reason: cmd.Reason, Actor: cmd.Actor})
		if err != nil {
			return err
		}
		return c.showAdjusted(ctx, a, adjusted)
	})
}
