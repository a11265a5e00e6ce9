// Package telemetry is what a running program tells its operator: the log, and
// the addresses that an orchestrator asks.
//
//	log, err := telemetry.Logger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
//	health := &telemetry.Health{Dependencies: []telemetry.Dependency{
//		{Name: "database", Check: pool.Ping},
//		{Name: "redis", Check: ping, Optional: true},
//	}}
//	ln, err := telemetry.Listen(cfg.ListenAddr)
//	err = telemetry.Serve(ctx, ln, health.Handler(), log)
//
// A program that drains calls [Health.Drain] when it is told to stop and ends
// ctx when it is done, so that in between it is alive but not ready.
package telemetry
