// Package tracefile reads traces, also those in bundles, and writes them in other formats.
package tracefile

import (
	"io"
	"slices"

	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/trace"
)

// Read is Load for who needs the trace alone.
func Read(path string) (*trace.Trace, error) {
	l, err := Load(path)
	if err != nil {
		return nil, err
	}
	return l.Trace, nil
}

// The formats that are made here, of what the trace package does not know: screens, and the existing step-runner's messages.
const (
	formatGitLabLog   = "gitlab-log"
	FormatResults     = "step-results"
	FormatResultsText = "step-results-text"
)

// Formats are those of the trace package and ours.
func Formats() []trace.ExportFormat {
	return append(trace.Formats(),
		trace.ExportFormat{Name: formatGitLabLog, Summary: "the job log as GitLab shows it: sections, timestamps, tokens masked"},
		trace.ExportFormat{Name: formatSARIF, Summary: "the annotations of the steps, for code scanners (SARIF 2.1.0)", Extension: ".json"},
		trace.ExportFormat{Name: formatCodeQuality, Summary: "the annotations of the steps, as GitLab's code quality report", Extension: ".json"},
		trace.ExportFormat{Name: FormatResults, Summary: "the existing step-runner's StepResult, as JSON", Extension: ".json"},
		trace.ExportFormat{Name: FormatResultsText, Summary: "the existing step-runner's StepResult, as text protocol buffer"},
	)
}

// IsJSON reports whether a format is JSON.
func IsJSON(format string) bool {
	return slices.ContainsFunc(Formats(), func(f trace.ExportFormat) bool { return f.Name == format && f.Extension == ".json" })
}

// FormatsOfSeveral are the names of those that take several traces.
func FormatsOfSeveral() []string {
	var names []string
	for _, f := range Formats() {
		if f.Several() {
			names = append(names, f.Name)
		}
	}
	return names
}

// FormatNames are the names of Formats.
func FormatNames() []string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// Export writes a trace in one of Formats.
func Export(w io.Writer, t *trace.Trace, format string) error {
	switch format {
	case formatGitLabLog:
		return exportJobLog(w, t)
	case formatSARIF, formatCodeQuality:
		return exportAnnotations(w, t, format)
	case FormatResults, FormatResultsText:
	default:
		return trace.Export(w, format, t)
	}
	result, err := stepproto.FromTrace(t)
	if err != nil {
		return err
	}
	encode := stepproto.JSON
	if format == FormatResultsText {
		encode = stepproto.Text
	}
	data, err := encode(result)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}
