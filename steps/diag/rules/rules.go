// Package rules is the catalog of checks: their names, their severities, and how an author marks a finding as intended.
package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
)

// Level is how bad a finding is.
type Level int

// The levels. A note is about what could not be checked.
const (
	Error Level = iota
	Warning
	Note
)

// Language is what a rule is about.
type Language string

// The languages.
const (
	Steps    Language = "steps"
	GitLab   Language = "gitlab"
	Workflow Language = "workflow"
	Any      Language = "any"
)

// Rule is one check.
type Rule struct {
	ID       string
	Level    Level
	Language Language
	Short    string // what is wrong, in a sentence
	// Fixed findings cannot be ignored: without a change nothing would run.
	Fixed bool
}

// UnknownRule is the rule about comments that ignore a rule which does not exist.
const UnknownRule = "unknown-rule"

// All are the rules, in the order of the documents.
func All() []Rule { return slices.Clone(all) }

// Find returns a rule by its ID.
func Find(id string) (Rule, bool) {
	i := slices.IndexFunc(all, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return all[i], true
}

// Set gives a rule to those findings of a list that have none.
func Set(list diag.List, id string) diag.List {
	for i := range list {
		if list[i].Code == "" && !list[i].Note {
			list[i].Code = id
		}
	}
	return list
}

// Split sorts findings by the levels of their rules. What has no rule is an error.
func Split(list diag.List) (errors, warnings, notes diag.List) {
	for _, d := range list {
		switch r, _ := Find(d.Code); r.Level {
		case Warning:
			warnings = append(warnings, d)
		case Note:
			notes = append(notes, d)
		default:
			errors = append(errors, d)
		}
	}
	return errors, warnings, notes
}

// maxComments bounds the comments of a text that are heard.
const maxComments = 10_000

// marker begins what such a comment says.
const marker = "rung: ignore"

// Comments are the rules that a text ignores, by the line that the comment is about.
type Comments struct {
	lines map[int][]string
	// Unknown are the findings about comments that name no rule.
	Unknown diag.List
}

// Read reads the comments of a text in YAML: `# rung: ignore RULE`, with several rules separated by commas. One on a line of its own is about
// the next line as well. file is what findings call the text.
func Read(file string, text []byte) *Comments {
	c := &Comments{lines: map[int][]string{}}
	if !strings.Contains(string(text), marker) {
		return c
	}
	for i, line := range strings.Split(string(text), "\n") {
		before, after, found := strings.Cut(line, marker)
		if !found || len(c.lines) >= maxComments {
			continue
		}
		hash := strings.TrimRight(before, " \t")
		if !strings.HasSuffix(hash, "#") || len(hash) > 1 && !strings.ContainsAny(hash[len(hash)-2:len(hash)-1], " \t") {
			continue
		}
		about := []int{i + 1}
		if strings.TrimSpace(hash) == "#" {
			about = append(about, i+2)
		}
		names, _, _ := strings.Cut(after, "#")
		c.take(diag.Span{File: file, Line: i + 1, Column: len([]rune(before)) + 1, Length: len(marker)}, strings.TrimSuffix(line, "\r"), names, about)
	}
	return c
}

// take reads the names of rules.
func (c *Comments) take(place diag.Span, source, names string, about []int) {
	fields := strings.FieldsFunc(names, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' })
	if len(fields) == 0 {
		c.Unknown = append(c.Unknown, diag.Diagnostic{Span: place, Source: source, Code: UnknownRule, Message: "the comment names no rule", Hint: "write the ID of the rule after it"})
	}
	for _, id := range fields {
		switch r, ok := Find(id); {
		case !ok:
			hint := "docs/rules.md lists the rules"
			if like := diag.Suggest(id, ids()); like != "" {
				hint = fmt.Sprintf("did you mean %q?", like)
			}
			c.Unknown = append(c.Unknown, diag.Diagnostic{Span: place, Source: source, Code: UnknownRule, Message: fmt.Sprintf("there is no rule %q", id), Hint: hint})
		case r.Fixed:
			c.Unknown = append(c.Unknown, diag.Diagnostic{Span: place, Source: source, Code: UnknownRule, Message: fmt.Sprintf("%s cannot be ignored", id), Hint: "fix what it finds: nothing would run otherwise"})
		}
		for _, line := range about {
			c.lines[line] = append(c.lines[line], id)
		}
	}
}

// Ignores reports whether a finding is meant.
func (c *Comments) Ignores(d diag.Diagnostic) bool {
	if !slices.Contains(c.lines[d.Line], d.Code) {
		return false
	}
	r, ok := Find(d.Code)
	return ok && !r.Fixed
}

// Apply returns the findings that no comment ignores, and those about the comments. text returns the text of a file; nil where it is unknown.
func Apply(list diag.List, files []string, text func(file string) []byte) diag.List {
	known := map[string]*Comments{}
	read := func(file string) *Comments {
		if known[file] == nil {
			known[file] = Read(file, text(file))
		}
		return known[file]
	}
	var out diag.List
	dropped := false
	for _, d := range list {
		if dropped = d.Note && dropped || !d.Note && read(d.File).Ignores(d); !dropped {
			out = append(out, d)
		}
	}
	for _, file := range files {
		out = append(out, read(file).Unknown...)
	}
	return out
}

func ids() []string {
	out := make([]string, len(all))
	for i, r := range all {
		out[i] = r.ID
	}
	return out
}
