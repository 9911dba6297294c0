package when

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
)

// Ref is an entry of `only: refs` or `except: refs`: a keyword, the name of a branch or tag, or a pattern of names; with the
// path of a project behind an @, for that project only.
type Ref struct {
	// Name is a keyword or a name; empty for a pattern.
	Name string
	// Project is the path behind the @, if any.
	Project string

	hasProject bool
	pattern    *rule.Pattern
	text       string
}

// ParseRef parses an entry. The error says that it has the form of a pattern, and is not a valid one.
func ParseRef(text string) (Ref, error) {
	name, project, hasProject := strings.Cut(text, "@")
	r := Ref{Name: name, Project: project, hasProject: hasProject, text: text}
	pattern, ok, err := rule.ParsePattern(name)
	if err != nil {
		return Ref{}, fmt.Errorf("the pattern %s is not valid: %w", name, err)
	}
	if ok {
		r.Name, r.pattern = "", pattern
	}
	return r, nil
}

// String returns the entry as it is written.
func (r Ref) String() string { return r.text }

// Note says what is probably not meant with the entry, "" when nothing is wrong with it.
func (r Ref) Note() string {
	if r.hasProject && strings.HasPrefix(r.Name, "/") && strings.Contains(r.Project, "/") {
		if _, ok, err := rule.ParsePattern(r.text); ok && err == nil {
			return `what follows @ is the path of a project, so ` + r.text + ` matches nothing: write \x40 for an @ in a pattern`
		}
	}
	return ""
}

// Matches reports whether the entry is about the pipeline. It fails when matching would take long.
func (r Ref) Matches(p Pipeline) (bool, error) {
	if r.hasProject && r.Project != p.Project {
		return false, nil
	}
	isRef := p.Kind == Branch || p.Kind == Tag // a name or pattern says nothing of pipelines for merge requests
	if r.pattern != nil {
		if !isRef || strings.TrimSpace(p.Ref) == "" {
			return false, nil
		}
		return r.pattern.Match(p.Ref)
	}
	source := strings.TrimSuffix(p.Source, "_event")
	switch r.Name {
	case "branches":
		if p.Kind == Branch {
			return true, nil
		}
	case "tags":
		if p.Kind == Tag {
			return true, nil
		}
	case source, plural(source):
		if source != "" {
			return true, nil
		}
	}
	return isRef && r.Name == p.Ref, nil
}

// plural returns the plural of a pipeline's source: the keywords of `only` are written so, though the singular will do.
func plural(source string) string {
	switch {
	case strings.HasSuffix(source, "sh"):
		return source + "es"
	case strings.HasSuffix(source, "y"):
		return strings.TrimSuffix(source, "y") + "ies"
	default:
		return source + "s"
	}
}
