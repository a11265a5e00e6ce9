package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/contactsheet"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
)

// demoReport is report.json, and what --json prints.
type demoReport struct {
	OK      bool                    `json:"ok"`
	Jobs    []shape.Job             `json:"jobs"`
	Verify  reconciler.VerifyReport `json:"verify"`
	LeftOut []string                `json:"left_out"` // lines of the prompts file, and why
	Faults  []string                `json:"faults"`   // what is not as it should be
	Seconds float64                 `json:"seconds"`
}

// finish checks what came out, prints it, and leaves the files.
func (d *demo) finish(ctx context.Context) error {
	d.check()
	r := demoReport{Jobs: make([]shape.Job, 0, len(d.jobs)), LeftOut: append([]string{}, d.leftOut...)}
	for _, id := range d.jobs {
		s, err := d.app.Job(ctx, d.ended[id])
		if err != nil {
			return err
		}
		r.Jobs = append(r.Jobs, s)
	}
	var err error
	if r.Verify, err = d.verify(ctx, d.app.Config, ""); err != nil {
		return err
	}
	if !r.Verify.OK {
		d.fault("verify found %d broken rows", len(r.Verify.Broken))
	}
	r.OK, r.Faults, r.Seconds = len(d.faults) == 0, append([]string{}, d.faults...), time.Since(d.started).Seconds()
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir, "report.json"), raw, 0o644); err != nil {
		return err
	}
	if err := d.contactSheet(filepath.Join(d.dir, "contact.png"), r.Jobs); err != nil {
		return err
	}
	if d.JSON {
		printJSON(d.out, r)
		return nil
	}
	return d.print(ctx, r)
}

// print shows what came out: the jobs, two statements, the invariants, and where the files are.
func (d *demo) print(ctx context.Context, r demoReport) error {
	d.printJobs(r.Jobs)
	for _, account := range []string{"ada", "grace"} {
		s, err := d.app.Statement(ctx, d.name(account), app.Period{}, "")
		if errors.Is(err, ledger.ErrNotFound) {
			continue // the user's own prompts may name others
		}
		if err != nil {
			return err
		}
		fmt.Fprintln(d.out)
		d.printStatement(s)
	}
	fmt.Fprintln(d.out)
	d.printVerify(r.Verify)
	fmt.Fprintf(d.out, "\npictures       %s\ncontact sheet  %s\nreport         %s\n",
		filepath.Join(d.dir, "artifacts"), filepath.Join(d.dir, "contact.png"), filepath.Join(d.dir, "report.json"))
	return nil
}

// check holds what came out against what should.
func (d *demo) check() {
	for _, id := range d.jobs {
		want, why := ledger.StateCompleted, ledger.EndDelivered
		switch id {
		case d.doomed:
			want, why = ledger.StateFailed, ledger.EndVendor
		case d.orphan:
			want, why = ledger.StateRefunded, ledger.EndOrphaned
		}
		e := d.ended[id].End
		if e.State != want || e.Reason != why {
			d.fault("job %s (%s) is %s (%s), not %s (%s)", id, d.titles[id], e.State, e.Reason, want, why)
		}
		charged := e.Held
		if want != ledger.StateCompleted {
			charged = 0
		}
		if e.Charged != charged {
			d.fault("job %s stands charged with %d, not %d", id, e.Charged, charged)
		}
	}
	if n := d.ended[d.survivor].End.Attempts; n != 2 {
		d.fault("the job whose worker was killed took %d attempts, not 2", n)
	}
	if d.ended[d.orphan].End.Evidence == nil {
		d.fault("the orphan was refunded without evidence")
	}
	if !d.refused || !d.replayed {
		d.fault("refused for lack of credits: %v; repeated key recognised: %v", d.refused, d.replayed)
	}
}

// contactSheet puts all jobs on one picture, the refunded ones too.
func (d *demo) contactSheet(file string, jobs []shape.Job) error {
	items := make([]contactsheet.Item, 0, len(jobs))
	for _, s := range jobs {
		item := contactsheet.Item{Title: d.titles[s.ID], Subtitle: fmt.Sprintf("%s · %s · %s credits", s.Account, s.State, d.credits(s.Cost.Charged))}
		if s.Result == nil || len(s.Result.Artifacts) == 0 {
			item.Note = fmt.Sprintf("%s: %s credits returned", string(s.EndReason), d.credits(s.Cost.Refunded))
		} else {
			raw, err := os.ReadFile(s.Result.Artifacts[0].URL)
			if err != nil {
				return err
			}
			item.PNG = raw
		}
		items = append(items, item)
	}
	png, err := contactsheet.PNG("Makegood", "every charged job is delivered or made good", items)
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}
