package deploy_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/config"
)

// unit is a unit file: section and key to all values, in order.
type unit map[string]map[string][]string

func units(t *testing.T) map[string]unit {
	t.Helper()
	files, err := filepath.Glob("systemd/*.service")
	require.NoError(t, err)
	all := map[string]unit{}
	for _, file := range files {
		all[strings.TrimSuffix(filepath.Base(file), ".service")] = parseUnit(t, read(t, file))
	}
	require.Len(t, all, len(programs))
	return all
}

func parseUnit(t *testing.T, text string) unit {
	t.Helper()
	u, section := unit{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.Trim(line, "[]")
			require.Contains(t, []string{"Unit", "Service", "Install"}, section)
			require.NotContains(t, u, section, "one section, one place")
			u[section] = map[string][]string{}
			continue
		}
		key, value, found := strings.Cut(line, "=")
		require.True(t, found, "neither section nor setting: %q", line)
		require.Regexp(t, `^[A-Z][A-Za-z]+$`, key)
		require.NotEmpty(t, section, line)
		u[section][key] = append(u[section][key], value)
	}
	return u
}

// one returns the only value of a key.
func (u unit) one(t *testing.T, section, key string) string {
	t.Helper()
	require.Len(t, u[section][key], 1, "%s=", key)
	return u[section][key][0]
}

func TestUnitsStartPrograms(t *testing.T) {
	t.Parallel()
	for name, u := range units(t) {
		command := strings.Fields(u.one(t, "Service", "ExecStart"))
		requireProgram(t, command[0])
		require.NotEmpty(t, u.one(t, "Unit", "Description"))
		require.Equal(t, "network-online.target", u.one(t, "Unit", "Wants"))
		require.Contains(t, strings.Fields(u.one(t, "Unit", "After")), "network-online.target")
		if name == "makegood-migrate" {
			require.Equal(t, "/usr/local/bin/makegood migrate up --app-role makegood_app", strings.Join(command, " "))
			require.Equal(t, "oneshot", u.one(t, "Service", "Type"))
			continue
		}
		require.Equal(t, []string{"/usr/local/bin/" + name}, command)
		require.Equal(t, "exec", u.one(t, "Service", "Type"))
		require.Equal(t, "multi-user.target", u.one(t, "Install", "WantedBy"))
		require.Equal(t, "always", u.one(t, "Service", "Restart"))
		require.Equal(t, "0", u.one(t, "Unit", "StartLimitIntervalSec"))
		require.Contains(t, strings.Fields(u.one(t, "Unit", "After")), "makegood-migrate.service")

		stop, err := time.ParseDuration(u.one(t, "Service", "TimeoutStopSec"))
		require.NoError(t, err)
		require.GreaterOrEqual(t, stop, config.Default().ShutdownTimeout+5*time.Second)
		require.Contains(t, read(t, "env.example"), "Above "+(stop-5*time.Second).String()+", raise TimeoutStopSec")
	}
}

func TestUnitsKnowTheirSettings(t *testing.T) {
	t.Parallel()
	var ports []string
	for name, u := range units(t) {
		files := []string{"/etc/makegood/env"}
		if name == "makegood-migrate" {
			files = append(files, "/etc/makegood/migrate.env")
		}
		require.Equal(t, files, u["Service"]["EnvironmentFile"], "only migrations are the owner")
		for _, variable := range u["Service"]["Environment"] {
			key, value, _ := strings.Cut(variable, "=")
			require.Contains(t, settings(), key)
			if key == "LISTEN_ADDR" {
				host, port, err := net.SplitHostPort(value)
				require.NoError(t, err)
				require.Equal(t, "127.0.0.1", host)
				ports = append(ports, port)
			}
		}
	}
	require.Len(t, ports, 2)
	require.NotEqual(t, ports[0], ports[1], "both run on one host")
}

func TestUnitsAreConfined(t *testing.T) {
	t.Parallel()
	for name, u := range units(t) {
		require.Equal(t, "makegood", u.one(t, "Service", "User"))
		require.Equal(t, "makegood", u.one(t, "Service", "Group"))
		require.Equal(t, "/var/lib/"+u.one(t, "Service", "StateDirectory"), u.one(t, "Service", "WorkingDirectory"))
		require.Equal(t, "strict", u.one(t, "Service", "ProtectSystem"), name)
		require.Empty(t, u.one(t, "Service", "CapabilityBoundingSet"), name)
		require.Empty(t, u.one(t, "Service", "AmbientCapabilities"), name)
		require.Equal(t, []string{"@system-service", "~@privileged @resources"}, u["Service"]["SystemCallFilter"], name)
		require.Equal(t, "AF_INET AF_INET6 AF_UNIX", u.one(t, "Service", "RestrictAddressFamilies"), name)
		for _, key := range []string{
			"NoNewPrivileges", "ProtectHome", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
			"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "PrivateDevices", "PrivateTmp",
			"PrivateUsers", "LockPersonality", "MemoryDenyWriteExecute", "RemoveIPC", "RestrictNamespaces",
			"RestrictRealtime", "RestrictSUIDSGID",
		} {
			require.Equal(t, "yes", u.one(t, "Service", key), "%s of %s", key, name)
		}
	}
}

func TestTheUserIsMade(t *testing.T) {
	t.Parallel()
	require.Regexp(t, `(?m)^u makegood - "[^"]+" /var/lib/makegood$`, read(t, "systemd/makegood.sysusers"))
}

// TestSystemdAgrees builds the programs, puts them and the units where an
// installation has them, and asks systemd. Where there is no systemd to ask
// (anywhere but on Linux), the tests above are what is known.
func TestSystemdAgrees(t *testing.T) {
	t.Parallel()
	if !systemdExists {
		t.Log("this system has no systemd")
		return
	}
	analyze := systemdAnalyze(t)
	root := install(t)
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range units(t) {
			if !yield(name + ".service") {
				return
			}
		}
	})
	out, err := run(t, analyze, append([]string{"verify", "--root=" + root, "--man=no"}, names...)...)
	require.NoError(t, err, out)
	require.Empty(t, out, "it warns of what it does not know, and succeeds")

	// 0 is a service that can do nothing, 100 one that can do everything.
	for _, name := range names {
		out, err := run(t, analyze, "security", "--root="+root, "--offline=yes", "--no-pager", "--threshold=15", name)
		require.NoError(t, err, out)
	}
}
