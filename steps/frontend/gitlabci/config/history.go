package config

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// Mechanism is how a value comes from where it is written to where it is used.
type Mechanism uint8

// The mechanisms.
const (
	// ByExtends: a job takes over what another one has.
	ByExtends Mechanism = iota
	// ByReference: a !reference repeats a value.
	ByReference
	// ByDefault: a job has not got a keyword, and `default:` has.
	ByDefault
	// ByGlobal: the same with a keyword at the top level, the deprecated form of `default:`.
	ByGlobal
	// ByInput: $[[ ]] stands for a value.
	ByInput
)

// Step is one step of the way of a value.
type Step struct {
	By Mechanism
	// Name is what the step names: the job that is extended, the path of the reference, the keyword, the input.
	Name string
	// At is where the step is written.
	At diag.Span
	// Source is the file in which it is written.
	Source *Source
}

// hop is a step in a list that leads outwards, from where a value is written to where it is used.
type hop struct {
	step Step
	next *hop
}

// then returns the hops of the list and after them those of another one.
func (h *hop) then(outer *hop) *hop {
	if h == nil {
		return outer
	}
	if outer == nil {
		return h
	}
	return &hop{h.step, h.next.then(outer)}
}

// Via are the steps by which the value came from its place to where it is, the first one first.
func (n Node) Via() []Step {
	var steps []Step
	for h := n.via; h != nil; h = h.next {
		steps = append(steps, h.step)
	}
	return steps
}

// Source is the file in which the value is written, nil for one that is written nowhere.
func (n Node) Source() *Source {
	if n.tree == nil {
		return nil
	}
	return n.tree.source
}

// History tells where the value is from: "templates/go.yml:12, by `extends: .base` at .gitlab-ci.yml:30, included at
// .gitlab-ci.yml:3".
func (n Node) History() string {
	span := n.Span()
	if span.IsZero() {
		return n.way()
	}
	place := line(span)
	if way := n.way(); way != "" {
		place += ", " + way
	}
	return place
}

// way is the history without the place.
func (n Node) way() string {
	var parts []string
	for h := n.via; h != nil; h = h.next {
		parts = append(parts, h.step.String())
	}
	return strings.Join(elide(append(parts, n.Source().chain()...)), ", ")
}

// String returns the step as a history tells it.
func (s Step) String() string {
	at := line(s.At)
	switch s.By {
	case ByExtends:
		return fmt.Sprintf("by `extends: %s` at %s", s.Name, at)
	case ByReference:
		return fmt.Sprintf("by `!reference %s` at %s", s.Name, at)
	case ByDefault:
		return "by `default:` at " + at
	case ByGlobal:
		return fmt.Sprintf("by the global `%s:` at %s", s.Name, at)
	default:
		return fmt.Sprintf("by `$[[ %s ]]` at %s", s.Name, at)
	}
}

// Source is a file of the configuration, as often as it is included.
type Source struct {
	// Name is what diagnostics call the file.
	Name string
	// Place is where the file is from.
	Place Place
	// Parent is the file that includes this one, nil for the first file and for files with inputs of it.
	Parent *Source
	// At is where Parent includes it.
	At diag.Span

	file      *yamlsource.File // nil when the text is not YAML
	asked     Place            // what the include names, where Place says where it was found
	component *Component
	inputs    map[string]item // what Parent gives; tells a cycle from a file that is included again in another way
}

// Text is the content of the file, nil when it is not YAML. It must not be changed.
func (s *Source) Text() []byte {
	if s.file == nil {
		return nil
	}
	return s.file.Text()
}

// chain tells by which files the file is included, the nearest one first.
func (s *Source) chain() []string {
	var parts []string
	for ; s != nil && s.Parent != nil; s = s.Parent {
		parts = append(parts, "included at "+line(s.At))
	}
	return parts
}

func (s *Source) diagnostic(place diag.Span, hint, message string) diag.Diagnostic {
	if s.file == nil || place.File != s.file.Name {
		return diag.Diagnostic{Span: place, Message: message, Hint: hint}
	}
	d := s.file.Diagnostic(place, hint, message)
	d.Source = hideSecrets(d.Source)
	return d
}

// included adds the chain to a message.
func (s *Source) included(message string) string {
	if chain := s.chain(); len(chain) > 0 {
		return message + " (" + strings.Join(elide(chain), ", ") + ")"
	}
	return message
}

// line is a place without its column.
func line(s diag.Span) string {
	if s.Line == 0 {
		return s.File
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// elide keeps the beginning and the end of a long way.
func elide(parts []string) []string {
	const first, last = 4, 2
	if len(parts) <= first+last+1 {
		return parts
	}
	middle := fmt.Sprintf("… %d more …", len(parts)-first-last)
	return append(append(parts[:first:first], middle), parts[len(parts)-last:]...)
}
