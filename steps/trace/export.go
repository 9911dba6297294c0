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
}

var exportFormats = []ExportFormat{
	{"html", "one page for a browser, with timeline, steps and logs", ".html", writeHTML},
	{"text", "the tree of steps, for a terminal", ".txt",
		func(w io.Writer, t *Trace) error { return WriteText(w, t, TextOptions{Verbose: 1, Logs: true}) }},
	{"json", "the trace document itself", ".json", write},
	{"comparable", "the document without what varies between two runs of the same job", ".json", writeComparable},
	{"chrome", "Chrome trace events, for Perfetto (ui.perfetto.dev)", ".json", writeChrome},
	{"junit", "a JUnit test report, a test case for every step", ".xml", writeJUnit},
	{"markdown", "a summary for GitHub's step summary or a comment on a merge request", ".md", writeMarkdown},
	{"otlp", "spans of the run, its steps and attempts, for OpenTelemetry collectors (OTLP/JSON)", ".json", writeOTLP},
}

// Formats returns the forms that Export knows, in the order in which help texts list them.
func Formats() []ExportFormat { return append([]ExportFormat(nil), exportFormats...) }

// Export writes the trace in the named form.
func Export(w io.Writer, t *Trace, format string) error {
	var names []string
	for _, f := range exportFormats {
		if f.Name == format {
			return f.write(w, t)
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
