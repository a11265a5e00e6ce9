package main

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/internal/fakevendor"
)

// audit says what is wrong once all jobs of a site should have ended well: what was not
// delivered and charged just once, and what the vendor was made to do twice. It reads the
// ledger with SQL of its own and the vendor's bill.
func (s *site) audit(jobs []string) ([]nothing, error) {
	wrong := []string{}
	ended, err := s.readEnded()
	if err != nil {
		return nil, err
	}
	for _, id := range jobs {
		if text := ended[id].wrong(); text != "" {
			wrong = append(wrong, fmt.Sprintf("job %s: %s", id, text))
		}
	}
	report, err := app.Verify(s.ctx, s.client.Config, "", nil)
	if err != nil {
		return nil, err
	}
	for _, b := range report.Broken {
		wrong = append(wrong, fmt.Sprintf("verify: %s %s %s: %s", b.Invariant, b.Table, b.ID, b.Detail))
	}
	twice, missing := twiceAtVendor(s.vendor.Bill(), ended)
	return []nothing{{"duplicates", twice}, {"faults", append(wrong, missing...)}}, nil
}

// end is how a job ended.
type end struct {
	JobID     string
	Type      string
	State     string
	Attempts  int
	Starts    int
	Charged   int64 // net, from the entries themselves
	Deducts   int
	Completed int
}

func (e end) wrong() string {
	switch {
	case e.State != "completed":
		return fmt.Sprintf("is %q", e.State)
	case e.Charged != cost || e.Deducts != 1 || e.Completed != 1:
		return fmt.Sprintf("charged %d credits by %d deducts, completed %d times", e.Charged, e.Deducts, e.Completed)
	}
	return ""
}

func (s *site) readEnded() (map[string]end, error) {
	rows, err := s.db.Query(s.ctx, `
		SELECT j.job_id, j.type, coalesce(e.state, 'open'), coalesce(e.attempts, 0), coalesce(e.starts, 0), -sum(t.delta)::bigint,
		       count(*) FILTER (WHERE t.kind = 'deduct'), count(*) FILTER (WHERE t.kind = 'task_completed')
		  FROM jobs j LEFT JOIN ended_jobs e USING (job_id) JOIN credit_transactions t USING (job_id)
		 GROUP BY j.job_id, j.type, e.state, e.attempts, e.starts`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[end])
	ended := map[string]end{}
	for _, e := range list {
		ended[e.JobID] = e
	}
	return ended, err
}

// twiceAtVendor lists what a bill has twice, and the delivered jobs that it does not have.
func twiceAtVendor(bill fakevendor.Bill, ended map[string]end) (twice, missing []string) {
	for job, rows := range bill.Duplicates() {
		twice = append(twice, fmt.Sprintf("the vendor bills %d generations for job %s", len(rows), job))
	}
	for _, row := range bill.Overlaps() {
		twice = append(twice, fmt.Sprintf("generation %s of job %s was accepted beside %v", row.ID, row.Job, row.Beside))
	}
	made := bill.ByJob()
	for id, e := range ended {
		if e.Type == app.GenerationType && len(made[id]) == 0 {
			missing = append(missing, fmt.Sprintf("job %s: the vendor never made it", id))
		}
	}
	return twice, missing
}
