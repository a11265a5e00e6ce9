package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/makegood/makegood/internal/app"
	"github.com/makegood/makegood/provider/local"
)

// options are what a run is asked to be.
type options struct {
	seed       uint64
	jobs       int // orders; those of accounts that run out are refused
	accounts   int
	workers    int
	schedulers int
	kills      int
	interval   time.Duration // between kills
}

// plan is all that happens in a run: what its seed says.
type plan struct {
	accounts []account
	orders   []order
	submits  []submit // by time
	kills    []int    // which worker dies, one each interval
}

// account is a holder of credits.
type account struct {
	name  string
	grant int64 // credits; 0 for an account that nobody opened
	// rich accounts can pay all their orders, whatever becomes of them; the others run out.
	rich bool
}

// order is what a client wants: a job, if the account can pay it.
type order struct {
	account     int
	key         string // "" for none
	input       json.RawMessage
	cost        int64 // quoted, credits
	actual      int64 // what a delivery costs, credits; may differ from the quote
	pictures    int
	maxAttempts int
	doomed      bool // the generator fails for good
}

// submit sends an order. An order that is sent twice has a key.
type submit struct {
	at    time.Duration // since the load began
	order int
}

// window is how long the load lasts: beyond the last kill.
func (o options) window() time.Duration { return time.Duration(o.kills)*o.interval + o.interval/2 }

// How often something happens, in percent.
const (
	busyPercent     = 30 // of orders come from the busiest accounts
	poorPercent     = 20 // of accounts run out
	burstPercent    = 35 // of orders arrive together with others
	doomedPercent   = 10
	oncePercent     = 12 // of orders may be attempted only once, so that a kill is their end
	keyedPercent    = 80
	repeatPercent   = 15 // of orders with a key are sent again
	otherPercent    = 3  // of orders with a key have it used for something else
	misquotePercent = 15 // of orders are quoted something else than they come to cost
	ghostPercent    = 1  // more orders come from accounts that do not exist
)

const (
	busyAccounts = 3
	mostAttempts = 6 // of an order that may be attempted more than once
	mostRepeats  = 3
	mostPictures = 3
)

// newPlan is a pure function of its options.
func newPlan(o options) plan {
	m := &planner{o: o, rng: rand.New(rand.NewPCG(o.seed, 0))}
	for i := range o.accounts {
		m.accounts = append(m.accounts, account{name: fmt.Sprintf("account-%02d", i+1), rich: i < busyAccounts || !m.percent(poorPercent)})
	}
	for range o.jobs {
		m.order()
	}
	m.grant()
	m.ghosts()
	for range o.kills {
		m.kills = append(m.kills, m.rng.IntN(o.workers))
	}
	slices.SortStableFunc(m.submits, func(a, b submit) int { return cmp.Compare(a.at, b.at) })
	return m.plan
}

type planner struct {
	plan

	o   options
	rng *rand.Rand
}

func (m *planner) percent(p int) bool { return m.rng.IntN(100) < p }

// order plans one order and how often it is sent.
func (m *planner) order() {
	n := len(m.orders)
	w := m.newOrder(n)
	m.orders = append(m.orders, w)
	at := m.moment()
	m.submits = append(m.submits, submit{at, n})
	if w.key == "" {
		return
	}
	if m.percent(repeatPercent) {
		for range 1 + m.rng.IntN(mostRepeats) {
			m.submits = append(m.submits, submit{m.atOrAfter(at), n})
		}
	}
	if m.percent(otherPercent) {
		other := m.newOrder(n)
		other.account, other.key, other.cost = w.account, w.key, w.cost+1
		m.orders = append(m.orders, other)
		m.submits = append(m.submits, submit{m.atOrAfter(at), n + 1})
	}
}

func (m *planner) newOrder(n int) order {
	w := order{account: m.rng.IntN(m.o.accounts), pictures: 1 + m.rng.IntN(mostPictures),
		maxAttempts: 2 + m.rng.IntN(mostAttempts-1), doomed: m.percent(doomedPercent)}
	if m.percent(busyPercent) {
		w.account = m.rng.IntN(min(busyAccounts, m.o.accounts))
	}
	if m.percent(oncePercent) {
		w.maxAttempts = 1
	}
	if m.percent(keyedPercent) {
		w.key = fmt.Sprintf("order-%d", n)
	}
	w.actual = int64(w.pictures) * local.DefaultPrice
	w.cost = w.actual
	if m.percent(misquotePercent) {
		w.cost += int64(m.rng.IntN(2*local.DefaultPrice)) - local.DefaultPrice + 1
	}
	w.input = newInput(fmt.Sprintf("picture %d", n), w, m.rng.IntN(1000))
	return w
}

// newInput asks for the smallest pictures there are, in the cheapest style.
func newInput(prompt string, w order, seed int) json.RawMessage {
	if w.doomed {
		prompt += " " + app.FailWord
	}
	return fmt.Appendf(nil, `{"prompt":%q,"size":"64x64","style":"contours","n":%d,"seed":%d}`, prompt, w.pictures, seed)
}

// moment is a time within the window, often one that others share.
func (m *planner) moment() time.Duration {
	t := time.Duration(m.rng.Int64N(int64(m.o.window())))
	if m.percent(burstPercent) {
		t = t.Truncate(max(m.o.interval/2, 1))
	}
	return t
}

// atOrAfter is the same moment, so that the two race, or a later one.
func (m *planner) atOrAfter(at time.Duration) time.Duration {
	if m.percent(50) {
		return at
	}
	return at + time.Duration(m.rng.Int64N(int64(m.o.window()-at)))
}

// grant gives the rich what all their orders could cost, and the others about half of it.
func (m *planner) grant() {
	for _, w := range m.orders {
		m.accounts[w.account].grant += max(w.cost, w.actual)
	}
	for i := range m.accounts {
		a := &m.accounts[i]
		switch {
		case a.rich:
			a.grant += 1 + m.rng.Int64N(100)
		default:
			a.grant = 1 + a.grant*int64(30+m.rng.IntN(40))/100
		}
	}
}

// ghosts orders from accounts that nobody opened.
func (m *planner) ghosts() {
	for g := range (m.o.jobs*ghostPercent + 99) / 100 {
		n := len(m.orders)
		w := m.newOrder(n)
		w.account, w.key = len(m.accounts), fmt.Sprintf("ghost-%d", g)
		m.accounts = append(m.accounts, account{name: fmt.Sprintf("ghost-%d", g)})
		m.orders = append(m.orders, w)
		m.submits = append(m.submits, submit{m.moment(), n})
	}
}
