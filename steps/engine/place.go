package engine

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/shellscript"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// This file finds the place in the author's files that a failing process is about.

// call is the step that called the component that a scope is in.
type call struct {
	step   *plan.Step
	from   *scope // that the step is in
	spec   *plan.Spec
	origin *plan.Origin        // of the component; nil when it is local
	passed map[string]variable // with the step's env
	reads  []string            // the variables that the expressions of the component name
	home   string              // of the component's own; "" where it has that around the step
	// withheld are the variables around the step that did not pass into the component, and whether they are sensitive.
	withheld map[string]bool
	// texts are the inputs whose texts the component may run, with the places of their lines.
	texts []sourceText
}

type sourceText struct {
	items []value.Value
	lines [][]diag.SourceLine
}

// remember keeps where the texts of an input were written.
func (c *call) remember(f plan.Field, v value.Value) {
	switch {
	case f.Lines == nil:
	case v.Kind() == value.Array:
		c.texts = append(c.texts, sourceText{v.Items(), f.Lines})
	default:
		c.texts = append(c.texts, sourceText{[]value.Value{v}, f.Lines})
	}
}

// isWhole reports whether a text is nothing but one expression, so that its value is the code.
func isWhole(text string) bool {
	if !expr.Has(text) {
		return false
	}
	tmpl, err := expr.ParseTemplate(text)
	if err != nil {
		return false
	}
	_, whole := tmpl.Whole()
	return whole
}

// scriptTrack follows a script through its lines.
type scriptTrack struct {
	places map[int]diag.SourceLine // by the line of the text that runs
	first  diag.SourceLine
	file   string // holds the line that the script has reached; "" when the script does not say
	passed bool   // the places are those of a text that the caller passed to the component
	// broken is where the shell stops reading, and before the line that it has reached then; both are zero for a text that it can read.
	broken diag.SourceLine
	before int
}

// marked returns the text of a script as it is to run: where it has several lines whose places are known, it records the one it has reached.
func (x *execution) marked(script *plan.Script, text string, dialect shellscript.Dialect) string {
	t := &scriptTrack{places: map[int]diag.SourceLine{}}
	switch source := script.Text.Value.Str(); {
	case x.call != nil && len(x.call.texts) > 0 && isWhole(source):
		t.passed = true
		for _, known := range x.call.texts {
			t.find(text, known)
		}
	case script.Text.Lines != nil:
		// Values of expressions may take lines of their own before the first one.
		added := strings.Count(text, "\n") - strings.Count(source, "\n")
		t.add(script.Text.Lines[0], 1+max(0, added))
	}
	if len(t.places) == 0 {
		return text
	}
	x.files.track = t
	if len(t.places) == 1 {
		return text
	}
	file := x.files.name("line")
	wanted := func(line int) bool { return t.places[line].Line > 0 }
	line, before := shellscript.Broken(text, dialect, wanted)
	t.broken, t.before = t.upTo(line), before
	if marked := shellscript.Mark(text, dialect, file, wanted); marked != text {
		t.file = file
		x.files.scripts = append(x.files.scripts, file)
		return marked
	}
	return text
}

// add takes in the places of lines that run from the given line of the text on.
func (t *scriptTrack) add(lines []diag.SourceLine, from int) {
	for i, line := range lines {
		if line.Line == 0 {
			continue
		}
		if t.first.Line == 0 {
			t.first = line
		}
		t.places[from+i] = line
	}
}

// find looks for the items of a list in the text that was made of them, which has each on lines of its own.
func (t *scriptTrack) find(text string, known sourceText) {
	line, rest := 1, text
	for i, item := range known.items {
		body := strings.TrimLeft(item.Text(), " \t\r\n")
		blank := strings.Count(item.Text()[:len(item.Text())-len(body)], "\n")
		body = strings.TrimSpace(body)
		if body == "" || i >= len(known.lines) || blank > len(known.lines[i]) {
			continue
		}
		at := strings.Index("\n"+rest, "\n"+body+"\n")
		if at < 0 {
			return
		}
		line += strings.Count(rest[:at], "\n")
		t.add(known.lines[i][blank:], line)
		line += strings.Count(body, "\n") + 1
		rest = rest[at+len(body)+1:]
	}
}

// upTo is the place of a line, or of the nearest before it that has one.
func (t *scriptTrack) upTo(line int) diag.SourceLine {
	for ; line > 0; line-- {
		if place, ok := t.places[line]; ok {
			return place
		}
	}
	return diag.SourceLine{}
}

// unreadable is the exit code of shells that cannot read a script on.
const unreadable = 2

// reached is the place of the line that a script has reached which ended with the exit code: that from which it could not be read, if it has
// come so far.
func (t *scriptTrack) reached(code int) diag.SourceLine {
	place, line := t.recorded()
	if code == unreadable && t.broken.Line > 0 && line >= t.before {
		return t.broken
	}
	return place
}

// saying is the place of the line that said what is wrong in a script that ended well; the zero SourceLine if that is unknown.
func (t *scriptTrack) saying(wrong error) diag.SourceLine {
	if said, ok := errors.AsType[*SaidError](wrong); ok {
		for _, line := range slices.Sorted(maps.Keys(t.places)) {
			if place := t.places[line]; strings.Contains(place.Source, said.Said) {
				return place
			}
		}
	}
	return diag.SourceLine{}
}

// recorded is the line of the text that a script says it has reached, 0 if it says nothing, and its place.
func (t *scriptTrack) recorded() (diag.SourceLine, int) {
	if t.file == "" {
		return t.first, 0
	}
	const most = 20 // bytes of a mark, at most
	if info, err := os.Lstat(t.file); err != nil || !info.Mode().IsRegular() || info.Size() > int64(most*len(t.places)) {
		return t.first, 0
	}
	data, _ := os.ReadFile(t.file)
	marks := strings.Split(strings.TrimSuffix(string(data), ","), ",")
	line, _ := strconv.Atoi(marks[len(marks)-1])
	if place, ok := t.places[line]; ok {
		return place, line
	}
	return t.first, 0
}

// failedAt are the places that the failure of a process is about: the command as its author wrote it and, if that is in a component, the steps that
// called it, up to the one in the run's own list. Of a process that ended well, what it said is wrong: the last command that ran is not.
func (x *execution) failedAt(message string, code int, said error) diag.List {
	var list diag.List
	add := func(line diag.SourceLine, message string) {
		if line.Line > 0 {
			list = append(list, diag.Diagnostic{Span: x.run.shown(line.Span), Message: message, Source: line.Source, Note: len(list) > 0})
		}
	}
	track := x.files.track
	switch {
	case code == 0 && said != nil && track != nil && !x.isBuiltin():
		add(track.saying(said), message)
		if span := x.inv.step.Span; len(list) == 0 {
			add(diag.SourceLine{Span: span, Source: x.run.line(span)}, message)
		}
	case code == 0 && said != nil && track != nil:
	case track != nil && (track.passed || !x.isBuiltin()):
		add(track.reached(code), message)
		if track.passed {
			return list
		}
	case !x.isBuiltin() && !x.inv.isProgramOfAction(x.scope):
		span := x.inv.commandSpan()
		add(diag.SourceLine{Span: span, Source: x.run.line(span)}, message)
	}
	for _, c := range x.authorsCalls() {
		if len(list) > 0 {
			message = "called by this step"
		}
		add(diag.SourceLine{Span: c.step.Span, Source: x.run.line(c.step.Span)}, message)
	}
	return list
}

// isBuiltin reports whether the scope is in a component of the program's own, which says nothing to the author of a step.
func (s *scope) isBuiltin() bool { return s.origin != nil && s.origin.Kind == plan.RefBuiltin }

// isProgramOfAction reports whether the process is the program of an action, which no line of the action's file stands for.
func (inv *invocation) isProgramOfAction(s *scope) bool {
	return s.call != nil && s.call.step.Ref.Kind == plan.RefAction && inv.def.Exec.Script == nil
}

// authorsCall is the nearest call of the scope's component that has a place in a file of the project; nil when there is none.
func (s *scope) authorsCall() *call {
	c := s.call
	for c != nil && (c.from.origin != nil || c.step.Span.Line == 0) {
		c = c.from.call
	}
	return c
}

// maxCalls bounds how many calls a failure names: components may call themselves.
const maxCalls = 10

// authorsCalls are the calls that lead to the scope's component and have a place in a file of the project, the nearest first. Of too many those before
// the last one are left out.
func (s *scope) authorsCalls() (calls []*call) {
	for c := s.authorsCall(); c != nil; c = c.from.authorsCall() {
		if len(calls) == maxCalls {
			calls = calls[:maxCalls-1]
		}
		calls = append(calls, c)
	}
	return calls
}

// shownSpan is the span of a step of the scope's list for people: a step of a built-in component stands for the one that called it.
func (s *scope) shownSpan(span diag.Span) diag.Span {
	if !s.isBuiltin() {
		return s.run.shown(span)
	}
	if c := s.authorsCall(); c != nil {
		return s.run.shown(c.step.Span)
	}
	return diag.Span{}
}

// shown returns a span whose file has the name that its author knows: relative to the work directory, or that of its origin. What is in a
// component of the program's own has none.
func (p *places) shown(span diag.Span) diag.Span {
	switch name, ok := p.shownName(span.File); {
	case ok && name == "":
		return diag.Span{}
	case ok:
		span.File = name
	case filepath.IsAbs(span.File):
		if rel, err := filepath.Rel(p.workDir, span.File); err == nil && filepath.IsLocal(rel) {
			span.File = filepath.ToSlash(rel)
		}
	}
	return span
}

// originName is what people know a file of a fetched component by: "https://host/project@v1/hello/func.yml".
func originName(o *plan.Origin, file string) string {
	if o.Kind == plan.RefBuiltin {
		return ""
	}
	name := o.URL
	if o.Rev != "" {
		name += "@" + o.Rev
	}
	if o.Path != "" {
		name += "/" + o.Path
	}
	return name + "/" + file
}
