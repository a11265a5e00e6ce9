package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/ledger"
)

var children = map[string]func(){"hammer": hammerChild, "hang": hangChild}

var shared = ledger.AccountName{Tenant: "t", Name: "shared"}

// child is this test binary as another process, spoken to in lines.
type child struct {
	t     testing.TB
	cmd   *exec.Cmd
	lines *bufio.Scanner
	say   func(string)
}

func start(t testing.TB, role, file string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), append(env, childRole+"="+role, "LEDGER_FILE="+file)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{t, cmd, bufio.NewScanner(out), func(line string) { fmt.Fprintln(in, line) }}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	return c
}

// hear waits for the child's next line.
func (c *child) hear() string {
	c.t.Helper()
	require.True(c.t, c.lines.Scan(), "the child process said nothing: %v", c.lines.Err())
	return c.lines.Text()
}

func must[V any](v V, err error) V {
	if err != nil {
		panic(err)
	}
	return v
}

// giveOne grants one credit, in a transaction of its own.
func giveOne(l *ledger.Ledger) error {
	_, err := l.Grant(context.Background(), ledger.GrantCredits{AccountName: shared, Amount: 1, Reason: "one"})
	return err
}

// hammered is what one writer got done.
type hammered struct {
	commits int
	slowest time.Duration
}

// hammer commits as fast as it can.
func hammer(s *Store, d time.Duration) (h hammered) {
	l := ledger.Direct(s)
	for began := time.Now(); time.Since(began) < d; h.commits++ {
		at := time.Now()
		if err := giveOne(l); err != nil {
			panic(err)
		}
		h.slowest = max(h.slowest, time.Since(at))
	}
	return h
}

func hammerChild() {
	rest := must(time.ParseDuration(os.Getenv("REST")))
	s := must(Open(context.Background(), os.Getenv("LEDGER_FILE"), Options{courtesy: rest}))
	fmt.Println("ready")
	bufio.NewScanner(os.Stdin).Scan()
	h := hammer(s, must(time.ParseDuration(os.Getenv("FOR"))))
	fmt.Println(h.commits, int64(h.slowest))
}

// race lets processes hammer one account for d and returns what each got done.
func race(t testing.TB, file string, processes int, d, rest time.Duration) (all []hammered) {
	t.Helper()
	var cs []*child
	for range processes {
		cs = append(cs, start(t, "hammer", file, "FOR="+d.String(), "REST="+rest.String()))
	}
	for _, c := range cs {
		require.Equal(t, "ready", c.hear())
	}
	for _, c := range cs {
		c.say("go")
	}
	for _, c := range cs {
		words := strings.Fields(c.hear())
		all = append(all, hammered{must(strconv.Atoi(words[0])), time.Duration(must(strconv.ParseInt(words[1], 10, 64)))})
	}
	return all
}

// TestProcessesAreFair: of two processes that write as fast as they can, neither starves, and
// no credit is lost or made.
func TestProcessesAreFair(t *testing.T) {
	s := open(t, t.TempDir()+"/ledger.db")
	all := race(t, s.file, 2, 2*time.Second, courtesy)
	t.Logf("%+v", all)
	total := all[0].commits + all[1].commits
	for _, h := range all {
		require.Greater(t, h.commits, total/4)
	}
	requireBalance(t, s, int64(total))
}

// BenchmarkCourtesy measures what fair.go tells: run it with -benchtime 1x.
func BenchmarkCourtesy(b *testing.B) {
	for _, processes := range []int{1, 2, 4} {
		for _, rest := range []time.Duration{-1, time.Millisecond, 2 * time.Millisecond} {
			s := open(b, b.TempDir()+"/ledger.db")
			all := race(b, s.file, processes, 4*time.Second, rest)
			total, slowest := 0, time.Duration(0)
			for _, h := range all {
				total, slowest = total+h.commits, max(slowest, h.slowest)
			}
			b.Logf("%d processes, rest %v: %d commits/s, slowest %v, each %v", processes, rest, total/4, slowest.Round(time.Millisecond), all)
		}
	}
}

// TestStoresShareAFile: two stores in one process, each with its lanes.
func TestStoresShareAFile(t *testing.T) {
	one := open(t)
	two := open(t, one.file)
	done := make(chan hammered)
	for _, s := range []*Store{one, two} {
		go func() { done <- hammer(s, time.Second) }()
	}
	a, b := <-done, <-done
	require.Greater(t, min(a.commits, b.commits), (a.commits+b.commits)/4)
	requireBalance(t, one, int64(a.commits+b.commits))
}

// TestNewcomer: a writer that was alone, with its next transaction always at hand, lets the
// first other one in soon, though each of its own transactions is long.
func TestNewcomer(t *testing.T) {
	one := open(t)
	two := open(t, one.file)
	const long = 10 * time.Millisecond
	tick := time.NewTicker(long)
	defer tick.Stop()
	var done atomic.Int64
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := one.Transact(bg, &ledger.Names{}, func(*ledger.Book) error { <-tick.C; return nil }); err != nil {
				stopped <- err
				return
			}
			done.Add(1)
		}
	}()
	alone := int64(company/long) + 5 // after so many it knows that it is
	require.Eventually(t, func() bool { return done.Load() > alone }, 20*time.Second, long)
	began := time.Now()
	require.NoError(t, giveOne(ledger.Direct(two)))
	require.Less(t, time.Since(began), time.Second)
	t.Log("the newcomer waited", time.Since(began))
	close(stop)
	require.NoError(t, <-stopped)
}

// hangChild commits what it is told, then stays inside a transaction that has written.
func hangChild() {
	s := must(Open(context.Background(), os.Getenv("LEDGER_FILE"), Options{}))
	for range 5 {
		if err := giveOne(ledger.Direct(s)); err != nil {
			panic(err)
		}
	}
	must(must(s.write.BeginTx(context.Background(), nil)).Exec(`UPDATE accounts SET overdraft = 1`))
	fmt.Println("inside")
	select {}
}

// TestKilledWriter: a process killed inside a transaction loses nothing that was committed,
// leaves nothing that was not, and blocks nobody.
func TestKilledWriter(t *testing.T) {
	s := open(t)
	require.NoError(t, giveOne(ledger.Direct(s)))
	c := start(t, "hang", s.file)
	require.Equal(t, "inside", c.hear())

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	err := s.Transact(ctx, &ledger.Names{}, func(*ledger.Book) error { return nil })
	require.ErrorIs(t, err, context.DeadlineExceeded, "the child holds the lock")

	require.NoError(t, c.cmd.Process.Kill())
	require.Error(t, c.cmd.Wait())
	began := time.Now()
	require.NoError(t, giveOne(ledger.Direct(s)))
	require.Less(t, time.Since(began), time.Second)
	requireBalance(t, s, 7)
	a, err := s.Account(context.Background(), shared)
	require.NoError(t, err)
	require.Zero(t, a.Overdraft)
}

// requireBalance checks the balance against the chain that leads to it.
func requireBalance(t *testing.T, s *Store, want int64) {
	t.Helper()
	b, err := s.Balance(context.Background(), shared)
	require.NoError(t, err)
	require.Equal(t, want, b.Available)
	var sum, last, count int64
	require.NoError(t, s.read.QueryRow(`SELECT sum(delta), max(seq), count(*) FROM credit_transactions`).Scan(&sum, &last, &count))
	require.Equal(t, []int64{want, want, want}, []int64{sum, last, count})
}
