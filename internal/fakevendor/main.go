package fakevendor

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// Main runs a vendor as a process until ctx ends and returns its exit code. It
// prints one line when it serves: "ready http://127.0.0.1:41234". A test binary
// that starts itself again may call it first thing in TestMain.
//
// What should not be seen in a list of processes comes from the environment:
// FAKEVENDOR_KEY, the bearer key, and FAKEVENDOR_WEBHOOK_SECRETS, with commas
// while they are rotated.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := options(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "fakevendor:", err)
		return 2
	}
	v, err := New(o)
	if err != nil {
		fmt.Fprintln(stderr, "fakevendor:", err)
		return 1
	}
	fmt.Fprintln(stdout, "ready", v.URL())
	<-ctx.Done()
	if err := v.Close(); err != nil {
		fmt.Fprintln(stderr, "fakevendor:", err)
		return 1
	}
	return 0
}

// options reads flags, environment and the file of faults.
func options(args []string, stderr io.Writer) (Options, error) {
	o := Options{Key: os.Getenv("FAKEVENDOR_KEY")}
	if secrets := os.Getenv("FAKEVENDOR_WEBHOOK_SECRETS"); secrets != "" {
		o.WebhookSecrets = strings.Split(secrets, ",")
	}
	flags := flag.NewFlagSet("fakevendor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Addr, "listen", "127.0.0.1:0", "`address` to listen on")
	flags.StringVar(&o.PublicURL, "public-url", "", "where clients find it, for the addresses of files (default: where it listens)")
	flags.StringVar(&o.Data, "data", "", "`file` of the books (default: none, they end with the process)")
	flags.Int64Var(&o.Price, "price", 1, "of a unit")
	flags.DurationVar(&o.PollAfter, "poll-after", defaultPollAfter, "pace asked of clients")
	flags.DurationVar((*time.Duration)(&o.Work.Queue), "queue", 0, "how long generations are queued")
	flags.DurationVar((*time.Duration)(&o.Work.Duration), "work", 0, "how long generations are processed")
	flags.BoolVar(&o.Work.Hold, "hold", false, "generations wait until they are told to end")
	flags.BoolVar(&o.NoLookup, "no-lookup", false, "cannot be asked by idempotency key")
	flags.BoolVar(&o.NoCancel, "no-cancel", false, "cannot cancel")
	faults := flags.String("faults", "", "JSON `file` with a list of faults")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *faults == "" {
		return o, nil
	}
	data, err := os.ReadFile(*faults)
	if err == nil {
		err = decode(data, &o.Faults)
	}
	if err != nil {
		return Options{}, fmt.Errorf("faults: %w", err)
	}
	return o, nil
}
