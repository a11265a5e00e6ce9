package testenv

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// childVar makes the test binary the victim of the crash tests instead.
const childVar = "MAKEGOOD_TESTENV_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(beVictim())
	}
	Main(m)
}

// beVictim starts servers, says where they are, and waits to be killed.
func beVictim() int {
	servers, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, s := range servers.started {
		fmt.Println(s.keep.dir, s.proc.pid, s.keep.cmd.Process.Pid)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // for ever: the test holds the other end
	return 0
}
