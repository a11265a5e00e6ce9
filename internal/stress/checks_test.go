package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
	"github.com/makegood/makegood/reconciler"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// sound is the evidence of a run in which all went well: two jobs of ada's, one of them
// delivered in its second attempt after a kill, the other failed; a repeat, a use of the key
// for something else, and a refusal.
func sound() *evidence {
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	e := &evidence{
		plan: plan{
			accounts: []account{{name: "ada", grant: 20, rich: true}, {name: "linus", grant: 1}, {name: "ghost"}},
			orders: []order{
				{account: 0, key: "k", cost: 7, actual: 5, pictures: 1, maxAttempts: 3},
				{account: 0, cost: 5, actual: 5, pictures: 1, maxAttempts: 1, doomed: true},
				{account: 0, key: "k", cost: 8, actual: 5, pictures: 1, maxAttempts: 3},
				{account: 1, key: "l", cost: 5, actual: 5, pictures: 1, maxAttempts: 3},
				{account: 2, cost: 5, actual: 5, pictures: 1, maxAttempts: 3},
			},
			kills: []int{0},
		},
		deaths: []death{{worker: "w1", at: at(10)}},
		books: books{
			accounts: map[string]string{"A": "ada", "L": "linus"},
			entries: []entryRow{
				{"A", 1, ledger.KindGrant, 20, 20, "g1"}, {"L", 1, ledger.KindGrant, 1, 1, "g2"},
				{"A", 2, ledger.KindDeduct, -7, 13, "j1"}, {"A", 3, ledger.KindDeduct, -5, 8, "j2"},
				{"A", 0, ledger.KindTaskStarted, 0, 0, "j1"}, {"A", 0, ledger.KindTaskStarted, 0, 0, "j2"},
				{"A", 0, ledger.KindTaskFailed, 0, 0, "j2"}, {"A", 4, ledger.KindRefund, 5, 13, "j2"},
				{"A", 0, ledger.KindTaskCompleted, 0, 0, "j1"}, {"A", 5, ledger.KindSettle, 2, 15, "j1"},
			},
			jobs: []jobRow{
				{JobID: "j1", AccountID: "A", Key: "k", Cost: 7, MaxAttempts: 3, End: &endRow{State: ledger.StateCompleted, Reason: ledger.EndDelivered,
					Held: 7, Charged: 5, Delivered: 1, Attempts: 2, Starts: 2, Artifacts: []ledger.Artifact{{Key: "j1/t2/0.png"}}, At: at(14)}},
				{JobID: "j2", AccountID: "A", Cost: 5, MaxAttempts: 1, End: &endRow{State: ledger.StateFailed, Reason: ledger.EndVendor,
					Held: 5, Attempts: 1, Starts: 1, At: at(9)}},
			},
			attempts: []attemptRow{{"j1", "w1", ledger.AttemptLost}, {"j1", "w2", ledger.AttemptCompleted}, {"j2", "w1", ledger.AttemptFailed}},
		},
		verify: reconciler.VerifyReport{OK: true, Counts: reconciler.Counts{Accounts: 2, Entries: 10, Jobs: 2}},
	}
	say := func(order int, began int, id string, replayed bool, err error) {
		a := answer{submit: submit{order: order}, jobID: id, replayed: replayed, err: err, began: at(began), ended: at(began).Add(time.Millisecond)}
		if refusal, ok := errors.AsType[*ledger.Error](err); ok {
			a.code = refusal.Code
		}
		e.answers = append(e.answers, a)
	}
	say(0, 0, "j1", false, nil)
	say(0, 1, "j1", true, nil)
	say(1, 2, "j2", false, nil)
	say(2, 3, "", false, ledger.ErrKeyReused)
	say(3, 4, "", false, ledger.ErrInsufficientCredits)
	say(4, 5, "", false, ledger.ErrNotFound)
	return e
}

func TestASoundRunPasses(t *testing.T) {
	t.Parallel()
	for _, c := range checkAll(sound()) {
		require.True(t, c.OK, "%s: %v", c.Name, c.Faults)
		require.NotEmpty(t, c.Seen, c.Name)
	}
}

// TestEachFaultIsFound: whatever is changed in a sound run, the check whose promise it breaks
// says so.
func TestEachFaultIsFound(t *testing.T) {
	t.Parallel()
	const (
		ended, charged, keys, refusals = "every accepted job ended", "no job charged twice", "a repeated key gives the same job", "a refused submit stores nothing"
		conserved, outcomes, attempts  = "no credit lost or made", "delivered or refunded, never both", "no attempt beyond the limit"
		verified, killed, stopped      = "verify finds nothing broken", "every kill done, and felt", "workers and schedulers stop in order"
	)
	j1 := func(e *evidence) *endRow { return e.books.jobs[0].End }
	j2 := func(e *evidence) *endRow { return e.books.jobs[1].End }
	entry := func(e *evidence, x entryRow) { e.books.entries = append(e.books.entries, x) }
	for name, tt := range map[string]struct {
		check string
		spoil func(*evidence)
	}{
		"a job is still open":             {ended, func(e *evidence) { e.books.jobs[0].End, e.books.jobs[0].Open = nil, true }},
		"a job is open and ended":         {ended, func(e *evidence) { e.books.jobs[0].Open = true }},
		"an accepted job is lost":         {ended, func(e *evidence) { e.books.jobs = e.books.jobs[:1] }},
		"the wait was given up":           {ended, func(e *evidence) { e.waiting = errors.New("too long") }},
		"charged twice":                   {charged, func(e *evidence) { entry(e, entryRow{"A", 6, ledger.KindDeduct, -7, 8, "j1"}) }},
		"never charged":                   {charged, func(e *evidence) { e.books.entries[2].Kind = ledger.KindAdjust }},
		"charged something else":          {charged, func(e *evidence) { e.books.entries[2].Delta = -6 }},
		"charged for no job":              {charged, func(e *evidence) { entry(e, entryRow{"L", 2, ledger.KindDeduct, -1, 0, "j9"}) }},
		"refunded twice":                  {charged, func(e *evidence) { entry(e, entryRow{"A", 6, ledger.KindRefund, 5, 20, "j2"}) }},
		"a key gave two jobs":             {keys, func(e *evidence) { e.answers[1].jobID = "j2" }},
		"a key made two jobs":             {keys, func(e *evidence) { e.answers[1].replayed = false }},
		"a key nobody had first":          {keys, func(e *evidence) { e.answers[0].replayed = true }},
		"a key took other content":        {keys, func(e *evidence) { e.answers[3] = e.answers[1]; e.answers[3].submit.order = 2 }},
		"no key, and yet a repeat":        {keys, func(e *evidence) { e.answers[2].replayed = true }},
		"refused though it was there":     {keys, func(e *evidence) { refuse(&e.answers[1], ledger.ErrInsufficientCredits) }},
		"refused as other content":        {keys, func(e *evidence) { refuse(&e.answers[1], ledger.ErrKeyReused) }},
		"other content than nothing":      {keys, func(e *evidence) { refuse(&e.answers[4], ledger.ErrKeyReused) }},
		"a job nobody ordered":            {refusals, func(e *evidence) { e.books.jobs = append(e.books.jobs, jobRow{JobID: "j9", End: &endRow{}}) }},
		"a refusal took the key":          {refusals, func(e *evidence) { e.books.jobs[1].Key = "l" }},
		"a refusal opened an account":     {refusals, func(e *evidence) { e.books.accounts["G"] = "ghost" }},
		"the rich were refused":           {refusals, func(e *evidence) { e.plan.accounts[1].rich = true }},
		"a known account was not found":   {refusals, func(e *evidence) { refuse(&e.answers[4], ledger.ErrNotFound) }},
		"a submit never got its answer":   {refusals, func(e *evidence) { refuse(&e.answers[4], ledger.ErrUnavailable) }},
		"credits vanished":                {conserved, func(e *evidence) { e.books.entries[9].BalanceAfter = 14 }},
		"credits appeared":                {conserved, func(e *evidence) { entry(e, entryRow{"L", 2, ledger.KindAdjust, 1, 2, "a"}) }},
		"a balance below zero":            {conserved, func(e *evidence) { entry(e, entryRow{"L", 2, ledger.KindAdjust, -2, -1, "a"}) }},
		"credits are held":                {conserved, func(e *evidence) { e.books.jobs[1].End = nil }},
		"two outcomes":                    {outcomes, func(e *evidence) { entry(e, entryRow{"A", 0, ledger.KindTaskFailed, 0, 0, "j1"}) }},
		"no outcome":                      {outcomes, func(e *evidence) { e.books.entries[6].Kind = ledger.KindTaskStarted }},
		"delivered and refunded":          {outcomes, func(e *evidence) { e.books.entries[9].Kind = ledger.KindRefund }},
		"failed and not refunded":         {outcomes, func(e *evidence) { e.books.entries[7].JobID = "j9"; j2(e).Charged = 5 }},
		"charged is not what moved":       {outcomes, func(e *evidence) { j1(e).Charged = 4 }},
		"charged more than it cost":       {outcomes, func(e *evidence) { e.books.entries[9].Delta = 1; j1(e).Charged = 6 }},
		"short on an account with enough": {outcomes, func(e *evidence) { e.books.entries[9].Delta = 3; j1(e).Charged, j1(e).Shortfall = 4, 1 }},
		"delivered what cannot be made":   {outcomes, func(e *evidence) { e.plan.orders[0].doomed = true }},
		"delivered without a picture":     {outcomes, func(e *evidence) { j1(e).Artifacts = nil }},
		"a picture is gone":               {outcomes, func(e *evidence) { e.artifacts = map[string]error{"j1/t2/0.png": errors.New("gone")} }},
		"failed with a picture":           {outcomes, func(e *evidence) { j2(e).Artifacts = []ledger.Artifact{{Key: "j2/t/0.png"}} }},
		"one attempt too many":            {attempts, func(e *evidence) { j1(e).Attempts = 4 }},
		"given up too early":              {attempts, func(e *evidence) { j1(e).State, j1(e).Reason = ledger.StateRefunded, ledger.EndOrphaned }},
		"failed without a reason to":      {attempts, func(e *evidence) { e.plan.orders[1].doomed = false }},
		"verify found a broken row":       {verified, func(e *evidence) { e.verify.Broken = []reconciler.Broken{{Invariant: "I4"}} }},
		"verify is not ok":                {verified, func(e *evidence) { e.verify.OK = false }},
		"verify overlooked a job":         {verified, func(e *evidence) { e.verify.Counts.Jobs = 1 }},
		"a kill was left out":             {killed, func(e *evidence) { e.plan.kills = []int{0, 1} }},
		"no kill hit anything":            {killed, func(e *evidence) { e.deaths[0].worker = "" }},
		"a worker had to be killed":       {stopped, func(e *evidence) { e.stopping = errors.New("worker-1") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sound()
			tt.spoil(e)
			for _, c := range checkAll(e) {
				if c.Name == tt.check {
					require.False(t, c.OK, "%s says ok", c.Name)
					require.NotEmpty(t, c.Faults)
				}
			}
		})
	}
}

func refuse(a *answer, err *ledger.Error) {
	a.jobID, a.replayed, a.code, a.err = "", false, err.Code, err
}

func TestACheckNamesTheFirstFaultsAndCountsAll(t *testing.T) {
	t.Parallel()
	c := check{OK: true}
	for i := range 3 * maxFaults {
		c.fault("fault %d", i)
	}
	require.False(t, c.OK)
	require.Len(t, c.Faults, maxFaults)
	require.Equal(t, 3*maxFaults, c.Count)
}

func TestHitsAreAttemptsThatAKillCutOff(t *testing.T) {
	t.Parallel()
	require.Equal(t, []hit{{"j1", 4 * time.Second}}, sound().hits())
}
