package crash_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// build builds a program and returns its bytes.
func build(t *testing.T, tags string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "worker")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-tags", tags, "-o", out, "github.com/makegood/makegood/cmd/worker")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	program, err := os.ReadFile(out)
	require.NoError(t, err)
	return program
}

func TestReleasedProgramsHoldNoPoint(t *testing.T) {
	t.Parallel()
	released, faulty := build(t, ""), build(t, "faults")
	for _, name := range names(t) {
		if !strings.Contains(name, ".") { // a word that occurs elsewhere
			continue
		}
		require.False(t, bytes.Contains(released, []byte(name)), name)
		require.True(t, bytes.Contains(faulty, []byte(name)), name)
	}
	require.False(t, bytes.Contains(released, []byte("MAKEGOOD_CRASH")))
}

// names are the points that crash.go declares, in order.
func names(t *testing.T) (list []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "crash.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, v := range spec.Values {
				if lit, ok := v.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					list = append(list, strings.Trim(lit.Value, `"`))
				}
			}
		}
		return true
	})
	require.NotEmpty(t, list)
	return list
}

// outside are the calls in a job's path that leave the process. Whatever function makes one has
// a point of its own.
var outside = regexp.MustCompile(`^(Transact|Submit|Find|Poll|Cancel|Download|EnqueueContext|RenewWorker|SaveVendorEvent|WriteAll|OpenJobs|SAdd)$`)

// elsewhere are calls of those names that are none, or not in a job's path.
var elsewhere = map[string]string{
	"tasks/client.go:Submit":  "is ours",
	"ledger/ledger.go:Direct": "runs in the caller's own transaction",
}

func TestEachCallThatLeavesTheProcessHasAPoint(t *testing.T) {
	t.Parallel()
	found := 0
	for _, dir := range []string{"ledger", "tasks", "reconciler"} {
		files, err := filepath.Glob("../../" + dir + "/*.go")
		require.NoError(t, err)
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			require.NoError(t, err)
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				leaves, marked := calls(f)
				where := dir + "/" + filepath.Base(name) + ":" + f.Name.Name
				if len(leaves) == 0 || elsewhere[where] != "" {
					continue
				}
				found++
				require.True(t, marked, "%s calls %v and has no crash.Here", where, leaves)
			}
		}
	}
	require.Greater(t, found, 10)
}

// calls lists the calls of a function that leave the process, and whether it has a point.
func calls(f *ast.FuncDecl) (leaves []string, marked bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch fn := call.Fun.(type) {
		case *ast.Ident:
			marked = marked || strings.HasPrefix(fn.Name, "crash")
		case *ast.SelectorExpr:
			if of, ok := fn.X.(*ast.Ident); ok && of.Name == "crash" {
				marked = true
			}
			if outside.MatchString(fn.Sel.Name) {
				leaves = append(leaves, fn.Sel.Name)
			}
		}
		return true
	})
	return leaves, marked
}
