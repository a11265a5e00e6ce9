// Command recovery measures how soon an installation is itself again after each kind of
// trouble, and that nothing was made twice or paid twice meanwhile.
//
//	make recovery                                       # everything, about seven minutes
//	make recovery ONLY=worker_killed,redis_away_cut     # some of the scenarios
//
// It starts what an installation runs, with its default settings: PostgreSQL, Redis, workers
// and two schedulers as processes of their own, built from this tree, and a vendor with books
// of its own. Servers are reached through doors ([door]) that can be down, cut or stuck. Each
// scenario has a database, a vendor and processes of its own ([site]); what it measured is one
// or more lines of a table ([finding]), judged by the targets it must meet, and by the books:
// afterwards every job must be delivered and charged once, the vendor's bill must have nothing
// twice, and `makegood verify` must find nothing.
//
// The figures go to bench/results.json, where each scenario replaces only its own. The exit
// code is 0 only if every target is met.
package main
