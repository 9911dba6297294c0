package trace

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// A failing test case shows the end of its step's log, at most this much of it.
const (
	junitLogLines = 60
	junitLogBytes = 32 << 10
)

// writeJUnit writes a test suite for every list of steps and a test case for every step that is not itself a list.
func writeJUnit(w io.Writer, traces []*Trace) error {
	out := bufio.NewWriter(w)
	var all suite
	began, ended, title := time.Time{}, time.Time{}, traces[0].Title()
	for _, t := range traces {
		t.Walk(func(s *Step, _ int) { all.count(s) })
		if end := t.Run.Started.Add(t.Run.Duration); end.After(ended) {
			ended = end
		}
		if began.IsZero() || t.Run.Started.Before(began) {
			began = t.Run.Started
		}
	}
	if len(traces) > 1 {
		title = pipelineTitle(traces)
	}
	out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	whole := &junit{out: out}
	whole.open("testsuites", 0, append([]attr{{"name", title}}, all.attrs(ended.Sub(began))...)...)
	for _, t := range traces {
		tails, err := t.tails()
		if err != nil {
			return err
		}
		j := &junit{out: out, tails: tails, calls: calls(t.Steps, nil, map[string]diag.Span{}), job: t.Identity(), facts: []attr{{"ignored_image", t.ignoredImage()}}}
		if t.Allowed() {
			j.facts = append(j.facts, attr{"allowed_to_fail", "true"})
		}
		j.trace(t)
	}
	out.WriteString("</testsuites>\n")
	return out.Flush()
}

// trace writes the suites of one trace.
func (j *junit) trace(t *Trace) {
	j.suite(cmp.Or(j.job.Job, "run"), t.Run.Started, t.Run.Duration, t.Steps)
	t.Walk(func(s *Step, _ int) {
		if isList(s) {
			path := t.names(s)
			if j.job.Job != "" {
				path = append([]string{j.job.Job}, path...)
			}
			j.suite(strings.Join(path, " / "), s.Started, s.Duration, s.Steps)
		}
	})
}

// isList reports whether a step is only what is in it.
func isList(s *Step) bool { return len(s.Steps) > 0 }

// names returns the names of the steps from the root down to s.
func (t *Trace) names(s *Step) []string {
	var path []string
	t.Walk(func(other *Step, depth int) {
		if other == s || strings.HasPrefix(s.ID, other.ID+".") {
			path = append(path, other.label())
		}
	})
	return path
}

// tails returns the last of the log of every step that did not end well.
func (t *Trace) tails() (map[string][]byte, error) {
	tails := map[string][]byte{}
	t.Walk(func(s *Step, _ int) {
		if s.Status != event.Success && s.Status != event.Skipped {
			tails[s.ID] = nil
		}
	})
	err := t.Chunks(func(c Chunk) error {
		if tail, wanted := tails[c.Step]; wanted {
			tail = append(tail, c.Data...)
			tails[c.Step] = append(tail[:0], tail[max(0, len(tail)-junitLogBytes):]...)
		}
		return nil
	})
	return tails, err
}

// calls adds the steps that are written, or fail, in a component that was fetched: where the file of the project calls it, since no other file is one
// that readers of a report have. call is that of the steps' own component, nil for the project's.
func calls(steps []*Step, call *diag.Span, to map[string]diag.Span) map[string]diag.Span {
	for _, s := range steps {
		at := call
		if at == nil && s.Resolved != nil && s.Resolved.Origin != nil && s.Resolved.Origin.Kind != plan.RefBuiltin {
			at = &s.Span
		}
		if at != nil {
			to[s.ID] = *at
		}
		calls(s.Steps, at, to)
	}
	return to
}

// suite counts the test cases of a suite.
type suite struct{ tests, failures, errors, skipped int }

func (c *suite) count(s *Step) {
	if isList(s) {
		return
	}
	c.tests++
	switch {
	case s.Status == event.Skipped || s.Allowed:
		c.skipped++
	case s.Status == event.Failure && !systemError(s):
		c.failures++
	case s.Status != event.Success:
		c.errors++
	}
}

// systemError reports a failure that is not the fault of what the step runs.
func systemError(s *Step) bool { return s.Error != nil && s.Error.Fault() == event.FaultSystem }

func (c *suite) attrs(d time.Duration) []attr {
	return []attr{
		{"tests", fmt.Sprint(c.tests)}, {"failures", fmt.Sprint(c.failures)}, {"errors", fmt.Sprint(c.errors)},
		{"skipped", fmt.Sprint(c.skipped)}, {"time", seconds(d)},
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

type attr struct{ name, value string }

type junit struct {
	out   *bufio.Writer
	tails map[string][]byte
	calls map[string]diag.Span // by the ID of a step
	job   event.Identity
	facts []attr // of the job, for the properties of its suites
}

// open writes a start tag on a line of its own.
func (j *junit) open(name string, indent int, attrs ...attr) {
	j.tag(name, indent, attrs...)
	j.out.WriteString(">\n")
}

// tag writes a start tag without its end.
func (j *junit) tag(name string, indent int, attrs ...attr) {
	j.out.WriteString(strings.Repeat(" ", indent) + "<" + name)
	for _, a := range attrs {
		if a.value != "" {
			fmt.Fprintf(j.out, ` %s="%s"`, a.name, strings.ReplaceAll(xmlText(a.value), "\n", "&#10;"))
		}
	}
}

func (j *junit) suite(name string, started time.Time, d time.Duration, steps []*Step) {
	var c suite
	for _, s := range steps {
		c.count(s)
	}
	if c.tests == 0 {
		return
	}
	attrs := append([]attr{{"name", name}}, c.attrs(d)...)
	j.open("testsuite", 2, append(attrs, attr{"timestamp", started.UTC().Format("2006-01-02T15:04:05")})...)
	j.properties()
	for _, s := range steps {
		if !isList(s) {
			j.testCase(name, s)
		}
	}
	j.out.WriteString("  </testsuite>\n")
}

// properties writes which job the suite is part of, if that is known.
func (j *junit) properties() {
	if !identityKnown(j.job) {
		return
	}
	j.open("properties", 4)
	for _, p := range append([]attr{
		{"project", j.job.Project}, {"ref", j.job.Ref}, {"commit", j.job.Commit}, {"pipeline", j.job.Pipeline},
		{"pipeline_id", j.job.PipelineID}, {"job", j.job.Job}, {"stage", j.job.Stage},
	}, j.facts...) {
		if p.value != "" {
			j.tag("property", 6, attr{"name", p.name}, attr{"value", p.value})
			j.out.WriteString("/>\n")
		}
	}
	j.out.WriteString("    </properties>\n")
}

func (j *junit) testCase(suite string, s *Step) {
	place, inner := s.Span, ""
	if s.Error != nil && len(s.Error.Diagnostics) > 0 {
		place = s.Error.Diagnostics[0].Span
	}
	if call, fetched := j.calls[s.ID]; fetched && call.File != place.File {
		place, inner = call, fmt.Sprintf(" (%s)", place)
	}
	attrs := []attr{{"name", s.label()}, {"classname", suite}, {"time", seconds(s.Duration)}, {"file", place.File}}
	if place.Line > 0 {
		attrs = append(attrs, attr{"line", fmt.Sprint(place.Line)})
	}
	j.tag("testcase", 4, attrs...)
	kind, text := "", message(s.Error, WithoutRounds(s.ID))
	switch {
	case s.Status == event.Success:
		j.out.WriteString("/>\n")
		return
	case s.Status == event.Skipped:
		kind, text = "skipped", s.Skipped
	case s.Allowed:
		kind, text = "skipped", "failed, and was allowed to: "+text
	case s.Status == event.Failure && !systemError(s):
		kind = "failure"
	case s.Status == event.Running:
		kind, text = "error", "running when the trace ends"
	case s.Status == event.Cancelled && text == "":
		kind, text = "error", "cancelled"
	default:
		kind = "error"
	}
	j.out.WriteString(">\n")
	j.tag(kind, 6, attr{"message", text + inner}, attr{"type", errorCode(s)})
	if tail := lastLines(j.tails[s.ID]); tail != "" {
		fmt.Fprintf(j.out, ">%s</%s>\n", xmlText(tail), kind)
	} else {
		j.out.WriteString("/>\n")
	}
	if len(s.Annotations) > 0 {
		fmt.Fprintf(j.out, "      <system-err>%s</system-err>\n", xmlText(annotationText(s, nil)))
	}
	j.out.WriteString("    </testcase>\n")
}

func errorCode(s *Step) string {
	if s.Error == nil {
		return ""
	}
	return string(cmp.Or(s.Error.Code, s.Error.Kind.Code()))
}

// lastLines returns the last whole lines of a log as plain text.
func lastLines(tail []byte) string {
	cut := len(tail) >= junitLogBytes
	if i := bytes.IndexByte(tail, '\n'); cut && i >= 0 {
		tail = tail[i+1:]
	}
	var plain plainer
	lines := bytes.SplitAfter(plain.append(nil, tail), []byte("\n"))
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	return string(bytes.Join(lines[max(0, len(lines)-junitLogLines):], nil))
}

// xmlText escapes text for XML 1.0. What XML cannot hold at all becomes U+FFFD.
func xmlText(s string) string {
	var b strings.Builder
	for _, r := range s { // an invalid byte reads as U+FFFD
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '"':
			b.WriteString("&quot;")
		case r < ' ' && r != '\n' && r != '\t' || r == 0xFFFE || r == 0xFFFF:
			b.WriteRune('\uFFFD')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
