// Package docs_test keeps README.md and the pages in this folder true: links, names of tests,
// Go code, queries, commands and what they print.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/makegood/makegood/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const root = ".."

// block is fenced code in a page.
type block struct {
	page   string // path from the root
	info   string // what stands behind the opening fence
	before string // the last line of text before it
	lines  []string
}

func (b block) text() string { return strings.Join(b.lines, "\n") }

// page is a file of Markdown: its fenced code, and the rest.
type page struct {
	path   string
	prose  []string
	blocks []block
}

// files lists what in the repository ends so, by path from the root. What programs leave
// behind is not the repository's.
func files(t *testing.T, suffix string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "artifacts", "demo-out", "coverage"}, name)) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, suffix) {
			relative, err := filepath.Rel(root, path)
			found = append(found, filepath.ToSlash(relative))
			return err
		}
		return nil
	}))
	require.NotEmpty(t, found)
	return found
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	require.NoError(t, err)
	return string(raw)
}

func pages(t *testing.T) []page {
	t.Helper()
	var list []page
	for _, path := range files(t, ".md") {
		list = append(list, parse(path, read(t, path)))
	}
	return list
}

func parse(path, text string) page {
	p := page{path: path}
	var open *block
	last := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{page: path, info: info, before: last}
		case fence:
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.lines = append(open.lines, line)
		default:
			p.prose = append(p.prose, line)
			if strings.TrimSpace(line) != "" {
				last = line
			}
		}
	}
	return p
}

// code lists the fenced code of one kind in the pages that path selects.
func code(t *testing.T, info string, of func(path string) bool) []block {
	t.Helper()
	var list []block
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.info == info && of(p.path) {
				list = append(list, b)
			}
		}
	}
	require.NotEmpty(t, list)
	return list
}

func anywhere(string) bool { return true }

func in(path string) func(string) bool { return func(p string) bool { return p == path } }
