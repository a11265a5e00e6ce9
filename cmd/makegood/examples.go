package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// examples of every command, shown by its --help.
var examples = map[string][]string{
	"makegood": {
		"makegood up",
		"makegood account grant ada 100 --reason welcome",
		"makegood job submit --account ada --type image --prompt 'a quiet harbour' --wait",
		"makegood account statement ada",
	},
	"makegood up": {
		"makegood up",
		"makegood up --database-url sqlite:shop.db --listen-addr 127.0.0.1:9000",
	},
	"makegood demo": {
		"makegood demo",
		"makegood demo --prompts examples/prompts.jsonl --out pictures",
	},
	"makegood migrate": {
		"makegood migrate up",
		"makegood migrate status",
	},
	"makegood migrate up": {
		"makegood migrate up",
		"makegood migrate up --database-url postgres://owner@db/makegood --app-role makegood_app",
	},
	"makegood migrate status": {"makegood migrate status --json"},
	"makegood account": {
		"makegood account grant ada 100 --reason welcome",
		"makegood account statement ada --month 2026-03",
	},
	"makegood account create": {
		"makegood account create ada",
		"makegood account create team:blue --overdraft 50",
	},
	"makegood account show": {
		"makegood account show ada",
		"makegood account show ada --at 2026-03-01T12:00:00Z",
	},
	"makegood account list": {"makegood account list --limit 200 --json"},
	"makegood account grant": {
		"makegood account grant ada 100 --reason welcome",
		"makegood account grant ada 500 --reason 'invoice 2026-17' --key invoice-2026-17 --actor billing",
	},
	"makegood account adjust": {
		"makegood account adjust ada -5 --reason 'granted twice by mistake' --actor grace",
		"makegood account adjust ada 8 --reason 'wrong size' --actor grace --job 01JD8Z7V3Q6X4T2M9K5R1W0YHB",
	},
	"makegood account statement": {
		"makegood account statement ada",
		"makegood account statement ada --month 2026-03 --format html",
		"makegood account statement ada --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --format csv",
		"makegood account statement ada --job 01JD8Z7V3Q6X4T2M9K5R1W0YHB",
	},
	"makegood job": {
		"makegood job submit --account ada --type image --prompt 'a quiet harbour'",
		"makegood job show 01JD8Z7V3Q6X4T2M9K5R1W0YHB",
	},
	"makegood job submit": {
		"makegood job submit --account ada --type image --prompt 'a quiet harbour' --wait",
		`makegood job submit --account ada --type image --input '{"prompt":"dunes","n":4}' --key order-17`,
		"makegood job submit --account ada --type image --input @order.json --metadata order=17 --max-wait 1h",
	},
	"makegood job show":   {"makegood job show 01JD8Z7V3Q6X4T2M9K5R1W0YHB"},
	"makegood job watch":  {"makegood job watch 01JD8Z7V3Q6X4T2M9K5R1W0YHB --json"},
	"makegood job cancel": {"makegood job cancel 01JD8Z7V3Q6X4T2M9K5R1W0YHB"},
	"makegood job list": {
		"makegood job list --account ada --state failed",
		"makegood job list --flagged --since 2026-03-01T00:00:00Z",
	},
	"makegood job credit": {"makegood job credit 01JD8Z7V3Q6X4T2M9K5R1W0YHB 5 --reason 'six fingers' --actor grace"},
	"makegood reconcile": {
		"makegood reconcile --dry-run",
		"makegood reconcile --json",
	},
	"makegood verify": {
		"makegood verify",
		"makegood verify --account ada --json",
	},
	"makegood config": {"makegood config"},
	"makegood completion": {
		"makegood completion bash",
		"makegood completion zsh",
	},
}

// tunable are the commands whose work the settings of a job's life change. The others take
// these flags too, and do not fill the screen with them.
var tunable = map[string]bool{"makegood up": true, "makegood job submit": true, "makegood reconcile": true}

func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if selected := ctx.Selected(); selected == nil || !tunable[selected.FullPath()] {
		for _, flag := range ctx.Model.Flags {
			flag.Hidden = flag.Hidden || flag.Group != nil && flag.Group.Key == "Life of a job"
		}
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// showExamples puts the examples into the help of their commands.
func showExamples(root *kong.Node) {
	visitCommands(root, root.Name, func(node *kong.Node, path string) {
		if lines := examples[path]; len(lines) > 0 {
			node.Detail = "Examples:\n\n    " + strings.Join(lines, "\n    ")
		}
	})
}
