package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/makegood/makegood/internal/config"
	"github.com/makegood/makegood/internal/telemetry"
)

// Main is the whole of a program that only runs: it reads the configuration from the
// environment and the flags, opens the ledger, and runs until SIGINT or SIGTERM. It returns
// the exit code.
func Main(program config.Program, description string, run func(*App, context.Context) error) int {
	var cli struct{ config.Config }
	parser := kong.Must(&cli, kong.Name("makegood-"+string(program)), kong.Description(description))
	_, err := parser.Parse(os.Args[1:])
	if err == nil {
		err = Serve(cli.Config, program, run)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "makegood-%s: %v\n", program, err)
	}
	return ExitCode(err)
}

// Serve runs a program by its configuration until SIGINT or SIGTERM.
func Serve(cfg config.Config, program config.Program, run func(*App, context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := cfg.For(program)
	if err != nil {
		return err
	}
	log, err := telemetry.Logger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		return err
	}
	a, err := Open(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer a.Close()
	err = a.Serve(ctx, func(ctx context.Context) error { return run(a, ctx) }, func(url string) {
		log.Info("ready", "program", string(program), "url", url)
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
