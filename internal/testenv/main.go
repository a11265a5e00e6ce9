package testenv

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main is a package's TestMain: it runs the tests, fails if they passed but
// left goroutines behind, stops the servers that this process started, and
// exits.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	code := m.Run()
	if code == 0 {
		// Before the servers stop, since that would end a forgotten connection
		// and hide it. Listening to a shared server's keeper is ours.
		ours := goleak.IgnoreAnyFunction("github.com/makegood/makegood/internal/testenv.(*keeper).listen")
		if err := goleak.Find(ours); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: goroutines left behind by the tests:", err)
			code = 1
		}
	}
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		code = max(code, 1)
	}
	return code
}
