package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A form says what a document must look like: an object with exactly these fields, a list of
// one element's form, or a kind of value, nullable with a ? before it. A field "*" stands for
// any name.
const (
	balanceForm = `{"available":"int","held":"int"}`
	entryForm   = `{"id":"id","account":"text","seq":"?int","kind":"text","delta":"int","balance_after":"?int","job_id":"text",
		"about_job":"?id","reason":"text","actor":"text","evidence":"?any","created_at":"time"}`
	grantForm = `{"id":"id","key":"?text","account":"text","amount":"int","remaining":"int","source":"text","priority":"int",
		"effective_at":"time","expires_at":"?time","price_paid":"?int","reason":"text","actor":"text","balance":` + balanceForm + `,"created_at":"time"}`
	accountForm = `{"account":"text","tenant":"text","status":"text","balance":` + balanceForm + `,"overdraft_limit":"int",
		"grants":[` + grantForm + `],"limits":["any"],"open_jobs":"int","created_at":"time"}`
	adjustmentForm = `{"id":"id","key":"?text","account":"text","amount":"int","about_job":"?id","reason":"text","actor":"text",
		"balance":` + balanceForm + `,"created_at":"time"}`
	jobErrorForm = `{"code":"text","message":"text"}`
	jobFields    = `"id":"id","key":"?text","tenant":"text","account":"text","type":"text","state":"text","end_reason":"?text",
		"cost":{"quoted":"int","held":"int","charged":"int","refunded":"int","shortfall":"int","credited":"int"},
		"units":{"asked":"int","delivered":"int"},"attempts":"int","max_attempts":"int","progress":{"percent":"int","text":"string"},
		"provider":"?text","model":"?text","vendor_ref":"?text","vendor_cost":"?int","price_version":"?text","retry_of":"?id","flags":["text"],
		"result":?{"artifacts":[{"n":"int","url":"text","content_type":"text","bytes":"int","sha256":"text"}],"text":"?text","usage":{"*":"int"}},
		"error":?` + jobErrorForm + `,"evidence":"?any","metadata":{"*":"any"},"balance":` + balanceForm + `,
		"created_at":"time","started_at":"?time","ended_at":"?time"`
	jobForm   = `{` + jobFields + `}`
	storyForm = `{` + jobFields + `,"entries":[` + entryForm + `],"attempt_log":[{"n":"int","epoch":"int","worker":"text",
		"started_at":"time","ended_at":"?time","outcome":"?text","vendor_ref":"?text","counted":"bool","wait_until":"?time","error":?` + jobErrorForm + `}],
		"vendor_calls":["any"],"lots":[{"grant_id":"id","amount":"int"}]}`
	statementForm = `{"account":"text","from":"time","to":"time","opening":"int","closing":"int","by_kind":{"*":"int"},
		"entries":[` + entryForm + `],"next_cursor":"?text"}`
	reconcileForm = `{"sweep_id":"id","dry_run":"bool","seen":"int","refunded":"int","left":"int","errors":"int","decisions":[{"job_id":"id",
		"state":"text","action":"text","reason":"text","evidence":?{"last_sign_of_life":"time","sign":"text","threshold":"text",
		"attempt":"int","epoch":"int","queue":"text","vendor":"text","*":"any"}}]}`
	verifyForm = `{"ok":"bool","counts":{"accounts":"int","entries":"int","jobs":"int"},"seconds":"number",
		"invariants":[{"id":"text","ok":"bool","broken":"int"}],"broken":[{"invariant":"text","table":"text","id":"text","account":"?text",
		"job_id":"?id","detail":"text","expected":"?any","found":"?any"}],"conservation":{"granted":"int","adjusted":"int","available":"int",
		"held":"int","spent":"int","expired":"int","revoked":"int","difference":"int"}}`
	problemForm = `{"type":"text","title":"text","status":"int","code":"text","detail":"text","required":"?int","available":"?int",
		"limit":"?text","request_id":"?text","errors":["text"]}`
	migrateForm = `{"applied":"int"}`
	stepsForm   = `{"data":[{"version":"int","name":"text","applied":"bool","applied_at":"?time"}],"next_cursor":"?text"}`
	configForm  = `{"data":[{"name":"text","value":"?text","source":"text"}],"next_cursor":"?text"}`
)

func listForm(of string) string { return `{"data":[` + of + `],"next_cursor":"?text"}` }

// kinds of value, as they must stand in the document.
var kinds = map[string]*regexp.Regexp{
	"int":    regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`),
	"number": regexp.MustCompile(`^-?[0-9.e+-]+$`),
	"bool":   regexp.MustCompile(`^(true|false)$`),
	"string": regexp.MustCompile(`^".*"$`),
	"text":   regexp.MustCompile(`^".+"$`), // what is not set is null, not ""
	"id":     regexp.MustCompile(`^"[0-9A-HJKMNP-TV-Z]{26}"$`),
	"time":   regexp.MustCompile(`^"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"$`),
	"any":    regexp.MustCompile(`^[^n]`), // anything but null
}

// document is one that was decoded.
type document map[string]any

// at is the value behind names and indices; nil where there is none.
func (d document) at(path ...any) (v any) {
	v = map[string]any(d)
	for _, step := range path {
		switch step := step.(type) {
		case string:
			object, _ := v.(map[string]any)
			v = object[step]
		case int:
			list, _ := v.([]any)
			if v = nil; step < len(list) {
				v = list[step]
			}
		}
	}
	return v
}

// text is a string, as at finds it.
func (d document) text(path ...any) string {
	s, _ := d.at(path...).(string)
	return s
}

// list is the objects of a list, as at finds it.
func (d document) list(path ...any) (objects []document) {
	list, _ := d.at(path...).([]any)
	for _, element := range list {
		object, _ := element.(map[string]any)
		objects = append(objects, object)
	}
	return objects
}

// decode requires one document of a form, and returns it.
func decode(t *testing.T, form, text string) document {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	var raw json.RawMessage
	require.NoError(t, dec.Decode(&raw), "not one JSON document: %q", text)
	require.ErrorIs(t, dec.Decode(new(any)), io.EOF, "more than one document: %q", text)
	require.NoError(t, check(readForm(form), raw), text)
	var decoded document
	require.NoError(t, json.Unmarshal(raw, &decoded))
	return decoded
}

// readForm takes a ? before an object into it, as the field "?".
func readForm(form string) (f any) {
	form = strings.ReplaceAll(form, "?{", `{"?":"?",`)
	if err := json.Unmarshal([]byte(form), &f); err != nil {
		panic(fmt.Sprint(form, err))
	}
	return f
}

func check(form any, raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	switch form := form.(type) {
	case string:
		kind, nullable := strings.CutPrefix(form, "?")
		if (nullable && string(raw) == "null") || kinds[kind].Match(raw) {
			return nil
		}
		return fmt.Errorf("%s is not of kind %s", raw, form)
	case []any:
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil || list == nil {
			return fmt.Errorf("%s is not a list", raw)
		}
		for i, element := range list {
			if err := check(form[0], element); err != nil {
				return fmt.Errorf("[%d]: %w", i, err)
			}
		}
		return nil
	}
	object, _ := form.(map[string]any)
	return checkObject(object, raw)
}

func checkObject(form map[string]any, raw json.RawMessage) error {
	if form["?"] != nil && string(raw) == "null" {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return fmt.Errorf("%s is not an object", raw)
	}
	for name := range form {
		if _, ok := fields[name]; !ok && name != "*" && name != "?" {
			return fmt.Errorf("%q is missing", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		of, ok := form[name]
		if !ok {
			of, ok = form["*"]
		}
		if !ok {
			return fmt.Errorf("%q is unknown", name)
		}
		if err := check(of, fields[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func TestFormsAreStrict(t *testing.T) {
	t.Parallel()
	form := `{"a":"int","b":["?time"],"c":?{"d":"text","*":"bool"}}`
	for document, complaint := range map[string]string{
		`{"a":1,"b":[],"c":null}`: "",
		`{"a":1,"b":["2026-01-02T03:04:05.678Z",null],"c":{"d":"x","e":true}}`: "",
		`{"a":1,"b":[]}`:                                         `"c" is missing`,
		`{"a":1.5,"b":[],"c":null}`:                              "a: 1.5 is not of kind int",
		`{"a":1,"b":null,"c":null}`:                              "b: null is not a list",
		`{"a":1,"b":["2026-01-02T03:04:05Z"],"c":null}`:          "is not of kind ?time",
		`{"a":1,"b":["2026-01-02T03:04:05.678+01:00"],"c":null}`: "is not of kind ?time",
		`{"a":1,"b":[],"c":null,"z":1}`:                          `"z" is unknown`,
		`{"a":1,"b":[],"c":{"d":""}}`:                            `c: d: "" is not of kind text`,
	} {
		err := check(readForm(form), json.RawMessage(document))
		if complaint == "" {
			require.NoError(t, err, document)
		} else {
			require.ErrorContains(t, errors.Join(err), complaint, document)
		}
	}
}
