package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// printTable writes the findings for people.
func printTable(w io.Writer, all []finding) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "recovery, seconds\tn\tmedian\tp99\tmax\ttarget\tok")
	for _, f := range all {
		fmt.Fprintf(table, "%s\t%d", f.what, len(f.samples))
		for _, s := range stats {
			if len(f.samples) == 0 {
				fmt.Fprint(table, "\t–")
				continue
			}
			fmt.Fprintf(table, "\t%.2f", f.at(s).Seconds())
		}
		fmt.Fprintf(table, "\t%s\t%s\n", f.targetText(), f.verdict())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range all {
		for _, n := range f.nothing {
			for i, text := range n.seen {
				if i == 10 {
					fmt.Fprintf(w, "%s: %s: … and %d more\n", f.name, n.name, len(n.seen)-i)
					break
				}
				fmt.Fprintf(w, "%s: %s: %s\n", f.name, n.name, text)
			}
		}
	}
	return nil
}

func (f finding) targetText() string {
	var parts []string
	for _, t := range f.targets {
		parts = append(parts, t.String())
	}
	for _, n := range f.nothing {
		parts = append(parts, "no "+n.name)
	}
	if len(parts) == 0 {
		return "–"
	}
	return strings.Join(parts, ", ")
}

func (f finding) verdict() string {
	switch {
	case !f.ok():
		return "MISSED"
	case len(f.targets)+len(f.nothing) == 0:
		return "–"
	}
	for _, t := range f.targets {
		if !f.met(t) {
			return "yes, aim missed"
		}
	}
	return "yes"
}
