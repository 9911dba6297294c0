package ui

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// maxDiagnostics bounds how many diagnostics of one error are shown.
const maxDiagnostics = 20

// ending returns the last lines of a run: for a failure the last output of the step that failed, the error, where it
// stands and what to do; then one fixed line.
func (r *reporter) ending(b event.RunFinished) string {
	if b.Status == event.Success {
		if r.quiet || isTerse(b.Counts) && r.run.noted == (noted{}) {
			return "" // the line of the only step has said it all
		}
		return r.lastLine(b)
	}
	var text strings.Builder
	if b.Status == event.Failure {
		f := r.run.decisive(b.Error)
		if f != nil && !(f.shown && r.owner == f.path && r.since <= nearLines) {
			text.WriteString(r.look.tailBlock(f.label, f.lines, f.all))
			if !r.errorsLater {
				text.WriteString(r.look.annotationLines("", r.run.errorsOf(f.path)))
			}
		}
		text.WriteString(r.problems().errorText(b.Error, f))
		for i := range r.run.failures {
			if other := &r.run.failures[i]; other != f {
				fmt.Fprintf(&text, "also failed: %s  %s\n", other.label, other.outcome)
			}
		}
		if r.run.lost > 0 {
			fmt.Fprintf(&text, "also failed: %s\n", plural(r.run.lost, "more step"))
		}
	}
	text.WriteString(r.lastLine(b))
	return text.String()
}

// isTerse reports a run of one step and nothing else.
func isTerse(c event.Counts) bool { return c == event.Counts{Success: 1} }

// decisive returns the failure that the run's error began with, else the first; nil when no step failed. Of a parallel group it need not
// be the one that came first.
func (r *run) decisive(err *event.Error) *failure {
	if len(r.failures) == 0 {
		return nil
	}
	same := func(f failure) bool { return err != nil && err.Step == f.path }
	return &r.failures[max(0, slices.IndexFunc(r.failures, same))]
}

// tailBlock shows the last lines of a step again.
func (l look) tailBlock(label string, lines []string, all bool) string {
	if len(lines) == 0 {
		return ""
	}
	title := fmt.Sprintf("last %s of %s", plural(len(lines), "line"), label)
	if all {
		title = "output of " + label
	}
	title = l.dots + title + l.dots
	return l.paint(styleFaint, title) + "\n" + strings.Join(lines, "\n") + "\n"
}

// problems renders errors and warnings. It knows how they look, and the text that the run was started with.
type problems struct {
	look       look
	sourceLine func(diag.Span) string
}

func (r *reporter) problems() problems { return problems{r.look, r.run.sourceLine} }

// errorText renders an error with its diagnostics. Where it has none, it gets the place of the step that failed.
func (p problems) errorText(err *event.Error, f *failure) string {
	if err == nil && f != nil {
		err = f.err
	}
	if err == nil && f != nil {
		err = &event.Error{Kind: event.ErrorStep, Message: fmt.Sprintf("step %q failed: %s", f.label, f.outcome)}
	}
	if err == nil {
		return ""
	}
	list, hint := err.Diagnostics, err.Hint
	if f != nil && (f.err == nil || f.err.Kind == err.Kind) {
		if len(list) == 0 && f.err != nil {
			list = f.err.Diagnostics
		}
		if hint == "" && f.err != nil {
			hint = f.err.Hint
		}
		if len(list) == 0 && !f.span.IsZero() {
			d := diag.Diagnostic{Span: f.span, Message: err.Error(), Hint: hint, Source: p.sourceLine(f.span)}
			return p.look.diagnosticText("error", d)
		}
	}
	if len(list) == 0 {
		return p.look.diagnosticText("error", diag.Diagnostic{Message: err.Error(), Hint: hint})
	}
	return p.listText(err.Message, hint, list)
}

// listText renders diagnostics, and before and after them what the error itself says beyond them.
func (p problems) listText(message, hint string, list diag.List) string {
	var b strings.Builder
	said := func(d diag.Diagnostic) bool {
		return strings.Contains(message, d.Message) || strings.Contains(d.Message, message)
	}
	if message != "" && !slices.ContainsFunc(list, said) {
		b.WriteString(p.look.diagnosticText("error", diag.Diagnostic{Message: message}))
	}
	for i, d := range list {
		if i == maxDiagnostics {
			fmt.Fprintf(&b, "and %s\n", plural(len(list)-i, "more error"))
			break
		}
		if d.Source == "" {
			d.Source = p.sourceLine(d.Span)
		}
		b.WriteString(p.look.diagnosticText("error", d))
	}
	if hint != "" && !slices.ContainsFunc(list, func(d diag.Diagnostic) bool { return d.Hint == hint }) {
		b.WriteString(p.look.paintDiagnostic("hint: " + cleanLines(hint) + "\n"))
	}
	return b.String()
}

func (p problems) warningText(b event.Warning) string {
	d := diag.Diagnostic{Message: b.Message}
	if b.Diagnostic != nil {
		d = *b.Diagnostic
		if d.Source == "" {
			d.Source = p.sourceLine(d.Span)
		}
		if strings.Contains(b.Message, d.Message) {
			d.Message = b.Message
		} else if b.Message != "" {
			d.Message = b.Message + ": " + d.Message
		}
	}
	return p.look.diagnosticText("warning", d)
}

// diagnosticText renders a diagnostic of which nothing can control the terminal.
func (l look) diagnosticText(severity string, d diag.Diagnostic) string {
	d.Message, d.Hint, d.File = cleanLines(d.Message), cleanLines(d.Hint), cleanText(d.File)
	d.Source = strings.Map(func(c rune) rune {
		if cleantext.Harmful(c) {
			return '\uFFFD' // the carets keep their place
		}
		return c
	}, mask.Queries(d.Source))
	text := d.Render()
	if severity != "error" {
		text = severity + strings.TrimPrefix(text, "error")
	}
	return l.paintDiagnostic(text)
}

// cleanLines is cleanText for text of several lines; lines after the first are indented.
func cleanLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(cleanText(line), " ")
	}
	return strings.Join(lines, "\n  ")
}

// lastLine is the one fixed line that a run ends with.
func (r *reporter) lastLine(b event.RunFinished) string {
	c := b.Counts
	total := c.Success + c.Failure + c.Allowed + c.Cancelled + c.Skipped
	var word string
	var of, decided int
	switch b.Status {
	case event.Success:
		word, of, decided = r.look.paint(styleGood, "OK"), total, c.Success
	case event.Cancelled:
		word, of, decided = r.look.paint(styleWarn, "CANCELLED"), total, c.Cancelled
	default:
		word, of, decided = r.look.paint(styleError, "FAILED"), total, c.Failure
	}
	allowed := ""
	if r.run.allowed(b) {
		word, allowed = r.look.paint(styleWarn, "FAILED"), ", allowed to fail"
	}
	steps := ""
	switch {
	case b.Status == event.Success && decided == of:
		steps = " " + plural(of, "step")
	case decided > 0 || b.Status == event.Success:
		steps = fmt.Sprintf(" %d of %s", decided, plural(of, "step"))
	case total > 0:
		steps = " after " + plural(total-c.Skipped, "step")
	}
	text := word + steps + countsText(b.Status, c) + " in " + exact(b.Duration) + allowed + r.run.noted.text()
	if r.o.TraceFile != "" && (b.Status != event.Success || r.o.Verbose > 0) {
		text += "   trace: " + cleanText(r.o.TraceFile)
	}
	return text + "\n"
}

// countsText lists the steps that ended otherwise than the run.
func countsText(status event.Status, c event.Counts) string {
	var parts []string
	add := func(n int, what string, of event.Status) {
		if n > 0 && status != of {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(c.Success, "ok", event.Success)
	add(c.Failure, "failed", event.Failure)
	add(c.Allowed, "allowed to fail", "")
	add(c.Cancelled, "cancelled", event.Cancelled)
	add(c.Skipped, "skipped", "")
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}
