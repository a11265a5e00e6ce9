// Package deploy_test reads what is in this folder the way Docker, Compose and
// systemd do, and checks it against the programs: a file here that names a
// setting, a path or a program that no longer exists fails a test.
package deploy_test

import (
	"go/build"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/config"
)

const repository = ".."

// programs are the packages under cmd that are delivered, by the name that each
// is installed under in /usr/local/bin.
var programs = map[string]string{
	"makegood":           "makegood",
	"makegood-worker":    "worker",
	"makegood-scheduler": "scheduler",
}

// settings are the variables that the programs read, with their defaults.
func settings() map[string]string {
	all := map[string]string{}
	for _, s := range config.Default().Effective() {
		all[s.Name] = s.Value
	}
	return all
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(content)
}

// requireProgram checks that a command is built from a main package.
func requireProgram(t *testing.T, installed string) {
	t.Helper()
	command, ok := programs[filepath.Base(installed)]
	require.True(t, ok, "%s is no program of ours", installed)
	require.Equal(t, "/usr/local/bin", filepath.Dir(installed))
	pkg, err := build.ImportDir(filepath.Join(repository, "cmd", command), 0)
	require.NoError(t, err)
	require.Equal(t, "main", pkg.Name)
}

var exactVersion = regexp.MustCompile(`^[a-z0-9./-]+:\d+\.\d+(\.\d+)?(-[a-z0-9.]+)?(@sha256:[0-9a-f]{64})?$`)

// requirePinned refuses images whose content changes under the same name.
func requirePinned(t *testing.T, image string) {
	t.Helper()
	require.Regexp(t, exactVersion, image, "name an exact version")
}

func TestTheExampleListsEverySettingWithItsDefault(t *testing.T) {
	t.Parallel()
	compose := map[string]bool{"MAKEGOOD_OWNER_PASSWORD": true, "MAKEGOOD_APP_PASSWORD": true}
	// These have no place in a file that all programs share: each listens on
	// its own address, and only migrations know the owner.
	missing := settings()
	delete(missing, "LISTEN_ADDR")
	delete(missing, "MIGRATE_DATABASE_URL")
	for line := range strings.Lines(read(t, "env.example")) {
		line = strings.TrimSpace(line)
		name, value, found := strings.Cut(strings.TrimPrefix(line, "#"), "=")
		if !found || !regexp.MustCompile(`^[A-Z_]+$`).MatchString(name) {
			require.True(t, line == "" || strings.HasPrefix(line, "# "), "neither comment nor setting: %q", line)
			continue
		}
		if compose[name] {
			require.Empty(t, value, "no secret in this file")
			delete(compose, name)
			continue
		}
		want, known := missing[name]
		require.True(t, known, "%s is no setting, or is here twice", name)
		require.True(t, strings.HasPrefix(line, "#"), "%s: a default is shown, not set", name)
		switch name {
		case "DATABASE_URL", "REDIS_URL": // these depend on the machine
		default:
			require.Equal(t, want, value, name)
		}
		delete(missing, name)
	}
	require.Empty(t, missing)
	require.Empty(t, compose)
}
