package trace

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// TextOptions are how a trace is shown as text.
type TextOptions struct {
	Color bool
	ASCII bool // symbols of ASCII only
	// Verbose shows inputs, outputs, exports and what was set in the environment from 1 on, also commands, the environment of
	// processes and digests from 2 on.
	Verbose int
	Logs    bool
	Width   int // of the screen in characters; 0 is any
}

// Symbols of a status, so that colour is never the only sign.
var (
	symbols = map[event.Status]string{event.Success: "✓", event.Failure: "✗", event.Skipped: "–", event.Cancelled: "⊘",
		event.Running: "▸"}
	asciiSymbols = map[event.Status]string{event.Success: "+", event.Failure: "x", event.Skipped: "-", event.Cancelled: "o",
		event.Running: ">"}
	colors = map[event.Status]string{event.Success: "32", event.Failure: "31", event.Skipped: "2", event.Cancelled: "33",
		event.Running: "36"}
)

const (
	colorDim    = "2"
	colorBold   = "1"
	colorYellow = "33"
)

// WriteText writes the header of the run and the tree of its steps.
func WriteText(w io.Writer, t *Trace, opts TextOptions) error {
	p := &textPrinter{out: bufio.NewWriter(w), trace: t, opts: opts}
	if opts.Logs {
		logs, err := t.logsByStep()
		if err != nil {
			return err
		}
		p.logs = logs
	}
	p.header()
	t.Walk(func(s *Step, depth int) {
		p.column = max(p.column, 2*depth+2+utf8.RuneCountInString(p.label(s)))
	})
	p.column = min(p.column, maxLabelColumn)
	t.Walk(p.step)
	p.footer()
	if p.err != nil {
		return p.err
	}
	return p.out.Flush()
}

// maxLabelColumn is where durations are at the latest, in characters, unless a name is longer.
const maxLabelColumn = 48

type textPrinter struct {
	out    *bufio.Writer
	trace  *Trace
	opts   TextOptions
	logs   func(id string, w io.Writer) error
	column int
	err    error // of reading logs; errors of writing stay in out
}

// color returns s in a colour, if there are colours.
func (p *textPrinter) color(code, s string) string {
	if !p.opts.Color || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *textPrinter) symbol(s event.Status, allowed bool) string {
	table, code := symbols, colors[s]
	if p.opts.ASCII {
		table = asciiSymbols
	}
	if allowed {
		code = colorYellow
	}
	return p.color(code, table[s])
}

// line writes an indented line that fits the screen. The text must hold no escape sequences; code colours all of it.
func (p *textPrinter) line(indent int, code, text string) {
	width := 0
	if p.opts.Width > 0 {
		width = max(p.opts.Width-indent, minTextWidth)
	}
	fmt.Fprintf(p.out, "%s%s\n", strings.Repeat(" ", indent), p.color(code, p.ascii(cut(oneLine(text), width))))
}

// minTextWidth is the least room that a text gets, in characters, however deep it stands.
const minTextWidth = 20

// ascii replaces the characters that we put into texts ourselves.
func (p *textPrinter) ascii(s string) string {
	if !p.opts.ASCII {
		return s
	}
	return strings.NewReplacer("·", "-", "…", "...", "→", "->").Replace(s)
}

func (p *textPrinter) header() {
	r := p.trace.Run
	head := oneLine(r.ID) + "  " + string(r.Status)
	switch {
	case p.trace.Incomplete:
		head = oneLine(r.ID) + "  incomplete"
	case r.ExitCode != nil && *r.ExitCode != 0:
		head += fmt.Sprintf(" (exit %d)", *r.ExitCode)
	}
	if p.trace.Allowed() {
		head += ", " + allowedText
	}
	fmt.Fprintf(p.out, "%s %s in %s\n", p.symbol(r.Status, p.trace.Allowed()), p.color(colorBold, head), shortDuration(r.Duration))
	about := []string{countText(r.Counts), r.Started.UTC().Format("2006-01-02 15:04:05 UTC")}
	if rt := p.trace.Runtime; rt.Version != "" || rt.OS != "" {
		about = append(about, strings.TrimSpace(rt.Version+" "+rt.OS+"/"+rt.Arch))
	}
	if said := annotationCounts(p.trace); said != "" {
		about = slices.Insert(about, 1, said)
	}
	p.line(2, colorDim, strings.Join(about, " · "))
	id := p.trace.Identity()
	if identityKnown(id) {
		p.line(2, colorDim, identityText(id))
	}
	if image := p.trace.ignoredImage(); image != "" {
		p.line(2, colorYellow, ignoredText(image))
	}
	if p.trace.Incomplete {
		p.line(2, colorYellow, "the trace ends before the run does: it was killed, or it is still running")
	}
	if n := len(r.Pauses); n > 0 && r.Pauses[n-1].Resumed.IsZero() && r.Status == event.Running {
		p.line(2, colorYellow, "paused before step "+r.Pauses[n-1].Before)
	}
	if r.Stopping != nil {
		p.line(2, colorYellow, "asked to stop: "+r.Stopping.Reason)
	}
	if p.opts.Verbose > 0 {
		if more := identityDetails(id); identityKnown(id) && more != "" {
			p.line(2, colorDim, more)
		}
		p.values(2, "input", r.Inputs)
		p.values(2, "output", r.Outputs)
		p.line(2, colorDim, "work dir: "+r.WorkDir)
		if r.Environment != nil {
			for _, part := range r.Environment.Prepared {
				p.line(2, colorDim, strings.TrimSpace("prepared: "+string(part.Phase)+" "+oneLine(part.Subject))+" "+shortDuration(part.Duration))
			}
		}
	}
	if p.opts.Verbose > 1 {
		p.texts(2, "env", r.Env)
		p.texts(2, "job", r.Job)
	}
	p.out.WriteString("\n")
}

// countText says how many steps ended how.
func countText(c event.Counts) string {
	var parts []string
	for _, part := range []struct {
		n    int
		what string
	}{{c.Success, "ok"}, {c.Failure, "failed"}, {c.Allowed, "failed as allowed"}, {c.Cancelled, "cancelled"}, {c.Skipped, "skipped"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	if parts == nil {
		return "no step has ended"
	}
	return strings.Join(parts, ", ")
}

// annotationCounts says how many annotations there are, if there are any: "1 error, 2 warnings".
func annotationCounts(t *Trace) string {
	counts := t.Annotations()
	var parts []string
	for _, level := range []event.AnnotationLevel{event.AnnotationError, event.AnnotationWarning, event.AnnotationNotice} {
		if n := counts[level]; n > 0 {
			parts = append(parts, counted(n, string(level)))
		}
	}
	return strings.Join(parts, ", ")
}

// label is what is in front of a step's duration.
func (p *textPrinter) label(s *Step) string {
	label := oneLine(s.Name)
	if i := strings.IndexByte(s.ID, '#'); i >= 0 {
		label += " " + s.ID[i:]
	}
	if s.Title != "" && s.Title != s.Name {
		label += " · " + oneLine(s.Title)
	}
	return cut(label, maxLabelColumn)
}

func (p *textPrinter) step(s *Step, depth int) {
	indent := 2 * depth
	label := p.label(s)
	fmt.Fprintf(p.out, "%s%s %s", strings.Repeat(" ", indent), p.symbol(s.Status, s.Allowed), p.ascii(label))
	if s.Status != event.Skipped {
		pad := max(p.column-indent-2-utf8.RuneCountInString(label), 0)
		fmt.Fprintf(p.out, "%s  %7s", strings.Repeat(" ", pad), shortDuration(s.Duration))
	}
	if notes := p.notes(s); notes != "" {
		fmt.Fprintf(p.out, "  %s", p.color(colorDim, p.ascii(notes)))
	}
	p.out.WriteString("\n")
	if s.Error != nil && len(s.Steps) == 0 {
		p.failure(indent+4, s.Error, s.Error.Within(WithoutRounds(s.ID)))
	}
	p.annotations(indent+4, s)
	if p.opts.Verbose > 0 {
		p.details(indent+4, s)
	}
	if s.Summary != "" {
		p.summary(indent+4, s.Summary)
	}
	if p.opts.Logs && s.Log != nil && p.err == nil {
		p.err = p.log(indent+4, s)
	}
}

// notes are what a line says of a step behind its duration.
func (p *textPrinter) notes(s *Step) string {
	var notes []string
	if s.Ref != "" {
		ref := s.Ref
		if s.Resolved != nil {
			ref = s.Resolved.Ref
		}
		notes = append(notes, oneLine(ref))
	}
	if s.Status == event.Running {
		notes = append(notes, "running when the trace ends")
	}
	if s.Status == event.Cancelled {
		notes = append(notes, "cancelled")
	}
	if s.Status == event.Skipped {
		notes = append(notes, strings.TrimSuffix("skipped: "+oneLine(s.Skipped), ": "))
	}
	if s.ExitCode != nil && *s.ExitCode != 0 {
		notes = append(notes, fmt.Sprintf("exit %d", *s.ExitCode))
	}
	if a := s.Attempts; len(a) > 0 && a[len(a)-1].Signal != "" {
		notes = append(notes, a[len(a)-1].Signal)
	}
	if n := len(s.Attempts); n > 1 {
		notes = append(notes, fmt.Sprintf("%d attempts", n))
	}
	if s.Allowed {
		notes = append(notes, "allowed to fail")
	}
	return strings.Join(notes, " · ")
}

func (p *textPrinter) failure(indent int, err *event.Error, text string) {
	p.line(indent, "31", "error: "+text)
	if p.opts.Verbose > 0 && err.Code != "" {
		p.line(indent, colorDim, fmt.Sprintf("code %s, fault %s", err.Code, err.Fault()))
	}
	for _, d := range err.Diagnostics {
		place := d.Error()
		if err.Message == d.Message {
			place = d.Span.String()
		}
		p.line(indent, "", "--> "+place)
	}
	if err.Hint != "" {
		p.line(indent, "", "hint: "+err.Hint)
	}
}

// resolved is what a reference turned out to be.
func (p *textPrinter) resolved(indent int, r *Resolved) {
	if o := r.Origin; o != nil {
		place := *o
		place.Pin = o.Rev // it is on a line of its own
		p.line(indent, colorDim, "from "+place.String()+" "+r.File)
		p.line(indent+2, colorDim, "which was "+o.Pin)
	} else {
		p.line(indent, colorDim, "from "+strings.TrimSuffix(r.Dir, "/")+"/"+r.File)
	}
	if r.Digest != "" {
		p.line(indent+2, colorDim, "content "+r.Digest)
	}
}

// details are what a step was given and gave.
func (p *textPrinter) details(indent int, s *Step) {
	p.values(indent, "input", s.Inputs)
	p.texts(indent, "env", s.Env)
	if len(s.Secrets) > 0 {
		p.line(indent, colorDim, "secrets: "+strings.Join(s.Secrets, ", "))
	}
	p.texts(indent, "permission", s.Permissions)
	if p.opts.Verbose > 1 {
		if r := s.Resolved; r != nil {
			p.resolved(indent, r)
		}
		for i, a := range s.Attempts {
			name := "command"
			if len(s.Attempts) > 1 {
				name = fmt.Sprintf("command, attempt %d", i+1)
			}
			p.line(indent, colorDim, name+": "+commandText(a.Command))
			p.line(indent+2, colorDim, "in "+a.WorkDir)
			p.texts(indent+2, "env", a.Env)
			if len(a.Unset) > 0 {
				p.line(indent+2, colorDim, "unset: "+strings.Join(a.Unset, ", "))
			}
		}
	}
	p.values(indent, "output", s.Outputs)
	p.texts(indent, "export", s.Exports)
	for _, subject := range s.Subjects {
		p.line(indent, colorDim, "made "+subject.Name+" "+subject.Digest)
	}
}

// maxShownAnnotations is how many annotations of a step are shown unless all are asked for.
const maxShownAnnotations = 20

// levelColors are those of annotations; the word says the same.
var levelColors = map[event.AnnotationLevel]string{event.AnnotationError: "31", event.AnnotationWarning: colorYellow, event.AnnotationNotice: "36"}

// annotations are what the step said about places in files.
func (p *textPrinter) annotations(indent int, s *Step) {
	shown := s.Annotations
	if p.opts.Verbose == 0 {
		shown = shown[:min(len(shown), maxShownAnnotations)]
	}
	for _, a := range shown {
		p.line(indent, levelColors[a.Level], annotationLine(a))
	}
	if more := len(s.Annotations) - len(shown); more > 0 {
		p.line(indent, colorDim, fmt.Sprintf("and %s (-v shows them)", counted(more, "more annotation")))
	}
	if s.AnnotationsLeftOut > 0 {
		p.line(indent, colorDim, fmt.Sprintf("and %s that the trace does not keep", counted(s.AnnotationsLeftOut, "more annotation")))
	}
}

// summary shows what a step wrote about itself, or says that it did.
func (p *textPrinter) summary(indent int, markdown string) {
	if p.opts.Verbose == 0 {
		p.line(indent, colorDim, "summary of "+counted(lineCount(markdown), "line")+" (-v shows it)")
		return
	}
	p.line(indent, colorDim, "summary")
	_ = p.behindBar(indent, func(w io.Writer) error { // errors of writing stay in out
		_, err := io.WriteString(w, markdown)
		return err
	})
}

func (p *textPrinter) values(indent int, name string, values map[string]value.Value) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		p.line(indent, colorDim, fmt.Sprintf("%s %s = %s", name, key, valueText(values[key])))
	}
}

func (p *textPrinter) texts(indent int, name string, texts map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		p.line(indent, colorDim, fmt.Sprintf("%s %s = %s", name, key, texts[key]))
	}
}

// sensitiveText stands for what a trace does not know.
const sensitiveText = "[sensitive]"

// valueText shows a value as JSON, without what is sensitive in it.
func valueText(v value.Value) string {
	if _, ok := event.IsRedacted(v); ok {
		return sensitiveText
	}
	return string(hideRedacted(v).AppendJSON(nil))
}

// hideRedacted replaces the stand-ins of sensitive values inside a value.
func hideRedacted(v value.Value) value.Value {
	if _, ok := event.IsRedacted(v); ok {
		return value.OfString(sensitiveText)
	}
	switch v.Kind() {
	case value.Array:
		items := make([]value.Value, len(v.Items()))
		for i, item := range v.Items() {
			items[i] = hideRedacted(item)
		}
		return value.OfArray(items)
	case value.Struct:
		fields := make(map[string]value.Value, len(v.Fields()))
		for key, field := range v.Fields() {
			fields[key] = hideRedacted(field)
		}
		return value.OfStruct(fields)
	}
	return v
}

// commandText shows an argument vector as one would type it into a POSIX shell.
func commandText(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		words[i] = word
		if word == "" || strings.ContainsFunc(word, func(r rune) bool {
			return !strings.ContainsRune("-_./=:,@%+", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		}) {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// log writes the log of a step behind a bar.
func (p *textPrinter) log(indent int, s *Step) error {
	return p.behindBar(indent, func(w io.Writer) error { return p.logs(s.ID, w) })
}

// behindBar writes text of which nothing moves a terminal's cursor, a bar before every line.
func (p *textPrinter) behindBar(indent int, text func(io.Writer) error) error {
	bar := "│ "
	if p.opts.ASCII {
		bar = "| "
	}
	w := &indenter{out: p.out, prefix: strings.Repeat(" ", indent) + p.color(colorDim, bar), plain: plainer{colors: p.opts.Color}}
	err := text(w)
	if w.inLine {
		p.out.WriteString("\n")
	}
	if p.opts.Color {
		p.out.WriteString("\x1b[0m")
	}
	return err
}

func (p *textPrinter) footer() {
	if e := p.trace.Run.Error; e != nil {
		p.out.WriteString("\n")
		p.failure(0, e, e.Error())
	}
	for _, w := range p.trace.Warnings {
		p.line(0, colorYellow, "warning: "+w.Message)
	}
}

// indenter writes a prefix before every line, and nothing that moves a terminal's cursor.
type indenter struct {
	out    *bufio.Writer
	prefix string
	plain  plainer
	buf    []byte
	inLine bool
}

func (w *indenter) Write(data []byte) (int, error) {
	w.buf = w.plain.append(w.buf[:0], data)
	for rest := w.buf; len(rest) > 0; {
		if !w.inLine {
			w.out.WriteString(w.prefix)
		}
		end := bytes.IndexByte(rest, '\n') + 1
		w.inLine = end == 0
		if w.inLine {
			end = len(rest)
		}
		if _, err := w.out.Write(rest[:end]); err != nil {
			return 0, err
		}
		rest = rest[end:]
	}
	return len(data), nil
}
