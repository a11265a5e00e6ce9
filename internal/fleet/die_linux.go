package fleet

import "syscall"

// dieWithUs has the kernel kill a child whose parent thread has gone, so that even a SIGKILL of
// this program leaves nothing running. A group of its own keeps a terminal's Ctrl-C from the
// children: we end them ourselves.
func dieWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
