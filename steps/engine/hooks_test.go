package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
)

// hooked is a component that says when its processes run, and what each of them knows.
const hooked = `
spec: {inputs: {who: {type: string, default: nobody}}, env: {"*": {optional: true}}, exports: [PREPARED]}
---
pre:
  exec: {script: 'echo "pre ${{ inputs.who }} $SHARED"; echo "state token=t-${{ inputs.who }}" >$TALK; echo "export PREPARED=yes" >>$TALK', toolkit: github}
post:
  exec: {script: 'echo "post ${{ inputs.who }} $SHARED $STATE_token $STATE_main"', toolkit: github}
exec: {script: 'echo "main ${{ inputs.who }} $SHARED $STATE_token"; echo "state main=m" >$TALK', toolkit: github}
`

var hookedFiles = map[string]string{
	"one/func.yml": hooked,
	"both/func.yml": `
spec: {env: {SHARED: {optional: true}}, exports: [PREPARED]}
---
run:
- {name: first, action: owner/one@v1, inputs: {who: inner}}
- {name: last, func: ./../local}
`,
	"local/func.yml": "spec: {}\n---\npost: {exec: {script: echo post local}}\nexec: {script: echo main local}\n",
	"fails/func.yml": "spec: {}\n---\npost: {exec: {script: exit 3}}\nexec: {script: 'true'}\n",
	"if/func.yml": `
spec: {}
---
pre: {exec: {script: echo pre}, if: "${{ env.WANTED == 'yes' }}"}
post: {exec: {script: echo post}, if: failure()}
exec: {script: echo main}
`,
}

// order is the run's steps with their IDs, in the order in which they began or were skipped.
func (r *ran) order() []string {
	var order []string
	for _, e := range r.events {
		switch b := e.Body.(type) {
		case event.StepStarted:
			order = append(order, e.Step+" "+b.Name)
		case event.StepSkipped:
			order = append(order, e.Step+" "+b.Name+" skipped")
		}
	}
	return order
}

func hookJob(t *testing.T, steps string, opts engine.Options) *ran {
	t.Helper()
	j, _, _ := job{steps: steps, files: hookedFiles, opts: opts}.talking(t)
	return j.run(t)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	t.Run("run before the first step in order, and after the last one in reverse", func(t *testing.T) {
		t.Parallel()
		r := hookJob(t, `
- {script: echo begin $PREPARED}
- {name: a, title: Do A, action: owner/one@v1, inputs: {who: a}}
- {name: b, func: ./both, env: {SHARED: "mine"}}
- {script: 'echo "{\"name\":\"SHARED\",\"value\":\"late\"}" >${{ export_file }}'}
- {script: "echo end; exit 1"}
- {script: echo always, when: always}
`, engine.Options{Env: map[string]string{"SHARED": "early"}})
		r.fails(event.ErrorStep, "exit status 1").logs(`pre a early
pre inner mine
begin yes
main a early t-a
main inner mine t-inner
main local
end
always
post local
post inner mine t-inner m
post a late t-a m
`)
		want := []string{"0 pre", "0.1 pre_a", "0.2 pre_first", "1 script", "2 a", "3 b", "3.1 first", "3.2 last", "4 script_2", "5 script_3", "6 script_4", "7 post_last", "8 post_first", "9 post_a"}
		if diff := cmp.Diff(want, r.order()); diff != "" {
			t.Error(diff)
		}
		for _, e := range r.events {
			if s, ok := e.Body.(event.StepStarted); ok && e.Step == "9" && (s.Title != "Post Do A" || s.Kind != event.KindScript || s.Span.Line != 3) {
				t.Errorf("%+v", s)
			}
		}
		if diff := cmp.Diff(event.Counts{Success: 11, Failure: 1}, r.counts()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("are not looked for without end", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"w20/func.yml": hookedFiles["local/func.yml"]}
		for i := range 20 {
			next := fmt.Sprintf("action: owner/w%d@v1", i+1)
			files[fmt.Sprintf("w%d/func.yml", i)] = "spec: {}\n---\nrun: [{name: a, " + next + "}, {name: b, " + next + "}, {name: c, " + next + "}]\n"
		}
		j, _, _ := job{steps: "- {name: a, action: owner/w0@v1, if: \"${{ 'a' == 'b' }}\"}\n", files: files}.talking(t)
		r := j.run(t)
		if w := bodies[event.Warning](r); len(w) != 1 || !strings.Contains(w[0].Message, "is looked up in the first 10000 steps only") {
			t.Errorf("%+v", w)
		}
	})
	t.Run("that fail make the run fail", func(t *testing.T) {
		t.Parallel()
		r := hookJob(t, "- {name: a, func: ./fails}\n- {name: post_a, func: ./local}\n", engine.Options{})
		r.fails(event.ErrorStep, `step "post_a_2": exec: exit status 3`)
		if diff := cmp.Diff([]string{"1 a", "2 post_a", "3 post_post_a", "4 post_a_2"}, r.order()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("of a step that did not run do not clean up, unless they prepared", func(t *testing.T) {
		t.Parallel()
		hookJob(t, `
- {script: exit 1}
- {name: a, func: ./local}
- {name: b, action: owner/one@v1, inputs: {who: b}}
`, engine.Options{}).fails(event.ErrorStep).logs("pre b \npost b  t-b \n")
	})
	t.Run("have conditions, which ask how the run's own steps went", func(t *testing.T) {
		t.Parallel()
		steps := "- {name: a, action: owner/if@v1}\n- {script: 'exit ${{ env.CODE }}'}\n"
		r := hookJob(t, steps, engine.Options{Env: map[string]string{"CODE": "0"}}).succeeds().logs("main\n")
		if diff := cmp.Diff([]string{"0 pre", "0.1 pre_a skipped", "1 a", "2 script", "3 post_a skipped"}, r.order()); diff != "" {
			t.Error(diff)
		}
		hookJob(t, steps, engine.Options{Env: map[string]string{"CODE": "1", "WANTED": "yes"}}).fails(event.ErrorStep).logs("pre\nmain\npost\n")
	})
	t.Run("of a component that is not fetched do not prepare, and that is said", func(t *testing.T) {
		t.Parallel()
		r := hookJob(t, "- {name: a, func: ./one}\n", engine.Options{}).succeeds().logs("main nobody  \npost nobody   m\n")
		if w := bodies[event.Warning](r); len(w) != 1 || !strings.Contains(w[0].Message, "`pre` of the component did not run") {
			t.Errorf("%+v", w)
		}
	})
	t.Run("that need what is known later do not prepare, and that is said", func(t *testing.T) {
		t.Parallel()
		r := hookJob(t, "- {name: x, script: 'true'}\n- {name: a, action: owner/one@v1, inputs: {who: '${{ steps.x.status }}'}}\n- {name: b, action: owner/one@v1, inputs: {who: b}}\n", engine.Options{})
		r.succeeds().logs("pre b \nmain success  \nmain b  t-b\npost success   m\npost b  t-b m\n")
		if !slices.Contains(r.order(), "0.2 pre_b") {
			t.Errorf("%q", r.order())
		}
		if w := bodies[event.Warning](r); len(w) != 1 || !strings.Contains(w[0].Message, "`pre` of the step a did not run") {
			t.Errorf("%+v", w)
		}
	})
	t.Run("clean up after a run that was cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancelCause(context.Background())
		j, _, _ := job{steps: "- {name: a, action: owner/one@v1}\n- {name: wait, script: sleep 60}\n- {script: echo never}\n", files: hookedFiles, ctx: ctx}.talking(t)
		j.opts.Sink = sinkFunc(func(e event.Event) {
			if _, ok := e.Body.(event.ExecStarted); ok && e.Step == "2" {
				cancel(fmt.Errorf("enough"))
			}
		})
		r := j.run(t).logs("pre nobody \nmain nobody  t-nobody\npost nobody  t-nobody m\n")
		if r.Status != event.Cancelled {
			t.Error(r.Status)
		}
	})
	t.Run("of parallel steps clean up in the order of their places", func(t *testing.T) {
		t.Parallel()
		r := hookJob(t, "- parallel:\n  - {name: a, func: ./local}\n  - {name: b, func: ./local}\n  - {name: c, func: ./local}\n", engine.Options{}).succeeds()
		if got := r.order()[4:]; !slices.Equal(got, []string{"2 post_c", "3 post_b", "4 post_a"}) {
			t.Errorf("%q", got)
		}
	})
	t.Run("of a step that is tried again clean up once", func(t *testing.T) {
		t.Parallel()
		j, _, _ := job{steps: "- {name: a, func: ./again, retry: 2}\n", files: map[string]string{
			"again/func.yml": "spec: {}\n---\npost: {exec: {script: 'echo post'}}\nexec: {script: 'echo x >>tries; test $(wc -l <tries) = 3'}\n",
		}}.talking(t)
		j.run(t).succeeds().logs("post\n")
	})
	t.Run("of the run's own definition are refused", func(t *testing.T) {
		t.Parallel()
		hookJob(t, "post: {exec: {script: 'true'}}\nrun:\n- script: echo\n", engine.Options{}).fails(event.ErrorDefinition, "pre and post are allowed only in a component").logs("")
	})
	t.Run("that stand in for steps of a recorded run are left out with them", func(t *testing.T) {
		t.Parallel()
		recorded := func(id string, _ *plan.Step) *engine.Recorded {
			switch id {
			case "1":
				return &engine.Recorded{Reason: "it ran before", Status: event.Success}
			case "0.1":
				return &engine.Recorded{Reason: "it prepared before", Status: event.Success, Exports: map[string]engine.Variable{"SHARED": {Value: "kept"}}}
			}
			return nil
		}
		r := hookJob(t, "- {name: a, action: owner/one@v1, inputs: {who: a}}\n- {name: b, action: owner/one@v1, inputs: {who: b}}\n", engine.Options{Recorded: recorded})
		r.succeeds().logs("pre b kept\nmain b kept t-b\npost b kept t-b m\n")
		if diff := cmp.Diff([]string{"0 pre", "0.1 pre_a skipped", "0.2 pre_b", "1 a skipped", "2 b", "3 post_b"}, r.order()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNothingIsLoadedAheadWhereNoComponentCanPrepare(t *testing.T) {
	t.Parallel()
	j, _, from := job{steps: "- {name: a, func: ./local}\n- {script: 'true'}\n", files: hookedFiles}.talking(t)
	j.run(t).succeeds()
	if diff := cmp.Diff([]string{"./local", "./local"}, from.loads); diff != "" { // before the run, and by the step
		t.Error(diff)
	}
}

func TestAComponentThatCallsItselfIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	j, _, _ := job{
		steps: "- {name: a, action: owner/self@v1}\n",
		files: map[string]string{"self/func.yml": "spec: {}\n---\nrun:\n- {name: again, action: owner/self@v1, if: \"${{ env.MORE == 'x' }}\"}\n- {name: once, action: owner/one@v1}\n", "one/func.yml": hooked},
	}.talking(t)
	j.run(t).succeeds().logs("pre nobody \nmain nobody  t-nobody\npost nobody  t-nobody m\n")
}

func TestHooksOfManyActions(t *testing.T) {
	t.Parallel()
	var steps strings.Builder
	for range 12 {
		steps.WriteString("- {action: owner/one@v1}\n")
	}
	r := hookJob(t, steps.String(), engine.Options{}).succeeds()
	order := r.order()
	if order[len(order)-1] != "24 post_one" || order[len(order)-12] != "13 post_one_12" {
		t.Errorf("%q", order)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "one")); err != nil {
		t.Error(err)
	}
}
