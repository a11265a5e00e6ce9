package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"github.com/makegood/makegood/internal/shape"
)

// printJSON prints one document. A reader who has gone is no news.
func printJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
}

// show prints v as JSON if that is asked for, and otherwise what text prints.
func (c *cli) show(v any, text func()) error {
	if c.JSON {
		printJSON(c.out, v)
	} else {
		text()
	}
	return nil
}

// table prints rows under a head, in columns.
func (c *cli) table(head []string, rows [][]string) {
	tw := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(head, "\t")))
	for _, row := range rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	_ = tw.Flush()
}

// credits shows an amount with CREDIT_SCALE decimals.
func (c *cli) credits(n int64) string { return shape.Credits(n, c.CreditScale) }

// more tells a person how to see the next page.
func (c *cli) more(cursor *string) {
	if cursor != nil {
		fmt.Fprintln(c.err, "more: --cursor", *cursor)
	}
}

var negative = regexp.MustCompile(`^-[0-9.]`)

// negatives lets people write -5 where an amount is wanted, which kong takes for a flag: after
// a flag that wants a value it becomes --flag=-5, anywhere else it moves behind a --, where
// nothing is a flag.
func negatives(root *kong.Node, args []string) []string {
	var flags, amounts []string
	rest := []string{}
	if i := slices.Index(args, "--"); i >= 0 {
		args, rest = args[:i], args[i+1:]
	}
	switches := switchNames(root)
	for i, arg := range args {
		switch {
		case !negative.MatchString(arg):
			flags = append(flags, arg)
		case i > 0 && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=") && !switches[args[i-1]]:
			flags[len(flags)-1] += "=" + arg
		default:
			amounts = append(amounts, arg)
		}
	}
	if len(amounts)+len(rest) == 0 {
		return flags
	}
	return slices.Concat(flags, []string{"--"}, amounts, rest)
}

// switchNames are the flags that take no value.
func switchNames(node *kong.Node) map[string]bool {
	names := map[string]bool{}
	for _, flag := range node.Flags {
		if flag.IsBool() {
			names["--"+flag.Name] = true
		}
	}
	for _, child := range node.Children {
		for name := range switchNames(child) {
			names[name] = true
		}
	}
	return names
}
