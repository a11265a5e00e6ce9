package main

import (
	"embed"
	"fmt"
	"io"
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

// place is what may be written behind the words of Path.
type place struct {
	Path   string // such as "makegood job"
	Words  []word // commands, and values of arguments
	Flags  []word // of this command alone
	Global []word // flags of all commands, at the program itself
}

// word is one thing that may be written.
type word struct {
	Name, Help string
	Values     []string // of a flag that takes one of these
	Switch     bool     // a flag that takes no value
}

//go:embed completion/*
var completionScripts embed.FS

var completions = template.Must(template.New("").Funcs(template.FuncMap{
	"quote": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"fish": func(s string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
	},
	"colon": func(s string) string { return strings.ReplaceAll(s, ":", `\:`) },
	"join":  func(list []string) string { return strings.Join(list, " ") },
	"long":  func(flag string) string { return strings.TrimPrefix(flag, "--") },
}).ParseFS(completionScripts, "completion/*"))

func writeCompletion(w io.Writer, shell string, root *kong.Node) error {
	var places []place
	visitCommands(root, root.Name, func(node *kong.Node, path string) {
		at := place{Path: path}
		for _, child := range node.Children {
			if !child.Hidden {
				at.Words = append(at.Words, word{Name: child.Name, Help: child.Help})
			}
		}
		for _, arg := range node.Positional {
			for _, value := range valuesOf(arg) {
				at.Words = append(at.Words, word{Name: value, Help: arg.Help})
			}
		}
		flags := &at.Flags
		if node == root {
			flags = &at.Global
		}
		for _, flag := range node.Flags {
			if !flag.Hidden {
				*flags = append(*flags, word{"--" + flag.Name, flag.Help, valuesOf(flag.Value), flag.IsBool()})
			}
		}
		places = append(places, at)
	})
	if err := completions.ExecuteTemplate(w, shell, places); err != nil {
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

// valuesOf lists what a flag or argument may be, if that is a list: of its enum tag, or of
// its values tag where something other than kong checks it.
func valuesOf(v *kong.Value) []string {
	list := v.Enum
	if list == "" {
		list = v.Tag.Get("values")
	}
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}
