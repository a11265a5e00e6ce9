package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kong"
)

// completionCmd prints a completion script. It is made from the command line's own model, so
// that a new command or flag is in it by itself.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (cmd *completionCmd) Run(c *cli, parser *kong.Kong) error {
	return writeCompletion(c.out, cmd.Shell, parser.Model.Node)
}

// place is where the cursor may stand: behind the words of Path. Values are those of a
// positional argument or of the flag that Path ends with.
type place struct {
	Path  string // "makegood job", "makegood job list --state"
	Words []word
}

// word is one thing that may be written there.
type word struct{ Name, Help string }

//go:embed completion/*
var completionScripts embed.FS

var completions = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"fish": func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	},
	"colon": func(s string) string { return strings.ReplaceAll(s, ":", `\:`) },
}).ParseFS(completionScripts, "completion/*"))

func writeCompletion(w io.Writer, shell string, root *kong.Node) error {
	var model struct {
		Paths  []string // of the commands below the first
		Places []place
		Values []place
	}
	visitCommands(root, root.Name, func(node *kong.Node, path string) {
		at := place{Path: path}
		for _, child := range node.Children {
			if !child.Hidden {
				at.Words = append(at.Words, word{child.Name, child.Help})
			}
		}
		for _, arg := range node.Positional {
			at.Words = append(at.Words, valuesOf(arg)...)
		}
		for _, flag := range slices.Concat(node.AllFlags(true)...) {
			at.Words = append(at.Words, word{"--" + flag.Name, flag.Help})
			if values := valuesOf(flag.Value); len(values) > 0 {
				model.Values = append(model.Values, place{path + " --" + flag.Name, values})
			}
		}
		model.Places = append(model.Places, at)
		if node != root {
			model.Paths = append(model.Paths, path)
		}
	})
	if err := completions.ExecuteTemplate(w, shell, model); err != nil {
		return fmt.Errorf("completion for %s: %w", shell, err)
	}
	return nil
}

// visitCommands calls visit for the program and every command that is not hidden.
func visitCommands(node *kong.Node, path string, visit func(node *kong.Node, path string)) {
	visit(node, path)
	for _, child := range node.Children {
		if !child.Hidden {
			visitCommands(child, path+" "+child.Name, visit)
		}
	}
}

func valuesOf(v *kong.Value) (words []word) {
	if v.Enum == "" || v.IsBool() {
		return nil
	}
	for _, name := range v.EnumSlice() {
		if name != "" {
			words = append(words, word{Name: name})
		}
	}
	return words
}
