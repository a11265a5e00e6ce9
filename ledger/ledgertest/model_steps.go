package ledgertest

import (
	"fmt"
	"time"

	"github.com/makegood/makegood/ledger"
)

// do runs one step on both and returns the two answers as text.
func (s *sequence) do(st step) (got, want string) {
	m := s.model
	switch st.What {
	case "grant":
		return s.grant(st)
	case "open":
		return s.openJob(st)
	case "adjust":
		amount := st.Amount - 20
		a, err := s.w.Adjust(bg, ledger.AdjustCredits{AccountName: m.name, Amount: amount, Reason: "r", Actor: "ann"})
		return said(err, func() string { return fmt.Sprint("balance ", a.Balance) }), m.adjust(amount, nil)
	}
	if len(m.jobs) == 0 {
		return "", ""
	}
	// Mostly the newest jobs: older ones have ended.
	j := m.jobs[max(len(m.jobs)-1-st.Job, 0)]
	return s.onJob(st, j, s.token(st, j))
}

func (s *sequence) grant(st step) (got, want string) {
	key := keyed("g", st.Key)
	a, err := s.w.Grant(bg, ledger.GrantCredits{AccountName: s.model.name, Amount: st.Amount % 30, Reason: "r", Key: s.private(key)})
	return said(err, func() string {
		if a.Replayed {
			return "again"
		}
		return fmt.Sprint("balance ", a.Balance)
	}), s.model.grant(key, st.Amount%30)
}

func (s *sequence) openJob(st step) (got, want string) {
	key := keyed("j", st.Key)
	c := job(s.model.name, st.Amount%4*5)
	c.Key, c.MaxAttempts = s.private(key), 1+st.Job%3
	a, err := s.w.Open(bg, c)
	got = said(err, func() string {
		if a.Replayed {
			return "again " + describe(&a.Job)
		}
		return describe(&a.Job)
	})
	want, _ = s.model.open(a.Job.ID, key, c.Cost, c.MaxAttempts)
	return got, want
}

func (s *sequence) onJob(st step, j *modelJob, token string) (got, want string) {
	m, w := s.model, s.w
	switch st.What {
	case "start":
		ttl := time.Hour
		if st.Flag {
			ttl = time.Nanosecond // dead at once
		}
		later := st.Amount%2 == 0
		a, err := w.Start(bg, ledger.StartJob{JobID: j.id, Token: token, Worker: token, LeaseTTL: ttl,
			ClaimsLater: func(string) bool { return later }})
		return said(err, func() string {
			if a.Verdict != ledger.VerdictDrop {
				return string(a.Verdict) + " " + describe(&a.Job)
			}
			return a.Why + " " + describe(&a.Job)
		}), m.start(j, token, !st.Flag, later)
	case "claim":
		a, err := w.ClaimCall(bg, ledger.ClaimCall{JobID: j.id, Token: token, Provider: vendor, Resend: st.Flag})
		return said(err, func() string {
			if a.Permit {
				return "permit " + describe(&a.Job)
			}
			return a.Why
		}), m.claim(j, token, st.Flag)
	case "hear":
		a, err := w.HearCall(bg, ledger.HearCall{JobID: j.id, N: j.n, Provider: vendor, Ref: fmt.Sprint(j.id, "/", j.n)})
		return said(err, func() string { return describe(&a.Job) }), m.hear(j)
	case "yield":
		word := ledger.WordNone
		if st.Amount%3 == 0 {
			word = ledger.WordFailed
		}
		a, err := w.Yield(bg, ledger.YieldJob{JobID: j.id, Token: token, GiveBack: st.Flag, Word: word})
		return said(err, func() string { return describe(&a.Job) }), m.yield(j, token, st.Flag, word)
	case "complete":
		a, err := w.Complete(bg, ledger.CompleteJob{JobID: j.id, Token: token, Actual: st.Amount, Delivered: 1})
		return said(err, func() string { return describe(&a.Job) }), m.complete(j, token, st.Amount)
	case "fail":
		a, err := w.Fail(bg, ledger.FailJob{JobID: j.id, Token: token})
		return said(err, func() string { return describe(&a.Job) }), m.failed(j, token)
	case "cancel":
		a, err := w.Cancel(bg, ledger.CancelJob{Tenant: m.name.Tenant, JobID: j.id})
		return said(err, func() string { return describe(&a.Job) }), m.cancel(j)
	case "sweep":
		a, err := w.Sweep(bg, refund(j.id))
		return said(err, func() string { return describe(&a.Job) }), m.sweep(j)
	case "put back":
		a, err := w.PutBack(bg, ledger.PutBackJob{JobID: j.id, Token: token, Renewed: w.clock.Now()})
		return said(err, func() string { return describe(&a.Job) }), m.putBack(j, token)
	case "credit":
		a, err := w.CreditJob(bg, ledger.AdjustCredits{AccountName: m.name, Amount: st.Amount, AboutJob: j.id, Reason: "r", Actor: "ann"})
		return said(err, func() string { return fmt.Sprint("balance ", a.Balance) }), m.adjust(st.Amount, j)
	default: // sight
		epoch := max(j.epoch-st.Token, 1)
		a, err := w.Sight(bg, ledger.SightJob{JobID: j.id, Epoch: epoch, Sign: ledger.SignLost})
		return said(err, func() string { return describe(&a.Job) }), m.lost(j, epoch)
	}
}

// token picks the newest attempt's, an older one's or a new one.
func (s *sequence) token(st step, j *modelJob) string {
	if n := len(j.tokens); n > 0 && st.Token == 2 {
		return j.tokens[st.Key%n]
	} else if n > 0 && st.Token == 0 && (st.What != "start" || st.Flag) {
		return j.tokens[n-1]
	}
	s.tokens++
	return fmt.Sprintf("%s/%d", s.model.name.Name, s.tokens)
}

func keyed(prefix string, key int) string {
	if key == 0 {
		return ""
	}
	return fmt.Sprint(prefix, key)
}

// private makes a key this sequence's own: keys are the tenant's.
func (s *sequence) private(key string) string {
	if key == "" {
		return ""
	}
	return s.model.name.Name + "/" + key
}

func said(err error, answer func() string) string {
	if err != nil {
		return string(codeOf(err))
	}
	return answer()
}
