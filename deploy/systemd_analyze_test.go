package deploy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const systemdExists = runtime.GOOS == "linux"

// systemdAnalyze finds the program, or installs it where that can be done.
func systemdAnalyze(t *testing.T) string {
	t.Helper()
	const program, pkg = "systemd-analyze", "systemd"
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	_, err := exec.LookPath("apt-get")
	require.True(t, err == nil && os.Geteuid() == 0, "%s is missing; install %s", program, pkg)

	// The lock under which all tests install packages.
	lock, err := os.Open("/var/lib/dpkg")
	require.NoError(t, err)
	defer func() { require.NoError(t, lock.Close()) }()
	require.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	if path, err := exec.LookPath(program); err == nil {
		return path // somebody else was first
	}
	for _, args := range [][]string{
		{"update", "-qq"},
		{"install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300", pkg},
	} {
		t.Logf("apt-get %v", args)
		out, err := run(t, "apt-get", args...)
		require.NoError(t, err, out)
	}
	path, err := exec.LookPath(program)
	require.NoError(t, err)
	return path
}

// install lays out a file system with the programs and the units, and returns
// its root.
func install(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	bin, etc := filepath.Join(root, "usr/local/bin"), filepath.Join(root, "etc/systemd/system")
	require.NoError(t, os.MkdirAll(bin, 0o755))
	require.NoError(t, os.MkdirAll(etc, 0o755))
	for name, command := range programs {
		// The clone may belong to another user, whom git does not trust.
		out, err := run(t, "go", "build", "-buildvcs=false", "-o", filepath.Join(bin, name), "../cmd/"+command)
		require.NoError(t, err, out)
	}
	for name := range units(t) {
		content := read(t, "systemd/"+name+".service")
		require.NoError(t, os.WriteFile(filepath.Join(etc, name+".service"), []byte(content), 0o600))
	}
	// Of the system around them only the names count.
	for _, target := range []string{"sysinit", "basic", "shutdown", "network-online", "multi-user"} {
		require.NoError(t, os.WriteFile(filepath.Join(etc, target+".target"), []byte("[Unit]\n"), 0o600))
	}
	return root
}

func run(t *testing.T, program string, args ...string) (output string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	return out.String(), err
}
