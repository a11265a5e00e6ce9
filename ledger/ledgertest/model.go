package ledgertest

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/makegood/makegood/ledger"
)

// Model runs random sequences of commands on a store and on a plain model of the ledger, and
// compares every answer and, at the end of each sequence, balances, jobs, attempts and
// entries. Sequences run side by side on accounts of their own and in one lane, so that they
// share batches: 10 checks (rapid's flag -rapid.checks changes that) make 200 sequences of 100
// commands.
func Model(t *testing.T, open Open) {
	const abreast, checks, commands = 20, "10", 100
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		require.NoError(t, f.Value.Set(checks))
	}
	w := newWorld(t, open)
	w.Ledger = ledger.New(w.store, ledger.Options{Lanes: 1, GiveUp: patience, Logger: quiet})
	t.Cleanup(w.Close)
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		sequences := make([]*sequence, abreast)
		for i := range sequences {
			steps := rapid.SliceOfN(rapid.Custom(drawStep), commands, commands).Draw(rt, fmt.Sprint("sequence ", i))
			sequences[i] = newSequence(w, ledger.AccountName{Tenant: "default", Name: fmt.Sprintf("account %d of run %d", i, run)}, steps)
		}
		var wg sync.WaitGroup
		for _, s := range sequences {
			wg.Go(s.play)
		}
		wg.Wait()
		for i, s := range sequences {
			if s.fault != "" {
				rt.Fatalf("sequence %d: %s", i, s.fault)
			}
			s.compare(rt)
		}
	})
}

// step is one random command. Which job, token or key it means is settled when it is run.
type step struct {
	What   string
	Amount int64
	Job    int
	Token  int // 0 the newest attempt's, 1 a new one, 2 an older one's
	Key    int // 0 none
	Flag   bool
}

var whats = []string{"grant", "open", "open", "open", "start", "start", "start", "yield", "complete", "complete", "fail", "cancel",
	"claim", "claim", "claim", "hear", "hear", "sweep", "put back", "adjust", "credit", "sight"}

func drawStep(t *rapid.T) step {
	return step{What: rapid.SampledFrom(whats).Draw(t, "what"), Amount: rapid.Int64Range(0, 40).Draw(t, "amount"),
		Job: rapid.IntRange(0, 5).Draw(t, "job"), Token: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "token"),
		Key: rapid.SampledFrom([]int{0, 0, 0, 1, 2, 3}).Draw(t, "key"), Flag: rapid.Bool().Draw(t, "flag")}
}

// sequence is one run of the store and the model.
type sequence struct {
	w      *world
	steps  []step
	model  *model
	tokens int
	fault  string
}

func newSequence(w *world, name ledger.AccountName, steps []step) *sequence {
	return &sequence{w: w, steps: steps, model: &model{name: name, grants: map[string]int64{}, byKey: map[string]*modelJob{}}}
}

func (s *sequence) play() {
	for i, st := range s.steps {
		got, want := s.do(st)
		if got != want {
			s.fault = fmt.Sprintf("step %d, %+v: the store answers %q, the model %q", i, st, got, want)
			return
		}
	}
}

// compare reads everything back.
func (s *sequence) compare(t *rapid.T) {
	m := s.model
	if !m.exists {
		_, err := s.w.Balance(bg, m.name)
		require.ErrorIs(t, err, ledger.ErrNotFound)
		return
	}
	b, err := s.w.Balance(bg, m.name)
	require.NoError(t, err)
	require.Equal(t, ledger.Balance{Available: m.balance, Held: m.held()}, b)
	entries := s.w.audit(t, m.name)
	require.Len(t, entries, len(m.entries))
	for i, e := range entries {
		require.Equal(t, m.entries[i], fmt.Sprint(e.Kind, e.Delta), "entry %d", i)
	}
	jobs, err := s.w.Jobs(bg, ledger.JobFilter{Tenant: m.name.Tenant, Account: m.name.Name}, ledger.Page{Limit: 200})
	require.NoError(t, err)
	require.Len(t, jobs, len(m.jobs))
	states := map[string]string{}
	for i := range jobs {
		states[jobs[i].ID] = describe(&jobs[i])
	}
	for _, j := range m.jobs {
		require.Equal(t, j.String(), states[j.id])
		if len(j.past) == 0 {
			continue
		}
		list, err := s.w.Attempts(bg, j.id)
		require.NoError(t, err)
		require.Len(t, list, len(j.past))
		for _, a := range list {
			require.Equal(t, j.past[a.Token], a.Outcome)
		}
	}
}

// describe is what the model knows of a job.
func describe(j *ledger.Job) string {
	if j.End != nil {
		return fmt.Sprint(j.End.State, " ", j.End.Reason, " held ", j.End.Held, " charged ", j.End.Charged, " short ", j.End.Shortfall,
			" attempts ", j.End.Attempts, " epoch ", j.End.Epoch, " n ", j.End.N)
	}
	return fmt.Sprint(j.Open.State, " held ", j.Open.Held, " attempts ", j.Open.Attempts, " epoch ", j.Open.Epoch, " cancel ", !j.Open.CancelAt.IsZero(),
		" n ", j.Open.N, " call ", j.Call != nil)
}
