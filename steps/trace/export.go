package trace

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rungci/rung/steps/diag"
)

// ExportFormat is a form that a trace can be turned into.
type ExportFormat struct {
	Name      string
	Summary   string // for help texts, lower case, no full stop
	Extension string // of files in it, with the dot

	write func(w io.Writer, t *Trace) error
	// several writes the traces of the jobs of a pipeline as one document; nil where the form has none.
	several func(w io.Writer, traces []*Trace) error
}

// Several reports whether the form takes several traces.
func (f *ExportFormat) Several() bool { return f.several != nil }

var exportFormats = []ExportFormat{
	{"html", "one page for a browser, with timeline, steps and logs", ".html", writeHTML, WritePipeline},
	{"text", "the tree of steps, for a terminal", ".txt", writeWholeText, inTurn(writeWholeText)},
	{"json", "the trace document itself", ".json", write, nil},
	{"comparable", "the document without what varies between two runs of the same job", ".json", writeComparable, nil},
	{"chrome", "Chrome trace events, for Perfetto (ui.perfetto.dev)", ".json", writeChrome, nil},
	{"junit", "a JUnit test report, a test case for every step", ".xml", func(w io.Writer, t *Trace) error { return writeJUnit(w, []*Trace{t}) }, writeJUnit},
	{"markdown", "a summary for GitHub's step summary or a comment on a merge request", ".md", writeMarkdown, inTurn(writeMarkdown)},
	{"otlp", "spans of the run, its steps and attempts, for OpenTelemetry collectors (OTLP/JSON)", ".json", writeOTLP,
		func(w io.Writer, traces []*Trace) error { return WriteSpans(w, traces, SpanParent{}) }},
}

func writeWholeText(w io.Writer, t *Trace) error {
	return WriteText(w, t, TextOptions{Verbose: 1, Logs: true})
}

// inTurn writes one trace after another, with an empty line between them.
func inTurn(write func(w io.Writer, t *Trace) error) func(io.Writer, []*Trace) error {
	return func(w io.Writer, traces []*Trace) error {
		for i, t := range traces {
			if i > 0 {
				if _, err := io.WriteString(w, "\n"); err != nil {
					return err
				}
			}
			if err := write(w, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// Formats returns the forms that Export knows, in the order in which help texts list them.
func Formats() []ExportFormat { return append([]ExportFormat(nil), exportFormats...) }

// Export writes traces in the named form. Several are the jobs of a pipeline, which not every form takes.
func Export(w io.Writer, format string, traces ...*Trace) error {
	var names []string
	for _, f := range exportFormats {
		switch {
		case f.Name == format && len(traces) == 1:
			return f.write(w, traces[0])
		case f.Name == format && f.several != nil:
			return f.several(w, traces)
		case f.Name == format:
			return fmt.Errorf("%s takes one trace, not %d", format, len(traces))
		}
		names = append(names, f.Name)
	}
	hint := ""
	if near := diag.Suggest(format, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return fmt.Errorf("cannot export to %q: the formats are %s%s", format, strings.Join(names, ", "), hint)
}

// shortDuration returns a duration with two or three digits that matter: 0ms, 850ms, 1.2s, 14.8s, 2m05s, 1h02m.
func shortDuration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute-50*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour-500*time.Millisecond:
		d = d.Round(time.Second)
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	default:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
}

// label returns what a person calls the step: its title, or its name.
func (s *Step) label() string {
	if s.Title != "" {
		return s.Title
	}
	return s.Name
}

// maxHeldLogs is up to how many bytes of logs, of all steps together, are held in memory to show them step by step. Above,
// the logs are read once for every step.
const maxHeldLogs = 64 << 20

// logsByStep returns a function that writes the log of a step, cheaper than Log is where it is called for every step.
func (t *Trace) logsByStep() (func(id string, w io.Writer) error, error) {
	var total int64
	t.Walk(func(s *Step, _ int) {
		if s.Log != nil {
			total += s.Log.Bytes
		}
	})
	if total > maxHeldLogs {
		return t.Log, nil
	}
	held := map[string][]byte{}
	err := t.Chunks(func(c Chunk) error {
		held[c.Step] = append(held[c.Step], c.Data...)
		return nil
	})
	return func(id string, w io.Writer) error {
		_, err := w.Write(held[id])
		return err
	}, err
}
