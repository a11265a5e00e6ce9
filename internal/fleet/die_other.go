//go:build unix && !linux

package fleet

import "syscall"

// dieWithUs keeps a terminal's Ctrl-C from the children: we end them ourselves. Only Linux can
// also end them when this program is killed.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
