package deploy_test

import (
	"maps"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/makegood/makegood/internal/config"
)

type composeFile struct {
	Name       string
	Services   map[string]service
	Volumes    map[string]any
	Networks   map[string]struct{ Internal bool }
	Extensions map[string]any `yaml:",inline"`
}

// service has the keys that are used; another one is an error, as is a typo.
type service struct {
	Image           string
	Build           struct{ Context, Dockerfile string }
	Entrypoint      []string
	Command         []string
	Environment     map[string]string
	EnvFile         []envFile            `yaml:"env_file"`
	DependsOn       map[string]condition `yaml:"depends_on"`
	Restart         string
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
	StopSignal      string        `yaml:"stop_signal"`
	Healthcheck     *healthcheck
	Ports           []string
	Volumes         []string
	Networks        []string
	Profiles        []string
	ReadOnly        bool `yaml:"read_only"`
	Tmpfs           []string
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	ShmSize         string   `yaml:"shm_size"`
}

type (
	envFile struct {
		Path     string
		Required bool
	}
	condition   struct{ Condition string }
	healthcheck struct {
		Test        []string
		Interval    time.Duration
		Timeout     time.Duration
		StartPeriod time.Duration `yaml:"start_period"`
		Retries     int
		Disable     bool
	}
)

var passwords = map[string]string{"MAKEGOOD_OWNER_PASSWORD": "own3r", "MAKEGOOD_APP_PASSWORD": "4pp"}

// compose decodes the file as Compose would with these passwords set.
func compose(t *testing.T) composeFile {
	t.Helper()
	text := regexp.MustCompile(`\$\$|\$\{[^}]*\}`).ReplaceAllStringFunc(read(t, "compose.yaml"), func(found string) string {
		if found == "$$" {
			return "$"
		}
		name, _, required := strings.Cut(strings.Trim(found, "${}"), ":?")
		require.True(t, required, "%s: stop if it is not set, and say so", found)
		require.Contains(t, passwords, name)
		return passwords[name]
	})
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	var file composeFile
	require.NoError(t, decoder.Decode(&file))
	for name := range file.Extensions {
		require.True(t, strings.HasPrefix(name, "x-"), name)
	}
	return file
}

// ours are the services that run a program of this repository.
func (f composeFile) ours() map[string]service {
	return maps.Collect(func(yield func(string, service) bool) {
		for name, s := range f.Services {
			if s.Image == "makegood" && !yield(name, s) {
				return
			}
		}
	})
}

func TestServices(t *testing.T) {
	t.Parallel()
	file := compose(t)
	require.ElementsMatch(t, []string{"postgres", "redis", "migrate", "worker", "scheduler", "makegood"},
		slices.Collect(maps.Keys(file.Services)))
	for name, s := range file.Services {
		if s.Image != "makegood" {
			requirePinned(t, s.Image)
		}
		require.Empty(t, s.Ports, "%s is not open to the outside", name)
		for _, network := range s.Networks {
			require.Contains(t, file.Networks, network)
		}
		for _, volume := range s.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if strings.HasPrefix(source, ".") {
				_, err := os.Stat(source)
				require.NoError(t, err)
				continue
			}
			require.Contains(t, file.Volumes, source)
		}
		if s.Build.Context != "" {
			_, err := os.Stat(s.Build.Context + "/" + s.Build.Dockerfile)
			require.NoError(t, err)
		}
	}
	require.True(t, file.Networks["inner"].Internal)
	for _, name := range []string{"postgres", "redis", "migrate"} {
		require.Equal(t, []string{"inner"}, file.Services[name].Networks)
	}
}

func TestDependencies(t *testing.T) {
	t.Parallel()
	file := compose(t)
	for name, s := range file.Services {
		for on, wanted := range s.DependsOn {
			other, exists := file.Services[on]
			require.True(t, exists)
			switch wanted.Condition {
			case "service_healthy":
				require.NotNil(t, other.Healthcheck, "%s waits for %s", name, on)
			case "service_completed_successfully":
				require.Equal(t, "no", other.Restart, "%s must end", on)
			default:
				require.Fail(t, "no such condition", wanted.Condition)
			}
		}
	}
	for _, name := range []string{"worker", "scheduler"} {
		require.ElementsMatch(t, []string{"migrate", "postgres", "redis"},
			slices.Collect(maps.Keys(file.Services[name].DependsOn)))
	}
	require.Contains(t, file.Services["migrate"].DependsOn, "postgres")
}

func TestWhatRunsIsWatchedAndRestarted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postgres", "redis", "worker", "scheduler"} {
		s := compose(t).Services[name]
		require.Equal(t, "unless-stopped", s.Restart, name)
		require.NotNil(t, s.Healthcheck, name)
		require.NotEmpty(t, s.Healthcheck.Test, name)
		require.Positive(t, s.Healthcheck.Interval, name)
		require.Positive(t, s.Healthcheck.Retries, name)
		require.Less(t, s.Healthcheck.Timeout, s.StopGracePeriod, name)
	}
}

func TestProgramsRunWithTheirSettings(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]config.Program{
		"worker": config.Worker, "scheduler": config.Scheduler, "makegood": config.Command, "migrate": config.Command,
	} {
		s := compose(t).Services[name]
		if len(s.Entrypoint) > 0 {
			requireProgram(t, s.Entrypoint[0])
			require.Equal(t, "/usr/local/bin/makegood-"+name, s.Entrypoint[0])
			// With an entrypoint of its own, the image's command must not follow.
			require.NotNil(t, s.Command)
		}
		var flags []string
		for variable, value := range s.Environment {
			require.Contains(t, settings(), variable)
			flags = append(flags, "--"+strings.ToLower(strings.ReplaceAll(variable, "_", "-"))+"="+value)
		}
		cfg, err := config.Load(flags...)
		require.NoError(t, err)
		_, err = cfg.For(want)
		require.NoError(t, err)
	}
}

func TestJobsMayFinishBeforeTheKill(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worker", "scheduler"} {
		s := compose(t).Services[name]
		timeout, err := time.ParseDuration(s.Environment["SHUTDOWN_TIMEOUT"])
		require.NoError(t, err)
		require.GreaterOrEqual(t, s.StopGracePeriod, timeout+5*time.Second)
	}
}

func TestTheQueueIsKeptAndNothingIsEvicted(t *testing.T) {
	t.Parallel()
	command := strings.Join(compose(t).Services["redis"].Command, " ")
	require.Contains(t, command, "--appendonly yes")
	require.Contains(t, command, "--maxmemory-policy noeviction")
	require.Regexp(t, `--maxmemory \d+mb`, command)
}

func TestOnlyMigrationsAreTheOwner(t *testing.T) {
	t.Parallel()
	file := compose(t)
	user := func(s service) *url.Userinfo {
		u, err := url.Parse(s.Environment["DATABASE_URL"])
		require.NoError(t, err)
		require.Equal(t, "postgres", u.Hostname())
		require.Equal(t, "/"+file.Services["postgres"].Environment["POSTGRES_DB"], u.Path)
		return u.User
	}
	const app = "makegood_app"
	owner := file.Services["postgres"].Environment["POSTGRES_USER"]
	for name, s := range file.ours() {
		want := url.UserPassword(app, passwords["MAKEGOOD_APP_PASSWORD"])
		if name == "migrate" {
			want = url.UserPassword(owner, passwords["MAKEGOOD_OWNER_PASSWORD"])
		}
		require.Equal(t, want, user(s), name)
	}
	require.Equal(t, []string{"migrate", "up", "--app-role", app}, file.Services["migrate"].Command)

	// The role is made when the database is.
	const script = "postgres/app-role.sh"
	require.Contains(t, read(t, script), "CREATE ROLE "+app+" LOGIN")
	require.Contains(t, file.Services["postgres"].Volumes, "./"+script+":/docker-entrypoint-initdb.d/app-role.sh:ro")
	require.NoError(t, exec.CommandContext(t.Context(), "sh", "-n", script).Run())
	info, err := os.Stat(script)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm(), "else it is read into a shell that lacks set -eu")
}

func TestProgramsAreConfined(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).ours() {
		require.True(t, s.ReadOnly, name)
		require.Equal(t, []string{"ALL"}, s.CapDrop, name)
		require.Equal(t, []string{"no-new-privileges:true"}, s.SecurityOpt, name)
	}
}
