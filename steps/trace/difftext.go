package trace

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// DiffTextOptions are how a difference is shown as text.
type DiffTextOptions struct {
	Color bool
	ASCII bool // symbols of ASCII only
	Times bool // show every time, not only those that changed notably
	// A and B are what the two runs are called; empty is "A" and "B".
	A, B string
}

// fieldLabels are what people call the fields of a trace, where that is not their name.
var fieldLabels = map[string]string{
	"exit_code": "exit code", "skip_reason": "skip reason", "work_dir": "work dir", "inputs": "input", "outputs": "output",
	"exports": "export", "subjects": "made", "secrets": "secret", "job": "job variable", "ref": "reference", "resolved.ref": "reference resolved to",
	"resolved.file": "definition file", "resolved.digest": "component", "stopping": "asked to stop", "allowed": "allowed to fail",
	"unset": "not given", "runtime.version": "version", "runtime.digest": "program", "runtime.os": "system",
	"runtime.arch": "architecture",
}

const (
	colorRemoved = "31"
	colorAdded   = "32"
	colorHunk    = "36"
)

// WriteText writes the difference for people: the run, then step by step what only A has behind "-", what only B has behind
// "+", and a summary in the last line.
func (d *Difference) WriteText(w io.Writer, opts DiffTextOptions) error {
	p := &diffPrinter{
		a: cmp.Or(opts.A, "A"), b: cmp.Or(opts.B, "B"),
		textPrinter: &textPrinter{out: bufio.NewWriter(w), opts: TextOptions{Color: opts.Color, ASCII: opts.ASCII, Width: maxDiffLine}},
	}
	if len(d.Run) > 0 {
		p.line(0, colorBold, "run")
		p.changes(d.Run, true)
	}
	for _, s := range d.Steps {
		p.step(s)
	}
	p.notCompared(d.NotCompared)
	p.times(d.Times, opts.Times)
	p.line(0, colorBold, p.summary(d))
	return p.out.Flush()
}

// diffPrinter writes lines as the text form of a trace does.
type diffPrinter struct {
	*textPrinter
	a, b string // what the runs are called
}

// summary says in a line how much differs.
func (p *diffPrinter) summary(d *Difference) string {
	if d.Same {
		return "same: no difference in " + counted(d.Compared, "step")
	}
	parts := []string{}
	if len(d.Run) > 0 {
		parts = append(parts, "the run differs")
	}
	if d.Changed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s changed", d.Changed, counted(d.Compared, "step")))
	}
	if d.OnlyInA > 0 {
		parts = append(parts, fmt.Sprintf("%d only in %s", d.OnlyInA, p.a))
	}
	if d.OnlyInB > 0 {
		parts = append(parts, fmt.Sprintf("%d only in %s", d.OnlyInB, p.b))
	}
	return "different: " + strings.Join(parts, ", ")
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// pathText shows a path of names. A run that is a single process has a step without a name.
func pathText(path []string) string {
	if text := strings.Join(path, " / "); text != "" {
		return text
	}
	return "the process"
}

func (p *diffPrinter) step(s StepDifference) {
	switch s.Only {
	case "a":
		p.line(0, colorRemoved, "- step "+pathText(s.Path)+" (only in "+p.a+")")
		return
	case "b":
		p.line(0, colorAdded, "+ step "+pathText(s.Path)+" (only in "+p.b+")")
		return
	}
	p.line(0, colorBold, "step "+pathText(s.Path))
	p.changes(s.Changes, false)
	for _, l := range s.Logs {
		p.log(l)
	}
}

// changes shows what differs. Of two texts of which one follows from the other, the one that its author wrote is enough.
func (p *diffPrinter) changes(changes []Change, ofRun bool) {
	has := map[string]*Change{}
	for i, c := range changes {
		has[c.Field] = &changes[i]
	}
	for _, c := range changes {
		source := has["source"]
		switch {
		case ofRun && c.Field == "component" && source != nil && source.Lines != nil:
		case !ofRun && c.Field == "definition" && c.A == nil && c.B == nil && has["command"] != nil:
		default:
			p.change(c)
		}
	}
}

func (p *diffPrinter) change(c Change) {
	label := c.Field
	if text, ok := fieldLabels[label]; ok {
		label = text
	}
	if c.Name != "" {
		label += " " + c.Name
	}
	if c.Attempt > 0 {
		label += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	if c.Lines == nil {
		p.sides(c, label)
		return
	}
	if c.Field == "resolved.digest" {
		p.sides(c, label)
	} else {
		p.line(2, "", label)
	}
	if c.Lines.Removed+c.Lines.Added == 0 {
		p.line(4, colorDim, "the definition means the same")
	}
	p.lines(4, c.Lines)
}

// sides shows both values of a change, each in a line.
func (p *diffPrinter) sides(c Change, label string) {
	a, b := shownValue(c.Field, c.A), shownValue(c.Field, c.B)
	if a == b && c.A != nil && c.B != nil { // two sensitive values
		p.line(2, colorAdded, fmt.Sprintf("+ %s%s, another value", label, b))
		return
	}
	if c.A != nil {
		p.line(2, colorRemoved, "- "+label+a)
	}
	if c.B != nil {
		p.line(2, colorAdded, "+ "+label+b)
	}
}

// shownValue is what stands behind the name of a value. Texts that are texts in any case have no quotes.
func shownValue(field string, v *value.Value) string {
	if v == nil {
		return ""
	}
	if v.Kind() == value.String && field != "inputs" && field != "outputs" {
		return strings.TrimSuffix(": "+hideDigests(v.Str()), ": ")
	}
	return ": " + valueText(*v)
}

// lines shows the hunks of a line diff.
func (p *diffPrinter) lines(indent int, d *LineDiff) {
	for _, line := range d.Lines {
		code := ""
		switch line[0] {
		case '-':
			code = colorRemoved
		case '+':
			code = colorAdded
		case '@':
			code = colorHunk
		}
		p.line(indent, code, line)
	}
	if d.LeftOut > 0 {
		p.line(indent, colorDim, "… "+counted(d.LeftOut, "more line"))
	}
}

func (p *diffPrinter) log(l LogChange) {
	name := "log"
	if l.Stream == event.Stderr {
		name = "log (stderr)"
	}
	if l.Diff == nil {
		p.line(2, "", name+" differs; it is too long to be compared line by line")
		return
	}
	least := ""
	if l.Diff.AtLeast {
		least = "at least "
	}
	p.line(2, "", fmt.Sprintf("%s differs: %s%s only in %s, %d only in %s", name, least, counted(l.Diff.Removed, "line"), p.a, l.Diff.Added, p.b))
	p.lines(4, l.Diff)
}

// notCompared says once what is known by digests with different keys only, and what a placeholder stood for.
func (p *diffPrinter) notCompared(values []NotCompared) {
	var names, placeholders []string
	for _, v := range values {
		if v.Placeholder {
			placeholders = append(placeholders, cmp.Or(v.Name, v.Field))
			continue
		}
		label := v.Field
		if text, ok := fieldLabels[label]; ok {
			label = text
		}
		name := strings.TrimSpace(label + " " + v.Name)
		if len(v.Path) > 0 {
			name += " of " + pathText(v.Path)
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		p.line(0, colorYellow, "cannot be compared, as each trace has digests with a key of its own: "+strings.Join(names, ", "))
	}
	if len(placeholders) > 0 {
		slices.Sort(placeholders) // each is there for every step that had it
		p.line(0, colorYellow, "cannot be compared, as placeholders were used: "+strings.Join(slices.Compact(placeholders), ", "))
	}
}

func (p *diffPrinter) times(times []TimeChange, all bool) {
	titled := false
	for _, t := range times {
		if !all && !t.Notable {
			continue
		}
		if !titled {
			p.line(0, colorBold, "times")
			titled = true
		}
		name := "run"
		if t.Path != nil {
			name = "step " + pathText(t.Path)
		}
		text := fmt.Sprintf("%s: %s → %s", name, shortDuration(t.A), shortDuration(t.B))
		if t.A >= time.Millisecond {
			text += fmt.Sprintf(" (%.1f times)", t.Ratio)
		}
		p.line(2, "", text)
	}
}
