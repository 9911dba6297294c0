package actions

import (
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/step"
)

// Check finds what is accepted in the metadata file of a composite action, and is probably a mistake. The findings have their rules as codes.
// What Parse refuses is not among them.
func Check(name string, data []byte) (found diag.List) {
	source, err := yamlsource.Parse(name, data)
	if err != nil || len(source.Documents) != 1 {
		return nil
	}
	runs := source.Documents[0].Get("runs")
	if runs == nil || runs.Get("steps") == nil {
		return nil
	}
	for _, item := range runs.Get("steps").Items {
		script, shell := item.Get("run"), item.Get("shell")
		if script == nil || shell == nil {
			continue
		}
		if d, ok := step.Unclosed(source, script, shell.Text); ok {
			found = append(found, d)
		}
	}
	return found
}
