package compile_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/rungci/rung/steps/catalog"
	"github.com/rungci/rung/steps/catalog/script"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/compile"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/cache"
	"github.com/rungci/rung/steps/value"
)

// world is what a plan runs in: the real engine and the real builtin://script. Of the other built-in steps the spec is the real one, so
// that it is known whether their inputs are right, and what they do is to say so, or to fail.
type world struct {
	fail map[string]int // built-in steps that fail, with their exit codes
}

// catalog makes the built-in steps.
func (w world) catalog(t *testing.T) fs.FS {
	t.Helper()
	files := fstest.MapFS{}
	err := fs.WalkDir(catalog.FS, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(catalog.FS, name)
		if err != nil {
			return err
		}
		if step := path.Dir(name); step != "script" {
			spec, _, _ := strings.Cut(string(data), "\n---\n")
			data = fmt.Appendf(nil, "%s\n---\nexec: {command: [sh, -c, 'cat \"$1\" >> \"$2/calls\"; exit %d', sh, '${{ input_file }}', '${{ work_dir }}']}\n", spec, w.fail[step])
		}
		files[name] = &fstest.MapFile{Data: data}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// ran is what came of a job.
type ran struct {
	*engine.Result
	log   string
	steps []string // "name status" of the job's own steps, in order
	dir   string
}

// run compiles a job and runs it.
func (w world) run(t *testing.T, j *compile.Job) *ran {
	t.Helper()
	compiled, err := compile.Compile(j)
	if err != nil {
		t.Fatal(err)
	}
	return w.runPlan(t, context.Background(), compiled, compiled.Plan, nil)
}

func (w world) runPlan(t *testing.T, ctx context.Context, compiled *compile.Compiled, component *plan.Component, sink func(event.Event)) *ran {
	t.Helper()
	vars := map[string]engine.Variable{}
	for _, v := range compiled.Variables {
		vars[v.Name] = engine.Variable{Value: v.Value, Sensitive: v.Masked}
	}
	for file, v := range compiled.Files {
		if err := os.WriteFile(file, []byte(v.Value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, folder := t.TempDir(), t.TempDir()
	r := &ran{dir: dir}
	names := map[string]string{}
	var mu sync.Mutex
	var log bytes.Buffer
	r.Result = engine.Run(ctx, engine.Options{
		Component: component, Dir: dir, WorkDir: dir, Folder: folder, Job: vars, HostEnv: []string{"PATH=" + os.Getenv("PATH")},
		Source: &source.Resolver{
			Local: &source.Local{Parse: gitlabsteps.ParseFile, WorkDir: dir}, Cache: cache.New(filepath.Join(t.TempDir(), "cache")),
			Fetchers: map[plan.RefKind]source.Fetcher{plan.RefBuiltin: &source.Builtin{FS: w.catalog(t)}},
			Folder:   folder, WorkDir: dir,
		},
		ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
		Functions:      maps.Collect(functions()),
		Sink: sinkFunc(func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			if sink != nil {
				sink(e)
			}
			if strings.Contains(e.Step, ".") {
				if l, ok := e.Body.(event.Log); ok {
					log.Write(l.Data)
				}
				return
			}
			switch b := e.Body.(type) {
			case event.Log:
				log.Write(b.Data)
			case event.StepStarted:
				names[e.Step] = b.Name
			case event.StepSkipped:
				r.steps = append(r.steps, b.Name+" skipped")
			case event.StepFinished:
				status := string(b.Status)
				if b.Allowed {
					status += " (allowed)"
				}
				r.steps = append(r.steps, names[e.Step]+" "+status)
			}
		}),
	})
	r.log = log.String()
	return r
}

// functions are those that the built-in steps call.
func functions() func(yield func(string, engine.Function) bool) {
	return func(yield func(string, engine.Function) bool) {
		for name, f := range script.Functions {
			if !yield(name, func(_ engine.FunctionScope, args []value.Value) (value.Value, error) { return f(args) }) {
				return
			}
		}
	}
}

type sinkFunc func(event.Event)

func (f sinkFunc) Event(e event.Event) { f(e) }
