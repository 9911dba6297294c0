package config

import (
	"fmt"

	"github.com/rungci/rung/steps/diag"
)

type problem struct {
	place   diag.Span
	message string
}

// problems are what is wrong with a configuration, and what tells whether something is.
type problems struct {
	found    diag.List
	warnings diag.List
	seen     map[problem]bool
	sources  []*Source
	partial  bool // a file is missing, and what it would have defined with it
	skipped  bool // the rules of an include left it out
}

// report collects what is wrong with a node. A mistake that many jobs inherit is reported once, with the first one's history.
func (r *problems) report(n Node, hint, format string, args ...any) {
	r.reportAt(n, n.Span(), hint, format, args...)
}

func (r *problems) reportAt(n Node, place diag.Span, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if r.first(place, message) {
		r.found = append(r.found, n.DiagnosticAt(place, hint, message))
	}
}

// first reports whether the message is new for the place, and worth keeping.
func (r *problems) first(place diag.Span, message string) bool {
	key := problem{place, message}
	if r.seen[key] {
		return false
	}
	if r.seen == nil {
		r.seen = map[problem]bool{}
	}
	r.seen[key] = true
	return true
}

// add collects what the YAML reader found, with the chain of includes.
func (r *problems) add(s *Source, list diag.List) {
	for _, d := range list {
		d.Message, d.Source = s.included(d.Message), hideSecrets(d.Source)
		r.found = append(r.found, d)
	}
}

// warn collects what is accepted but probably a mistake.
func (r *problems) warn(n Node, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	if len(r.warnings) < MaxProblems && r.first(n.Span(), message) {
		r.warnings = append(r.warnings, n.Diagnostic(hint, message))
	}
}

// full reports whether there are more problems than are reported: suggestions for further ones are not worth their making.
func (r *problems) full() bool { return len(r.found) > MaxProblems }

// err is the list of problems: those of the first file first, then those of the others as they were read.
func (r *problems) err() error {
	if len(r.found) == 0 {
		return nil
	}
	var list diag.List
	byFile := map[string]diag.List{}
	var order []string
	for _, s := range r.sources {
		if _, known := byFile[s.Name]; !known {
			byFile[s.Name] = nil
			order = append(order, s.Name)
		}
	}
	for _, d := range r.found {
		if _, known := byFile[d.File]; !known {
			order = append(order, d.File)
		}
		byFile[d.File] = append(byFile[d.File], d)
	}
	for _, name := range order {
		of := byFile[name]
		of.Sort()
		list = append(list, of...)
	}
	if more := len(list) - MaxProblems; more > 0 {
		list = append(list[:MaxProblems:MaxProblems], diag.Diagnostic{Message: fmt.Sprintf("%d more problems are not shown", more)})
	}
	return list
}

// suggest is a hint with the candidate that is meant, or else the one given.
func (r *problems) suggest(name string, candidates []string, otherwise string) string {
	if r.full() {
		return otherwise
	}
	if like := diag.Suggest(name, candidates); like != "" {
		return fmt.Sprintf("did you mean %q?", like)
	}
	return otherwise
}

// shorten keeps a text of the configuration short enough for a message.
func shorten(text string) string {
	const limit = 80
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
