package session

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/tracefile"
	"github.com/rungci/rung/steps/trace"
)

// stepResults are the flags by which the existing step-runner is asked for a StepResult. It is made from the trace.
type stepResults struct {
	on     bool
	file   string
	format string
}

func (r *stepResults) flags(f *pflag.FlagSet, getenv func(string) string) {
	f.BoolVar(&r.on, "write-steps-results", getenv("CI_STEPS_DEBUG") == "true", "write a StepResult as the existing step-runner does (also set by CI_STEPS_DEBUG=true)")
	f.StringVar(&r.file, "step-results-file", "", "write the StepResult to `FILE` (default: step-results.json, or .txtpb)")
	f.StringVar(&r.format, "step-results-format", "json", "write the StepResult as `FORMAT`: json or prototext")
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
	file, format := r.file, tracefile.FormatResults
	if r.format == "prototext" {
		format = tracefile.FormatResultsText
	}
	if file == "" {
		file = map[string]string{tracefile.FormatResults: "step-results.json", tracefile.FormatResultsText: "step-results.txtpb"}[format]
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return exit.Coded(exit.System, "writing the step results: %v", err)
	}
	err = tracefile.Export(f, t, format)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
