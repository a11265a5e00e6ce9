package deploy_test

import (
	"encoding/json"
	"go/version"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

type instruction struct{ name, args string }

// stage is one FROM and what follows it.
type stage struct {
	image, name  string
	instructions []instruction
}

func (s stage) all(name string) []string {
	var args []string
	for _, i := range s.instructions {
		if i.name == name {
			args = append(args, i.args)
		}
	}
	return args
}

func dockerfile(t *testing.T) []stage {
	t.Helper()
	known := []string{"COPY", "RUN", "ENV", "WORKDIR", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
	var stages []stage
	text := regexp.MustCompile(`(?m)^\s*#.*\n`).ReplaceAllString(read(t, "Dockerfile"), "")
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if fields[0] == "FROM" {
			s := stage{image: fields[1]}
			if len(fields) == 4 && fields[2] == "AS" {
				s.name = fields[3]
			}
			stages = append(stages, s)
			continue
		}
		require.NotEmpty(t, stages, "the first instruction is FROM")
		require.Contains(t, known, fields[0])
		last := &stages[len(stages)-1]
		last.instructions = append(last.instructions, instruction{fields[0], strings.Join(fields[1:], " ")})
	}
	require.NotEmpty(t, stages)
	return stages
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	for _, s := range dockerfile(t) {
		if s.image != "scratch" {
			requirePinned(t, s.image)
		}
	}
}

func TestTheCompilerIsNewEnough(t *testing.T) {
	t.Parallel()
	required := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, filepath.Join(repository, "go.mod")))
	require.NotNil(t, required)
	used := regexp.MustCompile(`^golang:([0-9.]+)`).FindStringSubmatch(dockerfile(t)[0].image)
	require.NotNil(t, used)
	require.GreaterOrEqual(t, version.Compare("go"+used[1], "go"+required[1]), 0, "go.mod wants %s", required[1])
}

func TestEverythingThatIsCopiedExists(t *testing.T) {
	t.Parallel()
	made := []string{"/out/", "/state", "/etc/ssl/certs/ca-certificates.crt", "/bin/busybox"}
	earlier := []string{}
	for _, s := range dockerfile(t) {
		for _, args := range s.all("COPY") {
			fields := strings.Fields(args)
			from := ""
			for strings.HasPrefix(fields[0], "--") {
				if name, ok := strings.CutPrefix(fields[0], "--from="); ok {
					from = name
				}
				fields = fields[1:]
			}
			require.GreaterOrEqual(t, len(fields), 2, args)
			for _, source := range fields[:len(fields)-1] {
				if from != "" {
					require.Contains(t, earlier, from)
					require.Contains(t, made, source)
					continue
				}
				_, err := os.Stat(filepath.Join(repository, source))
				require.NoError(t, err)
			}
		}
		earlier = append(earlier, s.name)
	}
}

func TestProgramsAreBuiltStatically(t *testing.T) {
	t.Parallel()
	first := dockerfile(t)[0]
	env := slices.IndexFunc(first.instructions, func(i instruction) bool {
		return i.name == "ENV" && slices.Contains(strings.Fields(i.args), "CGO_ENABLED=0")
	})
	require.GreaterOrEqual(t, env, 0, "CGO_ENABLED=0")

	builds := regexp.MustCompile(`go build [^&]*-o /out/(\S+) \./cmd/(\S+)`)
	built := map[string]string{}
	for i, inst := range first.instructions {
		for _, found := range builds.FindAllStringSubmatch(inst.args, -1) {
			require.Greater(t, i, env, "CGO is off before anything is built")
			built[found[1]] = found[2]
			requireProgram(t, "/usr/local/bin/"+found[1])
		}
	}
	require.Equal(t, programs, built)
}

func TestTheImageIsSmallAndRunsAsNobody(t *testing.T) {
	t.Parallel()
	stages := dockerfile(t)
	last := stages[len(stages)-1]
	require.Equal(t, "scratch", last.image)
	require.Empty(t, last.all("RUN"), "there is no shell")
	users := last.all("USER")
	require.Len(t, users, 1)
	// By number, so that an orchestrator can see that it is not root.
	require.Regexp(t, `^[1-9]\d*:[1-9]\d*$`, users[0])
	require.True(t, slices.ContainsFunc(last.all("COPY"), func(args string) bool {
		return strings.Contains(args, "--chown="+users[0]+" ") && strings.HasSuffix(args, " "+last.all("VOLUME")[0])
	}), "the volume belongs to that user")
	require.Equal(t, last.all("VOLUME"), last.all("WORKDIR"))

	var entrypoint, command []string
	require.NoError(t, json.Unmarshal([]byte(last.all("ENTRYPOINT")[0]), &entrypoint), "no shell to read it")
	require.NoError(t, json.Unmarshal([]byte(last.all("CMD")[0]), &command))
	require.Len(t, entrypoint, 1)
	requireProgram(t, entrypoint[0])
}

func TestSecretsAndDataStayOutOfTheImage(t *testing.T) {
	t.Parallel()
	ignored := strings.Fields(read(t, "Dockerfile.dockerignore"))
	for _, pattern := range []string{"**/.env", "**/*.env", "**/*.db", "**/*.db-wal"} {
		require.Contains(t, ignored, pattern)
	}
}
