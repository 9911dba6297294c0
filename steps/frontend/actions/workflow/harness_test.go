package workflow_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// parse reads a workflow that must be right.
func parse(t *testing.T, text string) *workflow.Workflow {
	t.Helper()
	w, err := workflow.Parse("ci.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s\n%s", diag.Of(err).Render(), text)
	}
	return w
}

// withJob is a workflow with one job that has the keys.
func withJob(keys string) string {
	return "on: push\njobs:\n  a:\n    runs-on: x\n    steps: [{run: x}]\n" + indent(keys, "    ")
}

// indent puts a prefix before every line that is not empty.
func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			line = by + line
		}
		b.WriteString(line)
	}
	return b.String()
}

// job returns the first job of a workflow with those keys.
func job(t *testing.T, keys string) *workflow.Job {
	t.Helper()
	return parse(t, withJob(keys)).Jobs[0]
}

// object reads JSON as a value.
func object(t *testing.T, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return v
}

func contexts(t *testing.T, text string) workflow.Contexts {
	t.Helper()
	return workflow.Contexts(object(t, text).Fields())
}

// legs computes the legs of a job.
func legs(t *testing.T, j *workflow.Job, c workflow.Contexts) *workflow.Legs {
	t.Helper()
	legs, err := j.Legs(c)
	if err != nil {
		t.Fatal(diag.Of(err).Render())
	}
	return legs
}

// mistakes holds a text against what must be wrong with it. In the text, § stands before each place that a diagnostic must be about.
func mistakes(t *testing.T, marked string, want []string) {
	t.Helper()
	var places []int // line * 1000 + column
	var text strings.Builder
	line, column := 1, 1
	for _, r := range marked {
		switch r {
		case '§':
			places = append(places, line*1000+column)
			continue
		case '\n':
			line, column = line+1, 0
		}
		text.WriteRune(r)
		column++
	}
	_, err := workflow.Parse("ci.yml", []byte(text.String()))
	list := diag.Of(err)
	if len(list) != len(want) {
		t.Fatalf("%d diagnostics, want %d:\n%s\n%s", len(list), len(want), list.Render(), text.String())
	}
	for i, d := range list {
		if !strings.Contains(d.Message, want[i]) {
			t.Errorf("message %q, want %q", d.Message, want[i])
		}
		if i < len(places) && d.Line*1000+d.Column != places[i] {
			t.Errorf("%q is at %d:%d, want %d:%d", d.Message, d.Line, d.Column, places[i]/1000, places[i]%1000)
		}
		if d.File != "ci.yml" {
			t.Errorf("%q is about the file %q", d.Message, d.File)
		}
	}
}
