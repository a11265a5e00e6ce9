package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/makegood/makegood/internal/contactsheet"
	"github.com/makegood/makegood/internal/shape"
	"github.com/makegood/makegood/ledger"
)

// finish checks what came out, prints it, and leaves the files.
func (d *demo) finish(ctx context.Context) error {
	d.check()
	jobs, err := d.printJobs(ctx)
	if err != nil {
		return err
	}
	for _, account := range []string{"ada", "grace"} {
		s, err := statement(ctx, d.app, d.name(account), time.Time{}, time.Time{}, "")
		if err != nil {
			continue // the user's own prompts may name others
		}
		fmt.Println()
		d.printStatement(s)
	}
	sheet := filepath.Join(d.dir, "contact.png")
	if err := d.contactSheet(sheet, jobs); err != nil {
		return err
	}
	cfg := d.app.Config
	report, err := verify(ctx, cfg, "")
	if err != nil {
		return err
	}
	fmt.Println()
	printVerify(report)
	if !report.OK {
		d.fault("verify found %d broken rows", len(report.Broken))
	}
	raw, err := json.MarshalIndent(map[string]any{"jobs": jobs, "verify": report, "malformed": d.malformed, "faults": d.faults,
		"seconds": time.Since(d.started).Seconds()}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.dir, "report.json"), raw, 0o644); err != nil {
		return err
	}
	for _, line := range d.malformed {
		fmt.Fprintln(os.Stderr, "left out:", line)
	}
	fmt.Printf("\npictures       %s\ncontact sheet  %s\nreport         %s\n", filepath.Join(d.dir, "artifacts"), sheet, filepath.Join(d.dir, "report.json"))
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

func (d *demo) printJobs(ctx context.Context) ([]shape.Job, error) {
	jobs := make([]shape.Job, 0, len(d.jobs))
	rows := make([][]string, 0, len(d.jobs))
	for _, id := range d.jobs {
		s, err := shaped(ctx, d.app, d.ended[id])
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, s)
		rows = append(rows, []string{s.ID, s.Account, string(s.State), strconv.Itoa(s.Attempts), d.credits(s.Cost.Charged),
			d.credits(s.Cost.Refunded), string(s.EndReason)})
	}
	fmt.Println()
	table(os.Stdout, []string{"job", "account", "state", "attempts", "charged", "refunded", "why"}, rows)
	return jobs, nil
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
