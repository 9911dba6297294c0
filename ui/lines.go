package ui

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

const (
	maxIndent      = 8   // levels; deeper steps stand no further right
	maxDetail      = 200 // bytes of a value, a command or a reason that are shown
	maxDetailItems = 50  // names or values that are listed
	maxNamed       = 3   // steps that are named as running when the run stops
)

// wording is how a view words what happens to steps. It knows how lines look, and nothing of the run.
type wording struct {
	look    look
	verbose int
}

func indent(depth int) string { return strings.Repeat("  ", min(depth, maxIndent)) }

func (w wording) startLine(s *step) string {
	return indent(s.depth) + w.look.paint(styleInfo, w.look.start) + " " + s.label + "\n"
}

// heldLine says why there is no output yet.
func (w wording) heldLine(s *step) string {
	return indent(s.depth+1) + w.look.paint(styleFaint, "output is held back until the step ends: it may contain a secret that is not known yet") + "\n"
}

func (w wording) skipLine(s *step, b event.StepSkipped) string {
	text := indent(s.depth) + w.look.paint(styleFaint, w.look.skip) + " " + s.label + "  skipped"
	if b.Reason != "" {
		text += ": " + brief(b.Reason)
	}
	return text + "\n"
}

// outcome says how a step ended: "1.2s", "exit 2 after 14.8s".
func (w wording) outcome(s *step, b event.StepFinished) string {
	took := exact(b.Duration)
	switch {
	case b.Status == event.Success:
		return took
	case b.Status == event.Cancelled:
		return "cancelled after " + took
	case b.Status == event.Skipped:
		return "skipped"
	case b.Error != nil && b.Error.Kind == event.ErrorTimeout:
		return "timed out after " + took
	case s.signal != "":
		return "killed by " + cleanLabel(s.signal) + " after " + took
	case b.ExitCode != nil && *b.ExitCode > 0 && !s.isList:
		return fmt.Sprintf("exit %d after %s", *b.ExitCode, took)
	}
	return "failed after " + took
}

func (w wording) finishLine(s *step, b event.StepFinished, outcome string, through bool) string {
	l := w.look
	symbol := l.paint(styleBad, l.bad)
	switch {
	case b.Status == event.Success:
		symbol = l.paint(styleGood, l.ok)
	case b.Status != event.Failure:
		symbol = l.paint(styleFaint, l.skip)
	case b.Allowed:
		symbol = l.paint(styleWarn, l.bad)
		outcome += ", allowed to fail"
		if b.ExitCode == nil && b.Error != nil {
			outcome += ": " + brief(b.Error.Within(s.path))
		}
	}
	var place string
	span := s.span
	if b.Error != nil && len(b.Error.Diagnostics) > 0 {
		span = b.Error.Diagnostics[0].Span
	}
	if b.Status == event.Failure && !through && span.Line > 0 {
		place = "   " + l.paint(styleFaint, fmt.Sprintf("%s:%d", cleanText(span.File), span.Line))
	}
	text := indent(s.depth) + symbol + " " + s.label + "  " + outcome + place + "\n"
	if w.verbose > 0 {
		text += w.values(s, "output", b.Outputs)
	}
	return text
}

func (w wording) retryLine(s *step, b event.StepRetrying) string {
	why, next := "", "now"
	if b.Error != nil {
		why = " (" + brief(b.Error.Within(s.path)) + ")"
	}
	if b.Delay > 0 {
		next = "in " + exact(time.Duration(b.Delay))
	}
	return fmt.Sprintf("%s%s %s  attempt %d of %d failed%s, next %s\n",
		indent(s.depth), w.look.paint(styleWarn, w.look.start), s.label, b.Attempt, b.Max, why, next)
}

func (w wording) stillRunning(s *step, now time.Time) string {
	return fmt.Sprintf("%s %s still running (%s)\n", w.look.dots, s.label, whole(now.Sub(s.started)))
}

func (w wording) stillRunningMore(n int) string {
	return fmt.Sprintf("%s %s still running\n", w.look.dots, plural(n, "more step"))
}

func (w wording) progressLine(p event.Progress) string {
	if p.Done {
		return fmt.Sprintf("%s %s  done\n", w.look.dots, cleanLabel(p.Title))
	}
	return fmt.Sprintf("%s %s  %s\n", w.look.dots, cleanLabel(p.Title), amount(p))
}

// stoppingLine names what is still running.
func (r *run) stoppingLine(l look, b event.Stopping) string {
	var names []string
	more := 0
	r.working(func(s *step) bool {
		if len(names) < maxNamed {
			names = append(names, "`"+s.label+"`")
		} else {
			more++
		}
		return true
	})
	who := strings.Join(names, ", ")
	if more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	text := "stopping"
	if b.Reason != "" && b.Code != event.CodeInterrupted {
		text += " (" + brief(b.Reason) + ")"
	}
	switch {
	case b.Force && who != "":
		text += ": killing " + who
	case b.Force:
		text += " now"
	case who != "":
		text += ": waiting up to " + whole(time.Duration(b.Grace)) + " for " + who
	}
	if b.Code == event.CodeInterrupted && !b.Force {
		text += "; Ctrl-C again to kill"
	}
	return l.paint(styleWarn, text) + "\n"
}

func (w wording) runLines(s *step, b event.RunStarted) string {
	text := fmt.Sprintf("run %s  %s/%s  %s", b.ID, b.Runtime.OS, b.Runtime.Arch, b.WorkDir)
	return w.look.paint(styleFaint, brief(text)) + "\n" + w.values(s, "input", b.Inputs)
}

// detailLines says what went into a step and how its process ended.
func (w wording) detailLines(s *step, body event.Body) string {
	switch b := body.(type) {
	case event.StepResolved:
		text := "from " + b.Ref + " in " + b.Dir + " " + b.File
		if b.Origin != nil {
			text = "from " + b.Origin.String() + " " + b.File
		}
		if b.Digest != "" {
			text += " " + b.Digest
		}
		return w.detailLine(s, text)
	case event.StepInputs:
		text := w.values(s, "input", b.Inputs)
		if w.verbose > 1 {
			text += w.names(s, "env", slices.Sorted(maps.Keys(b.Env)))
		}
		return text + w.names(s, "secrets", slices.Sorted(slices.Values(b.Secrets)))
	case event.ExecStarted:
		if w.verbose < 2 {
			return ""
		}
		command := make([]string, 0, min(len(b.Command), maxDetailItems))
		for _, arg := range b.Command[:min(len(b.Command), maxDetailItems)] {
			command = append(command, quoted(arg))
		}
		return w.detailLine(s, "command "+strings.Join(command, " ")) +
			w.detailLine(s, "in "+b.WorkDir) +
			w.names(s, "process env", slices.Sorted(maps.Keys(b.Env))) +
			w.names(s, "without", slices.Sorted(slices.Values(b.Unset)))
	case event.ExecFinished:
		if b.Signal != "" {
			return w.detailLine(s, "killed by "+b.Signal)
		}
		return w.detailLine(s, fmt.Sprintf("exit %d", b.ExitCode))
	case event.Summary:
		lines := strings.Count(strings.TrimSpace(b.Markdown), "\n") + 1
		return w.detailLine(s, fmt.Sprintf("summary of %s: %s, see step-runner trace show -v", s.label, plural(lines, "line")))
	case event.Subjects:
		text := ""
		for _, made := range b.Subjects[:min(len(b.Subjects), maxDetailItems)] {
			text += w.detailLine(s, "made "+made.Name+" "+made.Digest)
		}
		return text
	}
	return ""
}

func (w wording) detailLine(s *step, text string) string {
	return indent(s.depth+1) + w.look.paint(styleFaint, brief(text)) + "\n"
}

func (w wording) values(s *step, what string, values map[string]value.Value) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i == maxDetailItems {
			b.WriteString(w.detailLine(s, fmt.Sprintf("and %d more", len(values)-i)))
			break
		}
		b.WriteString(w.detailLine(s, what+" "+name+" = "+valueText(values[name])))
	}
	return b.String()
}

func valueText(v value.Value) string {
	if _, redacted := event.IsRedacted(v); redacted || v.Sensitive() {
		return "(sensitive)"
	}
	return string(v.AppendJSON(nil))
}

func (w wording) names(s *step, what string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := what + " " + strings.Join(names[:min(len(names), maxDetailItems)], " ")
	return w.detailLine(s, text)
}

// quoted shows an argument so that its borders can be seen.
func quoted(arg string) string {
	if arg == "" || strings.ContainsAny(arg, " \t\n\r\"'\\") {
		return fmt.Sprintf("%q", shortened(arg, maxDetail))
	}
	return arg
}

// brief makes text one clean line of bounded length.
func brief(s string) string {
	if len(s) > maxDetail {
		return cleanText(strings.ToValidUTF8(s[:maxDetail], "")) + "..."
	}
	return strings.TrimSpace(cleanText(s))
}
