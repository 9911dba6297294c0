// Package programtest calls the code of built-in steps in tests, with the inputs as the engine would give them.
package programtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/value"
)

// Result is what a step did.
type Result struct {
	Outputs map[string]value.Value
	Exports map[string]string
	Log     string // standard output, then standard error
	Err     error
}

// Output returns an output as text; "" when there is none.
func (r *Result) Output(name string) string {
	v, ok := r.Outputs[name]
	if !ok {
		return ""
	}
	return v.Text()
}

// Run calls a step in a work directory, with inputs and variables of the environment (NAME=value).
func Run(t *testing.T, f program.Func, dir string, inputs any, env ...string) *Result {
	t.Helper()
	return RunContext(t, context.Background(), f, dir, inputs, env...)
}

// RunContext is Run with a context.
func RunContext(t *testing.T, ctx context.Context, f program.Func, dir string, inputs any, env ...string) *Result {
	t.Helper()
	text, err := json.Marshal(inputs)
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	outputs, exports := filepath.Join(files, "outputs"), filepath.Join(files, "exports")
	for _, file := range []string{outputs, exports} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	r := &Result{Exports: map[string]string{}}
	r.Err = f(ctx, &program.Call{
		Inputs: text, WorkDir: dir, Env: append([]string{"PATH=" + os.Getenv("PATH")}, env...), Stdout: &stdout, Stderr: &stderr,
		OutputFile: outputs, ExportFile: exports,
	})
	r.Outputs = entries(t, outputs)
	for name, v := range entries(t, exports) {
		r.Exports[name] = v.Str()
	}
	r.Log = stdout.String() + stderr.String()
	return r
}

func entries(t *testing.T, file string) map[string]value.Value {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]value.Value{}
	for line := range strings.Lines(string(text)) {
		v, err := value.ParseJSON([]byte(line))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[v.Fields()["name"].Str()] = v.Fields()["value"]
	}
	return all
}

// Write makes files in a folder, by their paths. A path that ends in a slash is a folder.
func Write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		parent := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			parent = path
		}
		if err := os.MkdirAll(parent, 0o755); err != nil {
			t.Fatal(err)
		}
		if parent == path {
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
