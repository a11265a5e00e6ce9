//go:build race

package outage

// slowness is how much slower the race detector makes things, and how much less of them is done.
const slowness = 5
