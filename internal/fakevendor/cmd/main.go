// Command cmd runs a fake vendor as a process of its own; -help lists its flags.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/makegood/makegood/internal/fakevendor"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := fakevendor.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
