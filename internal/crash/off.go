//go:build !faults

package crash

// Compiled reports whether this program can be told to crash.
const Compiled = false

// Here does nothing.
func Here(string) {}
