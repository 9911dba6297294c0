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

func indent(depth int) string { return strings.Repeat("  ", min(depth, maxIndent)) }

func (r *reporter) startLine(s *step) string {
	return indent(s.depth) + r.look.paint(styleInfo, r.look.start) + " " + s.label + "\n"
}

// heldLine says why there is no output yet.
func (r *reporter) heldLine(s *step) string {
	return indent(s.depth+1) + r.look.paint(styleFaint, "output is held back until the step ends: it may contain a secret that is not known yet") + "\n"
}

func (r *reporter) skipLine(s *step, b event.StepSkipped) string {
	text := indent(s.depth) + r.look.paint(styleFaint, r.look.skip) + " " + s.label + "  skipped"
	if b.Reason != "" {
		text += ": " + brief(b.Reason)
	}
	return text + "\n"
}

// outcome says how a step ended: "1.2s", "exit 2 after 14.8s".
func (r *reporter) outcome(s *step, b event.StepFinished) string {
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

func (r *reporter) finishLine(s *step, b event.StepFinished, outcome string, through bool) string {
	l := r.look
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
	if r.o.Verbose > 0 {
		text += r.values(s, "output", b.Outputs)
	}
	return text
}

func (r *reporter) retryLine(s *step, b event.StepRetrying) string {
	why, next := "", "now"
	if b.Error != nil {
		why = " (" + brief(b.Error.Within(s.path)) + ")"
	}
	if b.Delay > 0 {
		next = "in " + exact(time.Duration(b.Delay))
	}
	return fmt.Sprintf("%s%s %s  attempt %d of %d failed%s, next %s\n",
		indent(s.depth), r.look.paint(styleWarn, r.look.start), s.label, b.Attempt, b.Max, why, next)
}

func (r *reporter) stillRunning(s *step, now time.Time) string {
	return fmt.Sprintf("%s %s still running (%s)\n", r.look.dots, s.label, whole(now.Sub(s.started)))
}

func (r *reporter) stillRunningMore(n int) string {
	return fmt.Sprintf("%s %s still running\n", r.look.dots, plural(n, "more step"))
}

func (r *reporter) progressLine(p event.Progress) string {
	if p.Done {
		return fmt.Sprintf("%s %s  done\n", r.look.dots, cleanLabel(p.Title))
	}
	return fmt.Sprintf("%s %s  %s\n", r.look.dots, cleanLabel(p.Title), amount(p))
}

func (r *reporter) stoppingLine(b event.Stopping) string {
	var names []string
	more := 0
	r.run.working(func(s *step) bool {
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
	return r.look.paint(styleWarn, text) + "\n"
}

func (r *reporter) runLines(b event.RunStarted) string {
	text := fmt.Sprintf("run %s  %s/%s  %s", b.ID, b.Runtime.OS, b.Runtime.Arch, b.WorkDir)
	return r.look.paint(styleFaint, brief(text)) + "\n" + r.values(&r.stray, "input", b.Inputs)
}

// detailLines says what went into a step and how its process ended.
func (r *reporter) detailLines(s *step, body event.Body) string {
	switch b := body.(type) {
	case event.StepResolved:
		text := "from " + b.Ref + " in " + b.Dir + " " + b.File
		if b.Origin != nil {
			text = "from " + b.Origin.String() + " " + b.File
		}
		if b.Digest != "" {
			text += " " + b.Digest
		}
		return r.detailLine(s, text)
	case event.StepInputs:
		text := r.values(s, "input", b.Inputs)
		if r.o.Verbose > 1 {
			text += r.names(s, "env", slices.Sorted(maps.Keys(b.Env)))
		}
		return text + r.names(s, "secrets", slices.Sorted(slices.Values(b.Secrets)))
	case event.ExecStarted:
		if r.o.Verbose < 2 {
			return ""
		}
		command := make([]string, 0, min(len(b.Command), maxDetailItems))
		for _, arg := range b.Command[:min(len(b.Command), maxDetailItems)] {
			command = append(command, quoted(arg))
		}
		return r.detailLine(s, "command "+strings.Join(command, " ")) +
			r.detailLine(s, "in "+b.WorkDir) +
			r.names(s, "process env", slices.Sorted(maps.Keys(b.Env))) +
			r.names(s, "without", slices.Sorted(slices.Values(b.Unset)))
	case event.ExecFinished:
		if b.Signal != "" {
			return r.detailLine(s, "killed by "+b.Signal)
		}
		return r.detailLine(s, fmt.Sprintf("exit %d", b.ExitCode))
	case event.Summary:
		lines := strings.Count(strings.TrimSpace(b.Markdown), "\n") + 1
		return r.detailLine(s, fmt.Sprintf("summary of %s: %s, see step-runner trace show -v", s.label, plural(lines, "line")))
	case event.Subjects:
		text := ""
		for _, made := range b.Subjects[:min(len(b.Subjects), maxDetailItems)] {
			text += r.detailLine(s, "made "+made.Name+" "+made.Digest)
		}
		return text
	}
	return ""
}

func (r *reporter) detailLine(s *step, text string) string {
	return indent(s.depth+1) + r.look.paint(styleFaint, brief(text)) + "\n"
}

func (r *reporter) values(s *step, what string, values map[string]value.Value) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i == maxDetailItems {
			b.WriteString(r.detailLine(s, fmt.Sprintf("and %d more", len(values)-i)))
			break
		}
		b.WriteString(r.detailLine(s, what+" "+name+" = "+valueText(values[name])))
	}
	return b.String()
}

func valueText(v value.Value) string {
	if _, redacted := event.IsRedacted(v); redacted || v.Sensitive() {
		return "(sensitive)"
	}
	return string(v.AppendJSON(nil))
}

func (r *reporter) names(s *step, what string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	text := what + " " + strings.Join(names[:min(len(names), maxDetailItems)], " ")
	return r.detailLine(s, text)
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
