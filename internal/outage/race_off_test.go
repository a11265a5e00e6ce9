//go:build !race

package outage

// slowness is how much slower things are than what is promised: not at all.
const slowness = 1
