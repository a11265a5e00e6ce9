package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is how the names of our results begin.
const part = "recovery."

// result is a row of results.json, whose other rows are other programs'.
type result struct {
	Name   string     `json:"name"`
	Value  float64    `json:"value"`
	Unit   string     `json:"unit"`
	Base   *float64   `json:"base"`  // null: nothing is compared
	Ratio  *float64   `json:"ratio"` // null, likewise
	Must   *float64   `json:"must"`  // at most; null for no target
	Met    *bool      `json:"met"`   // null for no target
	Commit *string    `json:"commit"`
	At     *time.Time `json:"at"`
}

// resultsOf lists what was found, at a commit ("" for unknown) and a time.
func resultsOf(all []finding, commit string, at time.Time) []result {
	at = at.UTC().Truncate(time.Millisecond)
	rows := []result{}
	add := func(name string, value float64, unit string, limit *float64, met *bool) {
		r := result{Name: part + name, Value: value, Unit: unit, Must: limit, Met: met, At: &at}
		if commit != "" {
			r.Commit = &commit
		}
		rows = append(rows, r)
	}
	for _, f := range all {
		add(f.name+".n", float64(len(f.samples)), "samples", nil, nil)
		for _, s := range stats {
			if len(f.samples) == 0 {
				break
			}
			var limit *float64
			var met *bool
			for _, t := range f.targets {
				if t.of == s && !t.aim {
					limit, met = new(t.most.Seconds()), new(f.met(t))
				}
			}
			add(f.name+"."+string(s), float64(f.at(s).Milliseconds())/1000, "s", limit, met)
		}
		for _, n := range f.nothing {
			add(f.name+"."+n.name, float64(len(n.seen)), "count", new(0.0), new(len(n.seen) == 0))
		}
	}
	return rows
}

// merge replaces in the text of a results file, which may be empty, all rows of the scenarios
// that rows come from. Others stay as they are, and in their order.
func merge(text []byte, rows []result) ([]byte, error) {
	var old []json.RawMessage
	if len(bytes.TrimSpace(text)) > 0 {
		if err := json.Unmarshal(text, &old); err != nil {
			return nil, fmt.Errorf("it is no list of results: %w", err)
		}
	}
	measured := map[string]bool{}
	for _, r := range rows {
		measured[scenarioOf(r.Name)] = true
	}
	var lines []string
	place := -1 // behind our last row
	for _, raw := range old {
		var row struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(raw, &row); err != nil {
			return nil, fmt.Errorf("a result has no name: %w", err)
		}
		if !measured[scenarioOf(row.Name)] {
			var line bytes.Buffer
			if err := json.Compact(&line, raw); err != nil {
				return nil, err
			}
			lines = append(lines, line.String())
		}
		if strings.HasPrefix(row.Name, part) {
			place = len(lines)
		}
	}
	if place < 0 {
		place = len(lines)
	}
	var added []string
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		added = append(added, string(line))
	}
	if lines = slices.Insert(lines, place, added...); len(lines) == 0 {
		return []byte("[]\n"), nil
	}
	return []byte("[\n  " + strings.Join(lines, ",\n  ") + "\n]\n"), nil
}

// scenarioOf is recovery.worker_killed of recovery.worker_killed.noticed.p99, and the whole
// name of what is not ours.
func scenarioOf(name string) string {
	if rest, found := strings.CutPrefix(name, part); found {
		scenario, _, _ := strings.Cut(rest, ".")
		return part + scenario
	}
	return name
}

// saveResults merges rows into a file, which need not exist.
func saveResults(file string, rows []result) error {
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := merge(old, rows)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
