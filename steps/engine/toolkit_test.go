package engine_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// talks is a small toolkit. A process writes lines to the file in TALK: "state a=b", "export A=b", "output a=b", "notice text". What
// earlier processes left is in variables: STATE_a.
type talks struct {
	mu        sync.Mutex
	processes []engine.ToolkitProcess
}

type talk struct {
	engine.ToolkitProcess
	file string
}

func (t *talks) begin(p engine.ToolkitProcess) (engine.ToolkitSession, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.processes = append(t.processes, p)
	return &talk{p, filepath.Join(p.TempDir, strings.ReplaceAll(p.Step, "/", "-")+"-talk")}, nil
}

func (t *talk) Env() map[string]string {
	env := map[string]string{"TALK": t.file}
	for name, text := range t.State {
		env["STATE_"+name] = text
	}
	return env
}

func (t *talk) Output(next io.Writer) io.Writer { return next }

func (t *talk) End() (engine.ToolkitResult, error) {
	result := engine.ToolkitResult{Outputs: map[string]value.Value{}, Exports: map[string]string{}, State: map[string]string{}}
	data, err := os.ReadFile(t.file)
	if errors.Is(err, os.ErrNotExist) {
		return result, nil
	}
	for line := range bytes.Lines(data) {
		verb, rest, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		name, text, _ := strings.Cut(rest, "=")
		switch verb {
		case "state":
			result.State[name] = text
		case "export":
			result.Exports[name] = text
		case "output":
			result.Outputs[name] = value.OfString(text)
		case "notice":
			t.Emit(event.Annotation{Level: event.AnnotationNotice, Message: rest})
		}
	}
	return result, err
}

// elsewhere has components that were fetched: `action: owner/NAME@v1` is the folder NAME.
type elsewhere struct {
	source.Local
	mu    sync.Mutex
	loads []string
}

func (e *elsewhere) Check(*plan.Reference, string) error { return nil }

func (e *elsewhere) Load(ctx context.Context, ref *plan.Reference, from string) (*source.Component, error) {
	e.mu.Lock()
	e.loads = append(e.loads, ref.Text)
	e.mu.Unlock()
	name, fetched := strings.CutPrefix(ref.Action, "owner/")
	if !fetched {
		return e.Local.Load(ctx, ref, from)
	}
	name, _, _ = strings.Cut(name, "@")
	found, err := e.Local.Load(ctx, &plan.Reference{Kind: plan.RefLocal, Text: ref.Text, Path: []string{"/", e.WorkDir, name}}, from)
	if err != nil {
		return nil, err
	}
	own := *found
	own.Origin = &plan.Origin{Kind: plan.RefGit, URL: "https://host/owner/" + name, Pin: "0123"}
	return &own, nil
}

// with makes the job one whose processes talk, and whose actions are fetched.
func (j job) talking(t *testing.T) (job, *talks, *elsewhere) {
	t.Helper()
	said, from := &talks{}, &elsewhere{Local: source.Local{Parse: gitlabsteps.ParseFile}}
	j.opts.Toolkits = map[string]engine.Toolkit{plan.ToolkitGitHub: said.begin}
	j.opts.Source = from
	return j, said, from
}

func TestWhatAToolkitIsTold(t *testing.T) {
	t.Parallel()
	j, said, _ := job{
		steps: `
context: {github: {ref: main}}
run:
- name: outer
  func: ./outer
- {name: own, script: "true", toolkit: github}
`,
		files: map[string]string{
			"outer/func.yml": "spec: {}\n---\ncontext: {inner: {n: 3}}\nrun:\n- {name: inner, action: owner/one@v1}\n",
			"one/func.yml":   "spec: {}\n---\nenv: {A: b}\nexec: {script: 'echo notice it is s3cr3t-value >$TALK', toolkit: github}\n",
		},
		opts: engine.Options{Mask: []string{"s3cr3t-value"}},
	}.talking(t)
	r := j.run(t).succeeds()
	first, second := said.processes[0], said.processes[1]
	if first.Step != "outer/inner" || second.Step != "own" {
		t.Errorf("the steps are %q and %q", first.Step, second.Step)
	}
	if first.Origin == nil || first.Origin.URL != "https://host/owner/one" || second.Origin != nil {
		t.Errorf("the origins are %v and %v", first.Origin, second.Origin)
	}
	if got := string(first.Context.AppendJSON(nil)); got != `{"github":{"ref":"main"},"inner":{"n":3}}` {
		t.Errorf("the context is %s", got)
	}
	if got := string(second.Context.AppendJSON(nil)); got != `{"github":{"ref":"main"}}` {
		t.Errorf("what a component says is known reaches its caller: %s", got)
	}
	if first.Getenv("A") != "b" || first.Getenv("TALK") != "" || first.ActionDir != filepath.Join(r.dir, "one") || first.WorkDir != r.dir {
		t.Errorf("%+v", first)
	}
	for _, e := range r.events {
		if note, ok := e.Body.(event.Annotation); ok && (e.Step != "1.1" || note.Message != "it is [MASKED]") {
			t.Errorf("%s: %+v", e.Step, note)
		}
	}
}

func TestWhatASecretiveStepSaysWaitsUntilItsSecretsAreKnown(t *testing.T) {
	t.Parallel()
	j, _, _ := job{
		steps: "- {name: a, func: ./a}\n",
		files: map[string]string{
			"a/func.yml": `spec: {outputs: {key: {type: string, sensitive: true}}}
---
exec: {script: 'printf "notice made-up-key\noutput key=made-up-key\n" >$TALK', toolkit: github}
`,
		},
	}.talking(t)
	for _, note := range bodies[event.Annotation](j.run(t).succeeds()) {
		if note.Message != "[MASKED]" {
			t.Errorf("%+v", note)
		}
	}
}

type closer struct{ closed chan string }

func (c closer) Close() error { c.closed <- "closed"; return errors.New("no way") }

func TestWhatToolkitsMakeOnceARun(t *testing.T) {
	t.Parallel()
	closed := make(chan string, 10)
	made := 0
	begin := func(p engine.ToolkitProcess) (engine.ToolkitSession, error) {
		if _, err := p.Once("broken", func() (io.Closer, error) { return nil, errors.New("broken") }); err == nil {
			t.Error("an error is lost")
		}
		_, err := p.Once("server", func() (io.Closer, error) { made++; return closer{closed}, nil })
		return &talk{p, filepath.Join(p.TempDir, strings.ReplaceAll(p.Step, "/", "-")+"-talk")}, err
	}
	r := job{
		steps: "- parallel:\n  - {script: 'true', toolkit: github}\n  - {script: 'true', toolkit: github}\n- {script: 'true', toolkit: github}\n",
		opts:  engine.Options{Toolkits: map[string]engine.Toolkit{plan.ToolkitGitHub: begin}},
	}.run(t).succeeds()
	if made != 1 || len(closed) != 1 {
		t.Errorf("made %d times, closed %d times", made, len(closed))
	}
	if w := bodies[event.Warning](r); len(w) != 1 || w[0].Message != "stopping server: no way" {
		t.Errorf("%+v", w)
	}
}

func TestTheContext(t *testing.T) {
	t.Parallel()
	t.Run("is inherited by all below, on top of what is around", func(t *testing.T) {
		t.Parallel()
		job{
			steps: `
context: {a: {n: 1}, b: "${{ env.GREETING }}"}
env: {SEEN: "${{ context.a.n }}"}
run:
- script: echo ${{ context.a.n }} ${{ context.b }} $SEEN
- func: ./inner
- run:
  - script: echo ${{ context.b }}
`,
			files: map[string]string{"inner/func.yml": "spec: {}\n---\ncontext: {a: 2}\nrun:\n- script: echo ${{ context.a }} ${{ context.b }}\n"},
			opts:  engine.Options{Env: map[string]string{"GREETING": "hello"}},
		}.run(t).succeeds().logs("1 hello 1\n2 hello\nhello\n")
	})
	t.Run("is empty where nobody set any", func(t *testing.T) {
		t.Parallel()
		job{steps: "- script: echo '${{ context }}'\n"}.run(t).succeeds().logs("{}\n")
		job{steps: "- script: echo '${{ context.x }}'\n"}.run(t).fails(event.ErrorDefinition, `"x" was not found`)
	})
	t.Run("that cannot be evaluated is an error with its place", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "context: {a: '${{ steps.b }}'}\nrun:\n- script: echo\n"}.run(t).fails(event.ErrorDefinition, `"b" was not found`)
		if len(r.Error.Diagnostics) != 1 || r.Error.Diagnostics[0].Span.Line != 1 {
			t.Errorf("%+v", r.Error.Diagnostics)
		}
	})
	t.Run("sensitive values in it are not shown", func(t *testing.T) {
		t.Parallel()
		c, err := gitlabsteps.ParseSteps("STEPS", []byte("- script: echo ${{ context.token }}\n"))
		if err != nil {
			t.Fatal(err)
		}
		c.Definition.Context = map[string]plan.Field{"token": {Value: value.OfString("s3cr3t-value").Mark(true)}}
		r := job{}.runComponent(t, c).succeeds().logs("[MASKED]\n")
		started := r.events[0].Body.(event.RunStarted)
		if _, ok := event.IsRedacted(started.Component.Definition.Context["token"].Value); !ok {
			t.Errorf("%v", started.Component.Definition.Context)
		}
		if c.Definition.Context["token"].Value.Str() != "s3cr3t-value" {
			t.Error("the plan itself is changed")
		}
	})
}

func TestAStepIsSkippedForTheConditionThatItsAuthorWrote(t *testing.T) {
	t.Parallel()
	functions := map[string]engine.Function{
		"foreign": func(engine.FunctionScope, []value.Value) (value.Value, error) { return value.OfBool(false), nil },
	}
	r := job{opts: engine.Options{Functions: functions}, steps: `
- {name: one, script: echo, if: "foreign('a.b == \\'c\\'')"}
- {name: lines, script: echo, if: "foreign('a &&\n  b')"}
- {name: never, script: echo, if: "foreign('false')"}
- {name: own, script: echo, if: "!true"}
- {name: more, script: echo, if: "foreign('a') && true"}
`}.run(t)
	for name, want := range map[string]string{
		"one": "if: a.b == 'c' is false", "lines": "if: a && b is false", "never": "if: false", "own": "if: !true is false",
		"more": "if: foreign('a') && true is false",
	} {
		if got := r.skipped(name); got != want {
			t.Errorf("%s was skipped because %q, want %q", name, got, want)
		}
	}
}

func TestFunctionsSeeSecretsAndHowStepsWent(t *testing.T) {
	t.Parallel()
	functions := map[string]engine.Function{
		"peek": func(s engine.FunctionScope, args []value.Value) (value.Value, error) {
			v, _ := s.Lookup(args[0].Str())
			return v, nil
		},
		"went": func(s engine.FunctionScope, _ []value.Value) (value.Value, error) {
			failed, cancelled := s.Status()
			return value.OfArray([]value.Value{value.OfBool(failed), value.OfBool(cancelled)}), nil
		},
	}
	opts := engine.Options{Functions: functions, Secrets: map[string]string{"TOKEN": "s3cr3t-value", "OTHER": "0ther-value"}}
	r := job{
		opts: opts,
		steps: `
- {name: mine, script: "echo '${{ peek(\"secrets\").TOKEN }} ${{ went() }}'"}
- {name: granted, func: ./a, secrets: [TOKEN]}
- {name: broken, script: "exit 1", allow_failure: true}
- {name: told, script: "echo '${{ steps.broken.status }} ${{ steps.broken.allowed }} ${{ steps.mine.allowed }}'; exit 1"}
- {name: late, script: "echo '${{ went() }}'", when: always}
`,
		files: map[string]string{"a/func.yml": "spec: {secrets: {TOKEN: {}}}\n---\nrun:\n- script: echo '${{ peek(\"secrets\") }}'\n"},
	}.run(t)
	r.fails(event.ErrorStep).logs("[MASKED] [false,false]\n{\"TOKEN\":\"[MASKED]\"}\nfailure true false\n[true,false]\n")
	job{opts: opts, steps: "- script: echo '${{ secrets.TOKEN }}'\n"}.run(t).fails(event.ErrorDefinition, `"secrets" was not found`)
	if diff := cmp.Diff(event.Counts{Success: 3, Failure: 1, Allowed: 1}, r.counts()); diff != "" {
		t.Error(diff)
	}
}
