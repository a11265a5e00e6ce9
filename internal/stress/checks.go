package main

import (
	"fmt"

	"github.com/makegood/makegood/ledger"
)

// check is one promise, held against the evidence.
type check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Seen says what was looked at.
	Seen string `json:"seen"`
	// Faults are the first that were found; Count is how many there are.
	Faults []string `json:"faults"`
	Count  int      `json:"count"`
}

// maxFaults is how many faults a check names.
const maxFaults = 10

func (c *check) fault(format string, args ...any) {
	c.OK = false
	if c.Count++; c.Count <= maxFaults {
		c.Faults = append(c.Faults, fmt.Sprintf(format, args...))
	}
}

func (c *check) saw(format string, args ...any) { c.Seen = fmt.Sprintf(format, args...) }

// checkAll is a pure function of the evidence.
func checkAll(e *evidence) []check {
	promises := []struct {
		name string
		hold func(*evidence, *check)
	}{
		{"every accepted job ended", checkEnded},
		{"no job charged twice", checkCharges},
		{"a repeated key gives the same job", checkKeys},
		{"a refused submit stores nothing", checkRefusals},
		{"no credit lost or made", checkConservation},
		{"delivered or refunded, never both", checkOutcomes},
		{"no attempt beyond the limit", checkAttempts},
		{"verify finds nothing broken", checkVerify},
		{"every kill done, and felt", checkKills},
		{"workers and schedulers stop in order", checkStops},
	}
	checks := make([]check, 0, len(promises))
	for _, p := range promises {
		c := check{Name: p.name, OK: true, Faults: []string{}}
		p.hold(e, &c)
		checks = append(checks, c)
	}
	return checks
}

func checkEnded(e *evidence, c *check) {
	known := map[string]bool{}
	for _, j := range e.books.jobs {
		known[j.JobID] = true
		if j.Open || j.End == nil {
			c.fault("job %s has not ended (open: %v)", j.JobID, j.Open)
		}
	}
	for id := range e.orderOf() {
		if !known[id] {
			c.fault("job %s was accepted and is not in the ledger", id)
		}
	}
	if e.waiting != nil {
		c.fault("%v", e.waiting)
	}
	c.saw("%d jobs", len(e.books.jobs))
}

func checkCharges(e *evidence, c *check) {
	deducts, kinds := 0, map[string]map[ledger.Kind]int{}
	cost := map[string]int64{}
	for _, j := range e.books.jobs {
		cost[j.JobID], kinds[j.JobID] = j.Cost, map[ledger.Kind]int{}
	}
	for _, x := range e.books.entries {
		if x.Kind == ledger.KindDeduct {
			deducts++
			if want, ok := cost[x.JobID]; !ok || x.Delta != -want {
				c.fault("a deduct of %d stands for job %s, which costs %d (known: %v)", -x.Delta, x.JobID, want, ok)
			}
		}
		if kinds[x.JobID] != nil {
			kinds[x.JobID][x.Kind]++
		}
	}
	for id, seen := range kinds {
		if seen[ledger.KindDeduct] != 1 {
			c.fault("job %s has %d deducts", id, seen[ledger.KindDeduct])
		}
		for kind, n := range seen {
			if n > 1 {
				c.fault("job %s has %d entries %s", id, n, kind)
			}
		}
	}
	if deducts != len(e.books.jobs) {
		c.fault("%d deducts for %d jobs", deducts, len(e.books.jobs))
	}
	c.saw("%d deducts for %d jobs", deducts, len(e.books.jobs))
}

// checkKeys: whoever was accepted under a key was given the same job, and only once as a new
// one; nobody was refused for a job that existed already; no other content was let in.
func checkKeys(e *evidence, c *check) {
	byKey := map[string][]answer{}
	repeats, others := 0, 0
	for _, a := range e.answers {
		if key := e.plan.orders[a.submit.order].key; key != "" {
			byKey[key] = append(byKey[key], a)
		} else if a.replayed {
			c.fault("order %d has no key and was answered with an earlier job, %s", a.submit.order, a.jobID)
		}
	}
	for key, answers := range byKey {
		var first *answer
		fresh := 0
		for i, a := range answers {
			switch {
			case !a.accepted():
				continue
			case first == nil:
				first = &answers[i]
			case a.jobID != first.jobID:
				c.fault("key %s gave the jobs %s and %s", key, first.jobID, a.jobID)
			case a.submit.order != first.submit.order:
				c.fault("key %s was accepted for two contents", key)
			default:
				repeats++
			}
			if !a.replayed {
				fresh++
			}
		}
		if first != nil && fresh != 1 {
			c.fault("key %s was answered %d times as new", key, fresh)
		}
		for _, a := range answers {
			others += checkKeyRefusal(c, key, a, answers)
		}
	}
	c.saw("%d keys, %d repeats gave their job, %d uses for something else refused", len(byKey), repeats, others)
}

// checkKeyRefusal judges one refusal by what else was answered under its key.
func checkKeyRefusal(c *check, key string, a answer, all []answer) (others int) {
	for _, b := range all {
		same := a.submit.order == b.submit.order
		switch {
		case !b.accepted():
		case a.code == ledger.CodeKeyReused && same:
			c.fault("key %s was refused as used for something else, and is job %s of the same content", key, b.jobID)
		case a.code == ledger.CodeKeyReused:
			return 1
		case !a.accepted() && b.ended.Before(a.began):
			c.fault("key %s was refused (%s) when it was job %s already", key, a.code, b.jobID)
		}
	}
	if a.code == ledger.CodeKeyReused {
		c.fault("key %s was refused as used for something else, and nothing else was accepted", key)
	}
	return 0
}

func checkRefusals(e *evidence, c *check) {
	made, taken := e.orderOf(), map[string]bool{}
	for _, j := range e.books.jobs {
		taken[j.Key] = true
		if _, ok := made[j.JobID]; !ok {
			c.fault("job %s (key %q) is in the ledger and nobody was given it", j.JobID, j.Key)
		}
	}
	accepted := map[string]bool{}
	for _, a := range e.answers {
		if a.accepted() {
			accepted[e.plan.orders[a.submit.order].key] = true
		}
	}
	refused := map[ledger.Code]int{}
	for _, a := range e.answers {
		if a.accepted() {
			continue
		}
		refused[a.code]++
		o := e.plan.orders[a.submit.order]
		account := e.plan.accounts[o.account]
		switch {
		case a.code == ledger.CodeInsufficient && account.rich, a.code == ledger.CodeNotFound && account.grant > 0:
			c.fault("%s was refused order %d: %v", account.name, a.submit.order, a.err)
		case a.code != ledger.CodeInsufficient && a.code != ledger.CodeNotFound && a.code != ledger.CodeKeyReused:
			c.fault("order %d failed: %v", a.submit.order, a.err)
		}
		if o.key != "" && !accepted[o.key] && taken[o.key] {
			c.fault("key %s was refused every time and has a job", o.key)
		}
	}
	opened := 0
	for _, a := range e.plan.accounts {
		if a.grant > 0 {
			opened++
		}
	}
	if len(e.books.accounts) != opened {
		c.fault("%d accounts were opened and %d are in the ledger", opened, len(e.books.accounts))
	}
	c.saw("%d for lack of credits, %d on unknown accounts, %d under a used key",
		refused[ledger.CodeInsufficient], refused[ledger.CodeNotFound], refused[ledger.CodeKeyReused])
}

// checkConservation adds up each account by itself: what it was granted is what it has and
// what its jobs were charged.
func checkConservation(e *evidence, c *check) {
	sum, newest, balance, spent, held := map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, x := range e.books.entries {
		sum[x.AccountID] += x.Delta
		if x.Seq > newest[x.AccountID] {
			newest[x.AccountID], balance[x.AccountID] = x.Seq, x.BalanceAfter
		}
	}
	for _, j := range e.books.jobs {
		if j.End != nil {
			spent[j.AccountID] += j.End.Charged
		} else {
			held[j.AccountID] += j.Cost
		}
	}
	granted := map[string]int64{}
	for _, a := range e.plan.accounts {
		granted[a.name] = a.grant
	}
	var g, a, s, h int64
	for id, name := range e.books.accounts {
		g, a, s, h = g+granted[name], a+balance[id], s+spent[id], h+held[id]
		if balance[id] < 0 {
			c.fault("%s has %d credits", name, balance[id])
		}
		if sum[id] != balance[id] {
			c.fault("%s: the entries add up to %d, the newest says %d", name, sum[id], balance[id])
		}
		if left := granted[name] - balance[id] - spent[id]; left != 0 {
			c.fault("%s: granted %d, available %d, spent %d: %d are missing", name, granted[name], balance[id], spent[id], left)
		}
		if held[id] != 0 {
			c.fault("%s: %d credits are still held", name, held[id])
		}
	}
	c.saw("granted %d = available %d + spent %d, held %d", g, a, s, h)
}

// checkOutcomes: one outcome a job. A delivery is there, byte for byte, and cost what was
// made; everything else cost nothing.
func checkOutcomes(e *evidence, c *check) {
	outcomes, refunds, sums := map[string][]ledger.Kind{}, map[string]int{}, map[string]int64{}
	for _, x := range e.books.entries {
		sums[x.JobID] += x.Delta
		if x.Kind.Outcome() {
			outcomes[x.JobID] = append(outcomes[x.JobID], x.Kind)
		}
		if x.Kind == ledger.KindRefund || x.Kind == ledger.KindReconcilerRefund {
			refunds[x.JobID]++
		}
	}
	made := e.orderOf()
	delivered, pictures := 0, 0
	for _, j := range e.books.jobs {
		if len(outcomes[j.JobID]) != 1 {
			c.fault("job %s has the outcomes %v", j.JobID, outcomes[j.JobID])
		}
		if j.End == nil {
			continue
		}
		if j.End.Charged != -sums[j.JobID] {
			c.fault("job %s says charged %d, its entries say %d", j.JobID, j.End.Charged, -sums[j.JobID])
		}
		if j.End.State != ledger.StateCompleted {
			checkUndelivered(c, j, sums[j.JobID])
			continue
		}
		delivered, pictures = delivered+1, pictures+len(j.End.Artifacts)
		if refunds[j.JobID] > 0 {
			c.fault("job %s was delivered and refunded", j.JobID)
		}
		checkDelivered(e, c, j, made[j.JobID])
	}
	c.saw("%d delivered with %d pictures, %d refunded", delivered, pictures, len(e.books.jobs)-delivered)
}

func checkUndelivered(c *check, j jobRow, sum int64) {
	if sum != 0 {
		c.fault("job %s is %s (%s) and costs %d", j.JobID, j.End.State, j.End.Reason, -sum)
	}
	if len(j.End.Artifacts) > 0 {
		c.fault("job %s is %s and has %d artefacts", j.JobID, j.End.State, len(j.End.Artifacts))
	}
}

func checkDelivered(e *evidence, c *check, j jobRow, o order) {
	switch {
	case o.doomed:
		c.fault("job %s was delivered, though its generator fails", j.JobID)
	case j.End.Delivered != o.pictures || len(j.End.Artifacts) != o.pictures:
		c.fault("job %s delivered %d units and %d artefacts of %d", j.JobID, j.End.Delivered, len(j.End.Artifacts), o.pictures)
	case j.End.Charged+j.End.Shortfall != o.actual:
		c.fault("job %s was charged %d and short of %d, and cost %d", j.JobID, j.End.Charged, j.End.Shortfall, o.actual)
	case j.End.Shortfall > 0 && e.plan.accounts[o.account].rich:
		c.fault("job %s fell %d short on an account with enough", j.JobID, j.End.Shortfall)
	}
	for _, x := range j.End.Artifacts {
		if err := e.artifacts[x.Key]; err != nil {
			c.fault("job %s: %v", j.JobID, err)
		}
	}
}

// checkAttempts: what was not to be tried again was not, and no job was given up early.
func checkAttempts(e *evidence, c *check) {
	made := e.orderOf()
	most := 0
	for _, j := range e.books.jobs {
		o, known := made[j.JobID]
		if j.End == nil || !known {
			continue
		}
		most = max(most, j.End.Attempts)
		spent := j.End.Attempts == j.MaxAttempts
		switch {
		case j.End.Attempts > j.MaxAttempts:
			c.fault("job %s was attempted %d times of %d", j.JobID, j.End.Attempts, j.MaxAttempts)
		case j.End.State == ledger.StateCompleted:
		case o.doomed && j.End.Reason == ledger.EndVendor:
		case spent && (j.End.Reason == ledger.EndOrphaned || j.End.Reason == ledger.EndExhausted):
		default:
			c.fault("job %s ended as %s (%s) after %d of %d attempts", j.JobID, j.End.State, j.End.Reason, j.End.Attempts, j.MaxAttempts)
		}
	}
	c.saw("at most %d", most)
}

func checkVerify(e *evidence, c *check) {
	for _, b := range e.verify.Broken {
		c.fault("%s %s %s: %s (expected %v, found %v)", b.Invariant, b.Table, b.ID, b.Detail, b.Expected, b.Found)
	}
	x := e.verify.Conservation
	if !e.verify.OK && len(e.verify.Broken) == 0 {
		c.fault("not ok, difference %d", x.Difference)
	}
	n := e.verify.Counts
	if n.Jobs != int64(len(e.books.jobs)) || n.Entries != int64(len(e.books.entries)) {
		c.fault("verify counted %d jobs and %d entries; there are %d and %d", n.Jobs, n.Entries, len(e.books.jobs), len(e.books.entries))
	}
	c.saw("%d accounts, %d entries, %d jobs", n.Accounts, n.Entries, n.Jobs)
}

// checkKills: kills that hit nothing would prove nothing.
func checkKills(e *evidence, c *check) {
	hits := len(e.hits())
	if len(e.deaths) != len(e.plan.kills) {
		c.fault("%d kills of %d", len(e.deaths), len(e.plan.kills))
	}
	if len(e.plan.kills) > 0 && hits == 0 {
		c.fault("no kill hit a running job")
	}
	c.saw("%d kills cut off %d attempts", len(e.deaths), hits)
}

func checkStops(e *evidence, c *check) {
	if e.stopping != nil {
		c.fault("%v", e.stopping)
	}
	c.saw("SIGTERM at the end")
}
