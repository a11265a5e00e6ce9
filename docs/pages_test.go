package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/config"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	external   = regexp.MustCompile(`^[a-z]+:`)
)

func TestLinksResolve(t *testing.T) {
	t.Parallel()
	all := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = anchorsOf(p)
	}
	seen := 0
	for _, p := range all {
		text := inlineCode.ReplaceAllString(strings.Join(p.prose, "\n"), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			if external.MatchString(match[1]) {
				continue
			}
			seen++
			target, anchor, _ := strings.Cut(match[1], "#")
			to := p.path
			if target != "" {
				to = path.Join(path.Dir(p.path), target)
			}
			_, err := os.Stat(filepath.Join(root, filepath.FromSlash(to)))
			require.NoError(t, err, "%s links to %s", p.path, match[1])
			if anchor != "" {
				require.True(t, anchors[to][anchor], "%s links to %s, which has no such heading", p.path, match[1])
			}
		}
	}
	require.Greater(t, seen, 30)
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchorsOf are the names that headings get.
func anchorsOf(p page) map[string]bool {
	names := map[string]bool{}
	for _, line := range p.prose {
		if title := strings.TrimLeft(line, "#"); title != line {
			name := notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
			names[strings.ReplaceAll(name, " ", "-")] = true
		}
	}
	return names
}

func TestEveryPageIsInTheIndex(t *testing.T) {
	t.Parallel()
	index := read(t, "docs/README.md")
	for _, p := range pages(t) {
		if dir, name := path.Split(p.path); dir == "docs/" && name != "README.md" {
			require.Contains(t, index, "("+name+")")
		}
	}
}

var (
	testName = regexp.MustCompile("`((?:Test|Benchmark|Example)(?:[A-Z_]\\w*)?)(?:/(\\w+))?`")
	declared = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Example)\w*)\(`)
	scenario = regexp.MustCompile(`\{"([A-Z]\w+)", \w+\}`)
)

// A page names the tests that show what it says. A name behind a slash is a scenario of a suite.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	tests, scenarios := map[string]bool{}, map[string]bool{}
	for _, file := range files(t, ".go") {
		text := read(t, file)
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			tests[match[1]] = strings.HasSuffix(file, "_test.go")
		}
		for _, match := range scenario.FindAllStringSubmatch(text, -1) {
			scenarios[match[1]] = true
		}
	}
	named := 0
	for _, p := range pages(t) {
		for _, match := range testName.FindAllStringSubmatch(strings.Join(p.prose, "\n"), -1) {
			named++
			require.True(t, tests[match[1]], "%s names %s", p.path, match[1])
			require.True(t, match[2] == "" || scenarios[match[2]], "%s names %s", p.path, match[0])
		}
	}
	require.Greater(t, named, 100)
}

// gap stands in Go code of a page for lines of the example that are left out.
const gap = "// …"

// Go code in a page is an excerpt of an example, which compiles and is run.
func TestGoCodeIsFromAnExample(t *testing.T) {
	t.Parallel()
	examples := map[string][]string{}
	for _, file := range files(t, "example_test.go") {
		examples[file] = dedented(strings.Split(read(t, file), "\n"))
	}
	for _, b := range code(t, "go", anywhere) {
		found := false
		for _, lines := range examples {
			found = found || excerpt(dedented(b.lines), lines)
		}
		require.True(t, found, "%s shows Go code that stands in no example_test.go:\n%s", b.page, b.text())
	}
}

// excerpt reports whether the lines stand in the text one after another, but for the gaps.
func excerpt(lines, text []string) bool {
	for from := range text {
		if follows(lines, text[from:]) {
			return true
		}
	}
	return false
}

func follows(lines, text []string) bool {
	for i, line := range lines {
		if line == gap {
			return excerpt(lines[i+1:], text[i:])
		}
		if i >= len(text) || line != text[i] {
			return false
		}
	}
	return true
}

func dedented(lines []string) []string {
	flat := make([]string, len(lines))
	for i, line := range lines {
		flat[i] = strings.TrimSpace(line)
	}
	return flat
}

func TestExcerpts(t *testing.T) {
	t.Parallel()
	text := strings.Fields("a b c d e")
	for lines, want := range map[string]bool{"b c": true, "a c": false, "d e f": false, "b GAP e": true, "d GAP b": false, "a GAP d e": true} {
		list := strings.Fields(lines)
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], "GAP", gap)
		}
		require.Equal(t, want, excerpt(list, text), lines)
	}
}

var settingRow = regexp.MustCompile("^\\| `([A-Z_]+)` \\| (?:`(.*?)`)? ?\\|")

func TestTheTableOfSettingsIsComplete(t *testing.T) {
	t.Parallel()
	told := map[string]string{}
	for _, line := range parse("", read(t, "docs/running.md")).prose {
		if match := settingRow.FindStringSubmatch(line); match != nil {
			told[match[1]] = match[2]
		}
	}
	settings := map[string]string{}
	for _, s := range config.Default().Effective() {
		settings[s.Name] = s.Value
	}
	require.Equal(t, settings, told)
}

var makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)

func TestMakeHasTheTargetsShown(t *testing.T) {
	t.Parallel()
	targets := map[string]bool{}
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	for _, b := range code(t, "sh", anywhere) {
		for _, line := range b.lines {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "make" {
				require.True(t, targets[words[1]], "%s: make %s", b.page, words[1])
			}
		}
	}
}
