// Package examples holds what the demo makes when nobody brings prompts of their own.
package examples

import _ "embed"

// Prompts is a prompts file, one job a line.
//
//go:embed prompts.jsonl
var Prompts []byte
