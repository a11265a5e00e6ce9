package ledgertest

import (
	"fmt"
	"slices"

	"github.com/makegood/makegood/ledger"
)

// model is the ledger of one account as one would write it down without a database.
type model struct {
	name    ledger.AccountName
	exists  bool
	balance int64
	entries []string
	grants  map[string]int64
	byKey   map[string]*modelJob
	jobs    []*modelJob
}

type modelJob struct {
	id, key               string
	cost                  int64
	max, attempts, epoch  int
	state                 ledger.State
	reason                ledger.EndReason
	token, endToken       string // of the running attempt; of the one that ended it
	alive, started, asked bool
	charged, short        int64
	credited              int64
	past                  map[string]ledger.AttemptOutcome
	tokens                []string
	counted, claimed      bool // the running attempt is; there is a call without a verdict
	accepted              bool
	claimedBy             string
	n                     int // of the call
}

func (j *modelJob) ended() bool {
	return j.state != ledger.StateQueued && j.state != ledger.StateRunning
}

func (j *modelJob) String() string {
	if j.ended() {
		return fmt.Sprint(j.state, " ", j.reason, " held ", j.cost, " charged ", j.charged, " short ", j.short,
			" attempts ", j.attempts, " epoch ", j.epoch, " n ", j.n)
	}
	return fmt.Sprint(j.state, " held ", j.cost, " attempts ", j.attempts, " epoch ", j.epoch, " cancel ", j.asked, " n ", j.n, " call ", j.claimed)
}

func (m *model) held() (sum int64) {
	for _, j := range m.jobs {
		if !j.ended() {
			sum += j.cost
		}
	}
	return sum
}

func (m *model) enter(kind ledger.Kind, delta int64) {
	m.balance += delta
	m.entries = append(m.entries, fmt.Sprint(kind, delta))
}

func (m *model) grant(key string, amount int64) string {
	switch earlier, used := m.grants[key]; {
	case amount == 0:
		return string(ledger.CodeInvalid)
	case key != "" && used && earlier != amount:
		return string(ledger.CodeKeyReused)
	case key != "" && used:
		return "again"
	}
	if key != "" {
		m.grants[key] = amount
	}
	m.exists = true
	m.enter(ledger.KindGrant, amount)
	return fmt.Sprint("balance ", m.balance)
}

func (m *model) adjust(amount int64, about *modelJob) string {
	switch {
	case amount == 0:
		return string(ledger.CodeInvalid)
	case !m.exists:
		return string(ledger.CodeNotFound)
	case about != nil && !about.ended():
		return string(ledger.CodeConflict)
	case about != nil && amount > about.charged-about.credited:
		return string(ledger.CodeInvalid)
	case about != nil:
		about.credited += amount
	}
	m.enter(ledger.KindAdjust, amount)
	return fmt.Sprint("balance ", m.balance)
}

func (m *model) open(id, key string, cost int64, maxAttempts int) (string, *modelJob) {
	if j := m.byKey[key]; key != "" && j != nil {
		if j.cost != cost {
			return string(ledger.CodeKeyReused), nil
		}
		return "again " + j.String(), nil
	}
	switch {
	case !m.exists:
		return string(ledger.CodeNotFound), nil
	case cost > 0 && m.balance < cost:
		return string(ledger.CodeInsufficient), nil
	}
	j := &modelJob{id: id, key: key, cost: cost, max: maxAttempts, epoch: 1, n: 1, state: ledger.StateQueued, past: map[string]ledger.AttemptOutcome{}}
	m.jobs = append(m.jobs, j)
	if key != "" {
		m.byKey[key] = j
	}
	m.enter(ledger.KindDeduct, -cost)
	said := j.String()
	return said, j
}

func (m *model) start(j *modelJob, token string, alive, later bool) string {
	_, known := j.past[token]
	run := "run "
	if j.claimed {
		run = "ask "
	}
	switch {
	case j.ended():
		return "ended " + j.String()
	case j.state == ledger.StateRunning && j.token == token:
		return run + j.String()
	case known:
		return "replaced " + j.String()
	case j.state == ledger.StateRunning && j.alive:
		return "running " + j.String()
	case j.asked && !j.claimed:
		if j.state == ledger.StateQueued {
			m.fail(j, ledger.EndCancelled, "")
		}
		return "cancelled " + j.String()
	case j.attempts >= j.max && !j.claimed:
		if j.state == ledger.StateQueued {
			m.fail(j, ledger.EndExhausted, "")
		}
		return "exhausted " + j.String()
	}
	if j.state == ledger.StateRunning {
		j.past[j.token] = ledger.AttemptLost
	}
	if !j.started {
		j.started = true
		m.enter(ledger.KindTaskStarted, 0)
	}
	j.state, j.token, j.alive = ledger.StateRunning, token, alive
	j.counted = false
	if !j.claimed && !later {
		j.count()
	}
	j.tokens = append(j.tokens, token)
	return run + j.String()
}

func (j *modelJob) count() {
	if !j.counted {
		j.counted = true
		j.attempts++
	}
}

func (m *model) claim(j *modelJob, token string, resend bool) string {
	switch {
	case j.ended():
		return string(ledger.CodeSettled)
	case j.state != ledger.StateRunning || j.token != token:
		return string(ledger.CodeFenced)
	case j.claimed && !j.accepted && j.claimedBy == token:
		return "permit " + j.String()
	case j.asked:
		return "cancelled"
	case j.claimed && j.accepted:
		return "accepted"
	case j.claimed && !resend:
		return "unknown"
	case !j.claimed && !j.counted && j.attempts >= j.max:
		return "exhausted"
	}
	if !j.claimed {
		j.count()
	}
	j.claimed, j.claimedBy = true, token
	return "permit " + j.String()
}

// hear is the vendor's answer to a submit of the newest call.
func (m *model) hear(j *modelJob) string {
	if !j.claimed {
		return string(ledger.CodeNotFound)
	}
	j.accepted = true
	return j.String()
}

// over closes the running attempt.
func (j *modelJob) over(token string, outcome ledger.AttemptOutcome) {
	if j.state == ledger.StateRunning {
		if j.token != token {
			outcome = ledger.AttemptReplaced
		}
		j.past[j.token] = outcome
	}
	j.endToken = token
}

func (m *model) fail(j *modelJob, reason ledger.EndReason, token string) {
	j.over(token, ledger.AttemptFailed)
	j.state, j.reason = ledger.StateFailed, reason
	m.enter(ledger.KindTaskFailed, 0)
	if j.cost > 0 {
		m.enter(ledger.KindRefund, j.cost)
	}
}

func (m *model) complete(j *modelJob, token string, actual int64) string {
	_, known := j.past[token]
	switch {
	case j.state == ledger.StateCompleted && j.endToken == token && j.charged+j.short != actual:
		return string(ledger.CodeConflict) // the same attempt with other content (I8)
	case j.state == ledger.StateCompleted && j.endToken == token:
		return j.String()
	case j.ended():
		return string(ledger.CodeSettled)
	case j.token != token && !known:
		return string(ledger.CodeFenced)
	}
	j.over(token, ledger.AttemptCompleted)
	j.charged = min(actual, j.cost+max(m.balance, 0))
	if actual <= j.cost {
		j.charged = actual
	}
	j.short = actual - j.charged
	j.state, j.reason = ledger.StateCompleted, ledger.EndDelivered
	m.enter(ledger.KindTaskCompleted, 0)
	if j.charged != j.cost {
		m.enter(ledger.KindSettle, j.cost-j.charged)
	}
	return j.String()
}

// fence says how a yield or fail of that token is answered without doing it; "" to do it.
func (j *modelJob) fence(token string, again ...ledger.AttemptOutcome) string {
	if j.state == ledger.StateRunning && j.token == token {
		return ""
	}
	if slices.Contains(again, j.past[token]) {
		return j.String()
	}
	if j.ended() {
		return string(ledger.CodeSettled)
	}
	return string(ledger.CodeFenced)
}

func (m *model) failed(j *modelJob, token string) string {
	if answer := j.fence(token, ledger.AttemptFailed); answer != "" {
		return answer
	}
	reason := ledger.EndVendor
	if j.asked {
		reason = ledger.EndCancelled
	}
	m.fail(j, reason, token)
	return j.String()
}

func (m *model) yield(j *modelJob, token string, giveBack bool, word ledger.CallWord) string {
	if answer := j.fence(token, ledger.AttemptYielded, ledger.AttemptGivenBack, ledger.AttemptFailed); answer != "" {
		return answer
	}
	if !j.claimed && !giveBack {
		j.count()
	}
	verdict := word == ledger.WordFailed
	waits := j.claimed && !verdict
	switch {
	case !waits && j.asked:
		m.fail(j, ledger.EndCancelled, token)
	case giveBack:
		if j.counted {
			j.attempts--
		}
		j.settleCall(verdict)
		j.requeue(ledger.AttemptGivenBack)
	case !waits && j.attempts >= j.max:
		m.fail(j, ledger.EndExhausted, token)
	default:
		j.settleCall(verdict)
		j.requeue(ledger.AttemptYielded)
	}
	return j.String()
}

func (j *modelJob) settleCall(verdict bool) {
	if verdict {
		j.claimed, j.accepted = false, false
		j.n++
	}
}

func (j *modelJob) requeue(outcome ledger.AttemptOutcome) {
	j.past[j.token] = outcome
	j.state, j.token = ledger.StateQueued, ""
	j.epoch++
}

func (m *model) cancel(j *modelJob) string {
	switch {
	case j.ended() && j.reason != ledger.EndCancelled:
		return string(ledger.CodeSettled)
	case j.state == ledger.StateQueued && !j.claimed:
		m.fail(j, ledger.EndCancelled, "")
	case !j.ended():
		j.asked = true
	}
	return j.String()
}

func (m *model) sweep(j *modelJob) string {
	if !j.ended() {
		j.over("", ledger.AttemptReplaced)
		j.state, j.reason = ledger.StateRefunded, ledger.EndOrphaned
		m.enter(ledger.KindReconcilerRefund, j.cost)
	}
	return j.String()
}

func (m *model) putBack(j *modelJob, token string) string {
	if j.state == ledger.StateRunning && j.token == token && (j.attempts < j.max || j.claimed) && !j.alive {
		j.requeue(ledger.AttemptLost)
	}
	return j.String()
}

func (m *model) lost(j *modelJob, epoch int) string {
	if j.state == ledger.StateQueued && j.epoch == epoch {
		j.epoch++
	}
	return j.String()
}
