package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func TestBackgroundSteps(t *testing.T) {
	t.Parallel()
	t.Run("run while the list goes on, and give what they gave when they are waited for", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
- name: slow
  background: true
  script: |
    while ! test -e go; do sleep 0.02; done
    echo '{"name":"MADE","value":"slowly"}' >${{ export_file }}
    echo '{"name":"x","value":"y"}' >${{ output_file }}
    echo $LATER
- script: echo '{"name":"LATER","value":"1"}' >${{ export_file }}
- {script: 'echo "before $MADE $LATER"; touch go'}
- {name: w, wait: slow}
- script: echo "after $MADE ${{ steps.slow.outputs.x }} ${{ steps.slow.status }} ${{ steps.w.status }}"
`}.run(t).succeeds()
		if got := r.log(); !strings.Contains(got, "before  1\n") || !strings.HasSuffix(got, "after slowly y success success\n") {
			t.Errorf("%q", got)
		}
		if got := started(r, "w"); got.Kind != event.KindAwait {
			t.Errorf("%+v", got)
		}
		if diff := cmp.Diff(event.Counts{Success: 4}, r.counts()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("are waited for at the end of the list, before its outputs are made", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
run:
- {name: a, background: true, script: 'echo "{\"name\":\"x\",\"value\":\"1\"}" >${{ output_file }}'}
- {name: b, background: true, script: "exit 4", if: "${{ env.NO == null }}"}
outputs: {x: "${{ steps.a.outputs.x }}"}
`}.run(t).fails(event.ErrorStep, `step "b": exec: exit status 4`)
		if got := outputOf(t, r.Outputs, "x"); got != `"1"` || *r.ExitCode != 4 {
			t.Errorf("%s, %d", got, *r.ExitCode)
		}
	})
	t.Run("that fail, fail the step that waits for them, unless they may", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
- {name: a, background: true, script: exit 4}
- {name: b, background: true, script: exit 5, allow_failure: true}
- {name: goes_on, script: echo on}
- {name: w, wait: [b]}
- {name: all, wait: all}
- {name: never, script: echo never}
`}.run(t).fails(event.ErrorStep, `step "a": exec: exit status 4`).logs("on\n")
		if got := []event.Status{r.finished("w").Status, r.finished("all").Status}; !slices.Equal(got, []event.Status{event.Success, event.Failure}) {
			t.Errorf("%q", got)
		}
		if diff := cmp.Diff(event.Counts{Success: 1, Failure: 1, Allowed: 1, Skipped: 1}, r.counts()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("that are cancelled on request do not fail the run", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
- {name: server, background: true, script: 'exec 2>&-; trap "echo stopped; exit 0" TERM; touch up; while :; do sleep 0.02; done'}
- script: while ! test -e up; do sleep 0.02; done
- {name: stop, cancel: server}
- script: echo ${{ steps.server.status }}
`}.run(t).succeeds().logs("stopped\ncancelled\n")
		if f := r.finished("server"); f.Error == nil || !strings.Contains(f.Error.Message, `cancelled by the step "stop"`) {
			t.Errorf("%+v", f.Error)
		}
		if diff := cmp.Diff(event.Counts{Success: 2, Cancelled: 1}, r.counts()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("have conditions like others, and a skipped one is waited for", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: a, background: true, script: echo no, if: false}\n- {name: w, wait: a}\n- script: echo ${{ steps.a.status }}\n"}.run(t)
		r.succeeds().logs("skipped\n")
	})
	t.Run("are stopped with the run", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(context.Background())
		r := job{
			ctx:   ctx,
			steps: "- {name: a, background: true, script: sleep 60}\n- {name: w, wait: a}\n- {script: echo clean, when: always}\n",
			opts: engine.Options{Sink: sinkFunc(func(e event.Event) {
				if _, ok := e.Body.(event.ExecStarted); ok {
					cancel(errors.New("enough"))
				}
			})},
		}.run(t).logs("clean\n")
		if r.Status != event.Cancelled || r.finished("a").Status != event.Cancelled {
			t.Errorf("%s, %s", r.Status, r.finished("a").Status)
		}
	})
	t.Run("stay in the background when the step that waits runs out of time", func(t *testing.T) {
		t.Parallel()
		job{steps: `
- {name: a, background: true, script: "while ! test -e go; do sleep 0.02; done"}
- {name: w, wait: a, time_limit: 0.001, allow_failure: true}
- {script: 'echo ${{ steps.w.status }} ${{ steps.w.allowed }}; touch go'}
`}.run(t).succeeds().logs("failure true\n")
	})
	t.Run("wait for their turn when they are many", func(t *testing.T) {
		t.Parallel()
		var steps strings.Builder
		for i := range 2*engine.MaxBackground + 3 {
			fmt.Fprintf(&steps, "- {name: s%d, background: true, script: 'mkdir running/$$; ls running | wc -l; sleep 0.02; rmdir running/$$'}\n", i)
		}
		r := job{steps: steps.String(), files: map[string]string{"running/x": ""}}.run(t).succeeds()
		for _, n := range strings.Fields(r.log()) {
			if len(n) > 2 || len(n) == 2 && n > fmt.Sprint(engine.MaxBackground+1) { // the file is there too
				t.Errorf("%s run at once", n)
			}
		}
	})
	t.Run("may be whole lists and components", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {name: list, background: true, run: [{name: in, script: 'true'}, {name: bg, background: true, script: 'true'}]}\n- {name: comp, background: true, func: ./a}\n- {wait: all}\n- script: echo ${{ steps.comp.outputs.v }}\n",
			files: map[string]string{"a/func.yml": "spec: {outputs: {v: {type: string}}}\n---\nrun:\n- script: 'true'\noutputs: {v: done}\n"},
		}.run(t).succeeds().logs("done\n")
		if r.id("bg") != "1.2" {
			t.Error(r.id("bg"))
		}
	})
	t.Run("stand in for recorded ones", func(t *testing.T) {
		t.Parallel()
		recorded := func(id string, _ *plan.Step) *engine.Recorded {
			if id > "2" {
				return nil
			}
			return &engine.Recorded{Reason: "before", Status: event.Success, Outputs: map[string]value.Value{"x": value.OfString("old")}, Exports: map[string]engine.Variable{"E": {Value: "e"}}}
		}
		job{
			steps: "- {name: a, background: true, script: exit 1}\n- {name: w, wait: a}\n- {script: 'echo ${{ steps.a.outputs.x }} $E'}\n",
			opts:  engine.Options{Recorded: recorded},
		}.run(t).succeeds().logs("old e\n")
	})
}

func started(r *ran, name string) event.StepStarted {
	for _, s := range bodies[event.StepStarted](r) {
		if s.Name == name {
			return s
		}
	}
	return event.StepStarted{}
}

func TestWrongWaitsAreFoundBeforeTheRun(t *testing.T) {
	t.Parallel()
	text := func(s string) plan.Step {
		return plan.Step{Name: s, Inline: &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Exec: &plan.Exec{Script: &plan.Script{Text: plan.Field{Value: value.OfString("echo " + s)}}}}}}
	}
	background := text("bg")
	background.Background = true
	for want, steps := range map[string][]plan.Step{
		`step "w": there is no earlier background step named "a"`:   {text("a"), {Name: "w", Await: &plan.Await{Steps: []string{"a"}}}},
		`step "w": there is no earlier background step named "bg"`:  {{Name: "w", Await: &plan.Await{Steps: []string{"bg"}}}, background},
		`step "p/bg": a step of a parallel group cannot run in the`: {{Name: "p", Parallel: []plan.Step{background}}},
		`step "p/w": a step of a parallel group cannot run in the`:  {{Name: "p", Parallel: []plan.Step{{Name: "w", Await: &plan.Await{}}}}},
		`step "p": only a step that calls a component or runs`:      {{Name: "p", Background: true, Parallel: []plan.Step{text("a")}}},
	} {
		c := &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: append([]plan.Step{text("first")}, steps...)}}
		job{}.runComponent(t, c).fails(event.ErrorDefinition, want).logs("")
	}
}

func TestABugInABackgroundStepIsAPanicOfTheRun(t *testing.T) {
	t.Parallel()
	component, err := gitlabsteps.ParseSteps("STEPS", []byte(`[{name: a, step: "${{ env.REF }}", env: {REF: ./x}, background: true}, {name: b, script: "true"}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if bug := fmt.Sprint(recover()); !strings.HasPrefix(bug, "a bug in the source\n") {
			t.Errorf("the panic is %q, want the bug and where it is", bug)
		}
	}()
	engine.Run(t.Context(), engine.Options{
		Component: component, Dir: t.TempDir(), WorkDir: t.TempDir(), HostEnv: os.Environ(), Source: brokenSource{}, Sink: noSink{},
		ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
	})
	t.Error("the run ended as if nothing had been")
}

func TestTimeLimits(t *testing.T) {
	t.Parallel()
	job{steps: "- {script: sleep 60, time_limit: '${{ num(env.MINUTES) }}'}\n", opts: engine.Options{Env: map[string]string{"MINUTES": "0.001"}}}.run(t).fails(event.ErrorTimeout, "timed out after 60ms")
	job{steps: "- {script: sleep 60, time_limit: 5, timeout: 60ms}\n"}.run(t).fails(event.ErrorTimeout, "timed out after 60ms")
	for _, wrong := range []string{"${{ env.MINUTES }}", "${{ 0 }}", "${{ 0 - 1 }}", "${{ null }}", "${{ 1e300 }}"} {
		r := job{steps: "- {script: echo no, time_limit: '" + wrong + "', allow_failure: true}\n", opts: engine.Options{Env: map[string]string{"MINUTES": "5"}}}.run(t)
		r.fails(event.ErrorDefinition, "not a number of minutes above 0").logs("")
	}
}

func TestAFailureMayBeAllowedByACondition(t *testing.T) {
	t.Parallel()
	run := func(condition string) *ran {
		return job{
			steps: "- {name: before, script: 'true'}\n- {name: a, script: exit 3, allow_failure: {if: \"" + condition + "\"}}\n- script: echo ${{ steps.a.allowed }}\n",
			opts:  engine.Options{Env: map[string]string{"BETA": "yes"}},
		}.run(t)
	}
	run("${{ env.BETA == 'yes' }}").succeeds().logs("true\n")
	run("steps.before.status == 'success'").succeeds()
	run("${{ env.UNSET }}").fails(event.ErrorStep, "exit status 3").logs("")
	run("${{ steps.none.status }}").fails(event.ErrorDefinition, `"none" was not found`).logs("")
	job{steps: "- {name: a, script: exit 3, allow_failure: {if: true, exit_codes: [4]}}\n"}.run(t).fails(event.ErrorStep)
}

func TestTheOutputsOfARunThatFailed(t *testing.T) {
	t.Parallel()
	r := job{steps: `
run:
- {name: a, script: 'echo "{\"name\":\"x\",\"value\":\"s3cr3t-value\"}" >${{ output_file }}'}
- {name: b, script: exit 1}
- {name: c, script: 'true'}
outputs: {x: "${{ steps.a.outputs.x }}", c: "${{ steps.c.status }}", missing: "${{ steps.c.outputs.x }}"}
`, opts: engine.Options{Mask: []string{"s3cr3t-value"}}}.run(t).fails(event.ErrorStep)
	finished := r.events[len(r.events)-1].Body.(event.RunFinished)
	want := map[string]value.Value{"x": value.OfString("[MASKED]"), "c": value.OfString("skipped")}
	if diff := cmp.Diff(want, finished.Outputs, cmp.Comparer(value.Equal)); diff != "" {
		t.Error(diff)
	}
}
