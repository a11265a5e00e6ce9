package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 345678, time.UTC)

func TestResultsOfFindings(t *testing.T) {
	t.Parallel()
	rows := resultsOf([]finding{{name: "killed.local", samples: durations(1, 2.0005), targets: []target{must(p99, time.Second), hopeMedian(3 * time.Second)},
		nothing: []nothing{{"duplicates", []string{"job 1"}}}}, {name: "none"}}, "abc", noon)
	text, err := json.Marshal(rows)
	require.NoError(t, err)
	rest := `"base":null,"ratio":null,"must":null,"met":null,"commit":"abc","at":"2030-01-02T12:00:00Z"}`
	require.JSONEq(t, `[
		{"name":"recovery.killed.local.n","value":2,"unit":"samples",`+rest+`,
		{"name":"recovery.killed.local.median","value":1,"unit":"s",`+rest+`,
		{"name":"recovery.killed.local.p99","value":2,"unit":"s","base":null,"ratio":null,"must":1,"met":false,"commit":"abc","at":"2030-01-02T12:00:00Z"},
		{"name":"recovery.killed.local.max","value":2,"unit":"s",`+rest+`,
		{"name":"recovery.killed.local.duplicates","value":1,"unit":"count","base":null,"ratio":null,"must":0,"met":false,"commit":"abc","at":"2030-01-02T12:00:00Z"},
		{"name":"recovery.none.n","value":0,"unit":"samples",`+rest+`]`, string(text))
	require.Nil(t, resultsOf([]finding{{name: "x"}}, "", noon)[0].Commit)
}

func TestMergeReplacesOnlyWhatWasMeasured(t *testing.T) {
	t.Parallel()
	old := `[ {"name": "open.hot", "value": 2.50, "extra": [1, 2]},
	  {"name":"recovery.worker_killed.p99","value":1},
	  {"name":"recovery.worker_killed.local.p99","value":1},
	  {"name":"recovery.worker_killed_twice.p99","value":7},
	  {"name":"worker_killed.p99","value":3}]`
	rows := []result{{Name: "recovery.worker_killed.p99", Value: 9, Unit: "s"}}
	mine := `{"name":"recovery.worker_killed.p99","value":9,"unit":"s","base":null,"ratio":null,"must":null,"met":null,"commit":null,"at":null}`
	got, err := merge([]byte(old), rows)
	require.NoError(t, err)
	require.Equal(t, `[
  {"name":"open.hot","value":2.50,"extra":[1,2]},
  {"name":"recovery.worker_killed_twice.p99","value":7},
  `+mine+`,
  {"name":"worker_killed.p99","value":3}
]
`, string(got))
	again, err := merge(got, rows)
	require.NoError(t, err)
	require.Equal(t, string(got), string(again))
}

func TestMergeIntoNothing(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "[]"} {
		got, err := merge([]byte(text), []result{{Name: "recovery.x.n"}})
		require.NoError(t, err)
		var rows []result
		require.NoError(t, json.Unmarshal(got, &rows))
		require.Equal(t, []result{{Name: "recovery.x.n"}}, rows)
	}
	got, err := merge(nil, nil)
	require.NoError(t, err)
	require.JSONEq(t, `[]`, string(got))
}

func TestWhatIsNoListOfResultsIsNotOverwritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "new", "results.json")
	require.NoError(t, saveResults(file, []result{{Name: "recovery.x.n"}}), "it need not exist")
	for _, text := range []string{`{"name":"x"}`, `[1]`, `[`} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		require.ErrorContains(t, saveResults(file, nil), file)
		kept, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, text, string(kept))
	}
}
