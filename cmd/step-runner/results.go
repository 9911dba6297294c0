package main

import (
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/trace"
)

// stepResults are the flags by which the existing step-runner is asked for a StepResult. It is made from the trace.
type stepResults struct {
	on     bool
	file   string
	format string
}

func (r *stepResults) flags(f *pflag.FlagSet, getenv func(string) string) {
	f.BoolVar(&r.on, "write-steps-results", getenv("CI_STEPS_DEBUG") == "true", "write a StepResult, as the existing step-runner does (set by CI_STEPS_DEBUG=true too)")
	f.StringVar(&r.file, "step-results-file", "", "the `FILE` for --write-steps-results (default: step-results.json, or .txtpb)")
	f.StringVar(&r.format, "step-results-format", "json", "the `FORMAT` for --write-steps-results: json or prototext")
}

func (r *stepResults) wanted() bool { return r.on || r.file != "" }

// write makes the StepResult of the finished trace at path.
func (r *stepResults) write(path string) error {
	if !r.wanted() {
		return nil
	}
	t, err := trace.Read(path)
	if err != nil {
		return err
	}
	file, format := r.file, formatResults
	if r.format == "prototext" {
		format = formatResultsText
	}
	if file == "" {
		file = map[string]string{formatResults: "step-results.json", formatResultsText: "step-results.txtpb"}[format]
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return coded(exitSystem, "writing the step results: %v", err)
	}
	err = exportTrace(f, t, format)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// The formats of results, which are made here, because the trace package does not know the existing step-runner's messages.
const (
	formatResults     = "step-results"
	formatResultsText = "step-results-text"
)

// allFormats are those of the trace package and ours.
func allFormats() []trace.ExportFormat {
	return append(trace.Formats(),
		trace.ExportFormat{Name: formatSARIF, Summary: "the annotations of the steps, for code scanners (SARIF 2.1.0)"},
		trace.ExportFormat{Name: formatCodeQuality, Summary: "the annotations of the steps, as GitLab's code quality report"},
		trace.ExportFormat{Name: formatResults, Summary: "the existing step-runner's StepResult, as JSON"},
		trace.ExportFormat{Name: formatResultsText, Summary: "the existing step-runner's StepResult, as text protocol buffer"},
	)
}

func exportFormats() []string {
	var names []string
	for _, f := range allFormats() {
		names = append(names, f.Name)
	}
	return names
}

func exportTrace(w io.Writer, t *trace.Trace, format string) error {
	switch format {
	case formatSARIF, formatCodeQuality:
		return exportAnnotations(w, t, format)
	case formatResults, formatResultsText:
	default:
		return trace.Export(w, t, format)
	}
	result, err := stepproto.FromTrace(t)
	if err != nil {
		return err
	}
	encode := stepproto.JSON
	if format == formatResultsText {
		encode = stepproto.Text
	}
	data, err := encode(result)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}
