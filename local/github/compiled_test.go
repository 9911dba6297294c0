package github_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/local/github"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/toolkit/github/service/cache"
	"github.com/rungci/rung/steps/value"
)

const cacheAt = forged.Temp + "/store/cache"

// heard is an observer that keeps results.
type heard struct {
	local.Notes
	mu      sync.Mutex
	results []local.Result
}

func (h *heard) Finished(r local.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results = append(h.results, r)
}

// runForged runs a workflow where environments lie, and returns its results.
func runForged(t *testing.T, dir, workflow string, o github.Options, run func(*forged.Environment) []event.Event) (*heard, *forged.Level) {
	t.Helper()
	o.Dir, o.File, o.Text, o.Env = dir, ".github/workflows/ci.yml", []byte(workflow), os.Environ()
	p, err := github.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	selection, err := p.Select(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	level, h := &forged.Level{Dir: t.TempDir(), Run: run}, &heard{}
	container := func() (executor.Executor, error) { return level, nil }
	p.Run(t.Context(), github.RunOptions{
		Options: local.Options{Isolation: local.IsolateContainer, Container: container, Observer: h}, Selection: selection,
	})
	return h, level
}

func addCache(t *testing.T, dir, key, text string) cache.Entry {
	t.Helper()
	file := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := cache.Folder{Dir: dir}.Add(key, "v", file)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAStepThatOverwritesTheStoreOfActionsChangesNoCacheThatExisted(t *testing.T) {
	dir := t.TempDir()
	here := filepath.Join(dir, ".rung", "cache", "actions")
	old := addCache(t, here, "old", "of the main branch")
	h, _ := runForged(t, dir, "on: push\njobs:\n  build:\n    runs-on: x\n    container: forged\n    steps: [{uses: ./action}]\n", github.Options{},
		func(env *forged.Environment) []event.Event {
			inside := env.Path(cacheAt)
			if text, err := os.ReadFile(filepath.Join(inside, old.Name()+".cache")); err != nil || string(text) != "of the main branch" {
				t.Errorf("the job finds %q, %v", text, err)
			}
			if err := os.RemoveAll(inside); err != nil {
				t.Error(err)
			}
			addCache(t, inside, "old", "poison")
			addCache(t, inside, "new", "mine")
			return nil
		})
	if len(h.results) != 1 || h.results[0].Status != local.Success {
		t.Fatalf("%+v %q", h.results, h.Texts)
	}
	all, err := cache.Folder{Dir: here}.List()
	if err != nil || len(all) != 2 || all[0].Key != "new" || all[1] != old {
		t.Fatalf("the caches are %+v, %v", all, err)
	}
	if text, err := os.ReadFile(cache.Folder{Dir: here}.Path(old)); err != nil || string(text) != "of the main branch" {
		t.Errorf("the old one holds %q, %v", text, err)
	}
}

func TestAForgedStepRunnerGivesNoOutputsButThoseThatTheJobDeclares(t *testing.T) {
	h, level := runForged(t, t.TempDir(), `on: push
jobs:
  build:
    runs-on: x
    container: forged
    outputs: {mine: '${{ steps.a.outputs.x }}', leak: '${{ steps.a.outputs.x }}'}
    services: {db: {image: db, env: {PASSWORD: '${{ secrets.KEY }}'}}}
    steps: [{id: a, run: make}]
`, github.Options{Secrets: map[string]string{"KEY": "hunter2hunter2"}}, func(*forged.Environment) []event.Event {
		outputs := map[string]value.Value{}
		for name, text := range map[string]string{"mine": "1", "leak": "is hunter2hunter2", "other": "2", "environment.url": "http://evil"} {
			outputs[name] = value.OfString(text)
		}
		return []event.Event{{Body: event.RunFinished{Status: event.Success, Outputs: outputs}}}
	})
	if len(h.results) != 1 || h.results[0].Status != local.Success {
		t.Fatalf("%+v %q", h.results, h.Texts)
	}
	if got := fmt.Sprint(h.results[0].Outputs["mine"].Text(), h.results[0].Outputs["leak"].Text(), len(h.results[0].Outputs)); got != "12" || h.results[0].Note != "" {
		t.Errorf("the outputs are %v, the note %q", h.results[0].Outputs, h.results[0].Note)
	}
	if !slices.ContainsFunc(h.Texts, func(text string) bool { return strings.Contains(text, "the output leak holds a secret") }) {
		t.Errorf("nobody hears of the secret: %q", h.Texts)
	}
	job := level.Jobs()[0]
	if !slices.Contains(job.Masked, "hunter2hunter2") || len(job.Variables) != 0 {
		t.Errorf("masked in what services print is %q; all services get %v", job.Masked, job.Variables)
	}
}
