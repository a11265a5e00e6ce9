package testenv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// children returns the processes whose parent is pid.
func children(pid int) ([]int, error) {
	if stats, _ := filepath.Glob("/proc/[0-9]*/stat"); len(stats) > 0 {
		return childrenFromProc(pid, stats), nil
	}
	out, err := exec.Command("ps", "-A", "-o", "pid=", "-o", "ppid=").Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []int
	for line := range strings.Lines(string(out)) {
		var child, parent int
		if n, _ := fmt.Sscan(line, &child, &parent); n == 2 && parent == pid {
			found = append(found, child)
		}
	}
	return found, nil
}

func childrenFromProc(pid int, stats []string) []int {
	var found []int
	for _, stat := range stats {
		if _, parent, ok := readStat(stat); ok && parent == pid {
			if child, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}

// readStat returns a process's state and parent. Its name, in parentheses
// before them, may itself contain spaces and parentheses.
func readStat(file string) (state string, parent int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", 0, false
	}
	_, err = fmt.Sscan(string(text[bytes.LastIndexByte(text, ')')+1:]), &state, &parent)
	return state, parent, err == nil
}

// running reports whether a process still does something: a zombie that waits
// for a careless init to notice does not.
func running(pid int) bool {
	if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
		return false
	}
	state, _, ok := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	return !ok || (state != "Z" && state != "X")
}
