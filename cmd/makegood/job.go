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
	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
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
	Wait     bool              `help:"Wait for the job to end."`
}

func (cmd *jobSubmitCmd) input() (json.RawMessage, error) {
	switch {
	case cmd.Prompt != "":
		return json.Marshal(map[string]string{"prompt": cmd.Prompt})
	case cmd.Input == "-":
		return io.ReadAll(io.LimitReader(os.Stdin, ledger.MaxInputLen+1))
	case strings.HasPrefix(cmd.Input, "@"):
		return os.ReadFile(cmd.Input[1:])
	case cmd.Input == "":
		return nil, ledger.Invalid("input", "say what to make with --prompt or --input")
	}
	return json.RawMessage(cmd.Input), nil
}

func (cmd *jobSubmitCmd) Run(ctx context.Context, c *cli) error {
	input, err := cmd.input()
	if err != nil {
		return err
	}
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	order := ledger.OpenJob{AccountName: c.name(cmd.Account), Type: cmd.Type, Key: cmd.Key, Input: input, RetryOf: cmd.RetryOf,
		MaxAttempts: a.Config.MaxAttempts, MaxWait: a.Config.MaxWait} // --max-wait is a setting too
	if order.Cost, order.Units, err = a.Estimate(cmd.Type, input); err != nil {
		return err
	}
	if cmd.Cost != nil {
		order.Cost = int64(*cmd.Cost)
	}
	if len(cmd.Metadata) > 0 {
		if order.Metadata, err = json.Marshal(cmd.Metadata); err != nil {
			return err
		}
	}
	opened, err := a.Client.Submit(ctx, order)
	if err != nil {
		return err
	}
	if cmd.Wait {
		return c.follow(ctx, a, opened.Job.ID, false)
	}
	return c.showJob(ctx, a, opened.Job)
}

// shaped gathers what a job's shape needs.
func shaped(ctx context.Context, a *app.App, j ledger.Job) (shape.Job, error) {
	balance, err := a.Ledger.Balance(ctx, ledger.AccountName{Tenant: j.Tenant, Name: j.Account})
	if err != nil {
		return shape.Job{}, err
	}
	credited, err := a.Ledger.Credited(ctx, j.ID)
	if err != nil {
		return shape.Job{}, err
	}
	dir := a.Config.ArtifactsDir()
	return shape.JobOf(j, balance, credited, func(key string) string { return dir + "/" + key }), nil
}

func (c *cli) showJob(ctx context.Context, a *app.App, j ledger.Job) error {
	s, err := shaped(ctx, a, j)
	if err != nil {
		return err
	}
	if c.JSON {
		printJSON(os.Stdout, s)
	} else {
		c.printJob(s)
	}
	return nil
}

type jobShowCmd struct {
	ID string `arg:""`
}

func (cmd *jobShowCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	j, err := a.Ledger.Job(ctx, c.Tenant, cmd.ID)
	if err != nil {
		return err
	}
	s, err := shaped(ctx, a, j)
	if err != nil {
		return err
	}
	entries, err := a.Ledger.JobEntries(ctx, j.ID)
	if err != nil {
		return err
	}
	attempts, err := a.Ledger.Attempts(ctx, j.ID)
	if err != nil {
		return err
	}
	calls, err := a.Ledger.Calls(ctx, j.ID)
	if err != nil {
		return err
	}
	story := shape.StoryOf(s, j, entries, attempts, calls)
	if c.JSON {
		printJSON(os.Stdout, story)
		return nil
	}
	c.printJob(s)
	c.printStory(story)
	return nil
}

func (c *cli) printStory(s shape.JobStory) {
	rows := make([][]string, 0, len(s.Entries))
	for _, e := range s.Entries {
		after := ""
		if e.BalanceAfter != nil {
			after = c.credits(*e.BalanceAfter)
		}
		rows = append(rows, []string{shape.Clock(time.Time(e.CreatedAt)), string(e.Kind), fmt.Sprintf("%+d", e.Delta), after, e.Reason, e.Actor})
	}
	fmt.Println()
	table(os.Stdout, []string{"time (UTC)", "entry", "credits", "balance", "reason", "actor"}, rows)
	rows = rows[:0]
	for _, t := range s.AttemptLog {
		rows = append(rows, []string{strconv.Itoa(t.N), strconv.Itoa(t.Epoch), shape.Clock(time.Time(t.StartedAt)), shape.Clock(time.Time(t.EndedAt)), string(t.Outcome), t.Worker})
	}
	if len(rows) > 0 {
		fmt.Println()
		table(os.Stdout, []string{"attempt", "epoch", "started", "ended", "outcome", "worker"}, rows)
	}
	if s.Evidence != nil {
		fmt.Println("\nevidence:", string(s.Evidence))
	}
}

type jobWatchCmd struct {
	ID string `arg:""`
}

func (cmd *jobWatchCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	return c.follow(ctx, a, cmd.ID, true)
}

// follow reads a job until it ends; each change is shown if asked. A job that was not
// delivered ends the program with exitFailed.
func (c *cli) follow(ctx context.Context, a *app.App, id string, each bool) error {
	seen := ""
	for {
		j, err := a.Ledger.Job(ctx, c.Tenant, id)
		if err != nil {
			return err
		}
		s, err := shaped(ctx, a, j)
		if err != nil {
			return err
		}
		now := fmt.Sprint(s.State, s.Attempts, s.Progress)
		if j.End != nil || (each && now != seen) {
			if c.JSON {
				printJSON(os.Stdout, s)
			} else {
				fmt.Printf("%3d %% %-24s ", s.Progress.Percent, s.Progress.Text)
				c.printJob(s)
			}
			seen = now
		}
		if j.End != nil {
			if j.End.State != ledger.StateCompleted {
				return exitError(exitFailed)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

type jobCancelCmd struct {
	ID string `arg:""`
}

func (cmd *jobCancelCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	cancelled, err := a.Ledger.Cancel(ctx, ledger.CancelJob{Tenant: c.Tenant, JobID: cmd.ID})
	if err != nil {
		return err
	}
	return c.showJob(ctx, a, cancelled.Job)
}

type jobListCmd struct {
	Account string    `help:"Of this account."`
	State   string    `help:"queued, running, completed, failed or refunded."`
	Type    string    `help:"Of this type."`
	Since   time.Time `help:"Opened since (RFC 3339)."`
	Limit   int       `default:"50" help:"Rows, 1 to 200."`
	Cursor  string    `help:"The next_cursor of the page before."`
}

func (cmd *jobListCmd) Run(ctx context.Context, c *cli) error {
	page, err := pageOf(cmd.Limit, cmd.Cursor)
	if err != nil {
		return err
	}
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	jobs, err := a.Ledger.Jobs(ctx, ledger.JobFilter{Tenant: c.Tenant, Account: cmd.Account, Type: cmd.Type,
		State: ledger.State(cmd.State), Since: cmd.Since}, page)
	if err != nil {
		return err
	}
	list := shape.List[shape.Job]{Data: []shape.Job{}}
	rows := make([][]string, 0, len(jobs))
	for _, j := range jobs {
		s, err := shaped(ctx, a, j)
		if err != nil {
			return err
		}
		list.Data = append(list.Data, s)
		rows = append(rows, []string{s.ID, s.Account, s.Type, string(s.State), string(s.EndReason), strconv.Itoa(s.Attempts),
			c.credits(s.Cost.Charged), c.credits(s.Cost.Refunded)})
	}
	if n := len(jobs); n == page.Limit {
		list.NextCursor = cursorOf(jobs[n-1].CreatedAt, jobs[n-1].ID)
	}
	if c.JSON {
		printJSON(os.Stdout, list)
		return nil
	}
	table(os.Stdout, []string{"job", "account", "type", "state", "why", "attempts", "charged", "refunded"}, rows)
	return nil
}

type jobCreditCmd struct {
	ID     string        `arg:""`
	Amount ledger.Amount `arg:"" help:"Credits, more than 0, at most what the job was charged."`
	Reason string        `required:"" help:"Why, in a few words."`
	Actor  string        `required:"" help:"Who answers for it."`
	Key    string        `help:"Your own name for this credit."`
}

func (cmd *jobCreditCmd) Run(ctx context.Context, c *cli) error {
	a, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer a.Close()
	adjusted, err := a.Ledger.CreditJob(ctx, ledger.AdjustCredits{AccountName: ledger.AccountName{Tenant: c.Tenant}, Key: cmd.Key,
		Amount: int64(cmd.Amount), AboutJob: cmd.ID, Reason: cmd.Reason, Actor: cmd.Actor})
	if err != nil {
		return err
	}
	return c.printAdjusted(adjusted)
}

// configCmd prints the settings.
type configCmd struct{}

func (*configCmd) Run(c *cli) error {
	cfg, err := c.For(config.Command)
	if err != nil {
		return err
	}
	if c.JSON {
		printJSON(os.Stdout, cfg.Effective())
		return nil
	}
	rows := [][]string{}
	for _, s := range cfg.Effective() {
		rows = append(rows, []string{s.Name, s.Value, s.Source})
	}
	table(os.Stdout, []string{"setting", "value", "from"}, rows)
	return nil
}
