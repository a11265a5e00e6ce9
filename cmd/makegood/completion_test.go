package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// model is the command line's.
func model() *kong.Kong { return newParser(&cli{}, func(int) {}) }

// complete asks bash what it offers for a line whose last word is not finished.
func complete(t *testing.T, script string, words ...string) []string {
	t.Helper()
	bash := exec.CommandContext(t.Context(), "bash", "--norc", "-c", `source /dev/stdin
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
_makegood
printf '%s\n' "${COMPREPLY[@]}"`, "bash")
	bash.Args = append(bash.Args, words...)
	bash.Stdin = strings.NewReader(script)
	out, err := bash.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return strings.Fields(string(out))
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	script := installation{}.must(t, "completion", "bash")
	syntax := exec.CommandContext(t.Context(), "bash", "-n")
	syntax.Stdin = strings.NewReader(script)
	out, err := syntax.CombinedOutput()
	require.NoError(t, err, "%s", out)

	require.Subset(t, complete(t, script, "makegood", "job", ""), []string{"submit", "show", "watch", "cancel", "list", "credit"})
	require.NotContains(t, complete(t, script, "makegood", "job", ""), "grant")
	top := complete(t, script, "makegood", "")
	require.Subset(t, top, []string{"up", "demo", "account", "completion", "--json"})
	require.NotContains(t, top, "worker", "hidden")
	require.Equal(t, []string{"statement"}, complete(t, script, "makegood", "account", "st"))
	require.Equal(t, []string{"table", "json", "csv", "html"}, complete(t, script, "makegood", "--json", "account", "statement", "ada", "--format", ""))
	require.Equal(t, []string{"html"}, complete(t, script, "makegood", "account", "statement", "--format", "=", "h"))
	require.Equal(t, []string{"warn"}, complete(t, script, "makegood", "up", "--log-level", "w"))
	require.Equal(t, []string{"queued"}, complete(t, script, "makegood", "job", "list", "--state", "q"))
	require.Equal(t, []string{"fish"}, complete(t, script, "makegood", "completion", "f"))
	require.Equal(t, []string{"--dry-run"}, complete(t, script, "makegood", "reconcile", "--dry"))
}

// Every script knows every command, flag and value, and nothing hidden; where the shell is
// installed it reads the script too.
func TestScriptsKnowTheWholeCommandLine(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := installation{}.must(t, "completion", shell)
		knows := func(what string) {
			if !strings.Contains(script, what) {
				t.Errorf("%s does not know %s", shell, what)
			}
		}
		visitCommands(model().Model.Node, "makegood", func(node *kong.Node, path string) {
			knows("'" + path + "'")
			for _, flag := range node.Flags {
				if shell == "fish" {
					knows(" -l " + flag.Name + " ")
				} else {
					knows("--" + flag.Name)
				}
				knows(strings.Join(valuesOf(flag.Value), " "))
			}
		})
		require.NotContains(t, script, "scheduler'", shell)
		quotes := strings.Count(strings.ReplaceAll(strings.ReplaceAll(script, `'\''`, ""), `\'`, ""), "'")
		require.Zero(t, quotes%2, "%s: quotes are paired", shell)
		require.Equal(t, strings.Count(script, "{"), strings.Count(script, "}"), shell)
		if file, err := exec.LookPath(shell); err == nil {
			syntax := exec.CommandContext(t.Context(), file, "-n")
			syntax.Stdin = strings.NewReader(script)
			out, err := syntax.CombinedOutput()
			require.NoError(t, err, "%s: %s", shell, out)
		}
	}
}

func TestEveryCommandHasExamplesThatParse(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	for path := range examples {
		left[path] = true
	}
	visitCommands(model().Model.Node, "makegood", func(node *kong.Node, path string) {
		require.NotEmpty(t, node.Help, "%s has no help", path)
		require.NotEmpty(t, examples[path], "%s has no example", path)
		delete(left, path)
		for _, arg := range node.Positional {
			require.NotEmpty(t, arg.Help, "%s: <%s> has no help", path, arg.Name)
		}
		for _, flag := range node.Flags {
			require.NotEmpty(t, flag.Help, "%s: --%s has no help", path, flag.Name)
		}
		for _, example := range examples[path] {
			require.True(t, strings.HasPrefix(example, path+" ") || example == path || path == "makegood", example)
			parser := model()
			parsed, err := parser.Parse(negatives(parser.Model.Node, words(example)[1:]))
			require.NoError(t, err, example)
			require.True(t, path == "makegood" || strings.HasPrefix("makegood "+parsed.Command(), path), example)
		}
		var help bytes.Buffer
		code := run(t.Context(), append(strings.Fields(path)[1:], "--help"), streams{nil, &help, t.Output()})
		require.Zero(t, code)
		require.Contains(t, help.String(), examples[path][0])
	})
	require.Empty(t, left, "examples of commands that do not exist")
}

func TestNegativeAmounts(t *testing.T) {
	t.Parallel()
	root := model().Model.Node
	for line, want := range map[string]string{
		"account adjust ada -5 --reason r":        "account adjust ada --reason r -- -5",
		"account adjust ada --json -5 --reason r": "account adjust ada --json --reason r -- -5",
		"job submit --cost -5 --wait":             "job submit --cost=-5 --wait",
		"account adjust --reason r -- ada -5":     "account adjust --reason r -- ada -5",
		"account show ada --json":                 "account show ada --json",
		"account adjust ada --key=k -.5":          "account adjust ada --key=k -- -.5",
	} {
		require.Equal(t, strings.Fields(want), negatives(root, strings.Fields(line)), line)
	}
}
