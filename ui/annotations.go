package ui

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/event"
)

const (
	// maxAnnotations is how many annotations of one step are shown as they come; the others are in its trace.
	maxAnnotations = 50
	// maxErrors is how many errors of a run are kept to be shown again at its end.
	maxErrors = 20
)

// levelStyles are the looks of annotations. The word is always there as well.
var levelStyles = map[event.AnnotationLevel]style{
	event.AnnotationError: styleError, event.AnnotationWarning: styleWarn, event.AnnotationNotice: styleInfo,
}

// noted counts annotations.
type noted struct{ errors, warnings int }

func (n *noted) add(other noted) {
	n.errors, n.warnings = n.errors+other.errors, n.warnings+other.warnings
}

// text is what a last line says of them: ", 1 error, 2 warnings".
func (n noted) text() string {
	text := ""
	if n.errors > 0 {
		text += ", " + plural(n.errors, "error")
	}
	if n.warnings > 0 {
		text += ", " + plural(n.warnings, "warning")
	}
	return text
}

// stepNote is an annotation that is an error, and the step that made it.
type stepNote struct {
	path string
	event.Annotation
}

// annotated shows an annotation where it happens, unless the output shows it: toolkits log what they take for one, before or after.
func (r *reporter) annotated(path string, a event.Annotation) {
	switch a.Level {
	case event.AnnotationError:
		r.run.noted.errors++
		if len(r.run.errors) < maxErrors {
			r.run.errors = append(r.run.errors, stepNote{path, a})
		}
	case event.AnnotationWarning:
		r.run.noted.warnings++
	}
	s := r.find(path)
	if s.annotations++; r.quiet || s.annotations > maxAnnotations+1 {
		return
	}
	if s.annotations > maxAnnotations {
		r.settle(s)
		r.say(r.wording().detailLine(s, "more annotations of "+s.label+" are in the trace"))
		return
	}
	if !inOutput(s, a) || r.o.Show != ShowAll {
		s.waiting = append(s.waiting, a)
	}
	if r.o.Show != ShowAll {
		r.settle(s)
	}
}

// settle shows the annotations of a step that its output does not show.
func (r *reporter) settle(s *step) {
	if len(s.waiting) == 0 {
		return
	}
	waiting := s.waiting
	s.waiting = nil
	for _, a := range waiting {
		if r.o.Show == ShowAll && inOutput(s, a) {
			continue
		}
		before := indent(s.depth + 1)
		if s.inParallel || r.run.leaves > 1 {
			before = s.label + r.look.separator
		}
		r.say(before + r.look.annotation(a) + "\n")
		if r.o.Show == ShowAll {
			r.owner, r.since = s.path, 0
		}
	}
}

// settleAll does so for all steps, when nothing more has come for a while.
func (r *reporter) settleAll() {
	for _, s := range r.run.running {
		r.settle(s)
	}
	r.settle(&r.stray)
}

// inOutput reports whether a line of the latest output of the step says what the annotation does.
func inOutput(s *step, a event.Annotation) bool {
	message, _, _ := strings.Cut(strings.TrimSpace(a.Message), "\n")
	for rest := s.tail.buf; message != ""; {
		at := bytes.Index(rest, []byte(message))
		if at < 0 {
			return false
		}
		line := rest[bytes.LastIndexByte(rest[:at], '\n')+1:]
		if end := bytes.IndexByte(line, '\n'); end >= 0 {
			line = line[:end]
		}
		if bytes.Contains(line, []byte(a.File)) {
			return true
		}
		rest = rest[at+len(message):]
	}
	return false
}

// annotation shows one in a line: "error  app.js:3:5  the text".
func (l look) annotation(a event.Annotation) string {
	level := a.Level
	if levelStyles[level] == "" {
		level = event.AnnotationNotice
	}
	text := l.paint(levelStyles[level], string(level)) + "  "
	if a.File != "" {
		text += cleanLabel(a.File)
		if a.Line > 0 {
			text += fmt.Sprintf(":%d", a.Line)
		}
		if a.Line > 0 && a.Column > 0 {
			text += fmt.Sprintf(":%d", a.Column)
		}
		text += "  "
	}
	message := a.Message
	if a.Title != "" {
		message = a.Title + ": " + message
	}
	if a.Code != "" {
		message += " (" + a.Code + ")"
	}
	return text + brief(message)
}

// errorsOf returns the errors that the step at a path, and those in it, have annotated.
func (r *run) errorsOf(path string) []event.Annotation {
	var list []event.Annotation
	for _, e := range r.errors {
		if e.path == path || isUnder(e.path, path) {
			list = append(list, e.Annotation)
		}
	}
	return list
}

// forgetErrors drops those of a step that runs again.
func (r *run) forgetErrors(path string) {
	r.errors = slices.DeleteFunc(r.errors, func(e stepNote) bool { return e.path == path || isUnder(e.path, path) })
}

// annotationLines shows annotations, each in a line of its own.
func (l look) annotationLines(before string, list []event.Annotation) string {
	var b strings.Builder
	for _, a := range list {
		b.WriteString(before + l.annotation(a) + "\n")
	}
	return b.String()
}
