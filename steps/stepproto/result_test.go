package stepproto_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

func code(n int) *int { return &n }

// bangs is the trace of a run that called ./bang, a script, a dynamic reference and a list in place, and failed.
func bangs() *trace.Trace {
	bang := &plan.Component{
		Spec: plan.Spec{Inputs: map[string]plan.Input{"code": {Type: value.Number}}},
		Definition: plan.Definition{
			Env:  map[string]plan.Field{"INNER": text("${{ inputs.code }}")},
			Exec: &plan.Exec{Command: []plan.Field{text("exit"), text("${{ inputs.code }}")}},
		},
	}
	list := []plan.Step{
		{
			Name: "skipped", If: textPointer("${{ false }}"), Inline: script("echo no"),
		},
		{
			Name: "bang", Ref: &plan.Reference{Kind: plan.RefLocal, Text: "./bang", Path: []string{".", "bang"}},
			Inputs: map[string]plan.Field{"code": text("${{ job.CODE }}")}, Env: map[string]plan.Field{"OUTER": text("${{ job.X }}")},
		},
		{Name: "chosen", Ref: &plan.Reference{Kind: plan.RefDynamic, Text: "${{ job.REF }}", Expr: textPointer("${{ job.REF }}")}},
		{Name: "inner", Inline: &plan.Component{
			Spec: plan.Spec{AnyOutputs: true},
			Definition: plan.Definition{Steps: []plan.Step{
				{Name: "group", Parallel: []plan.Step{{Name: "lint", Inline: script("lint ${{ job.X }}")}}},
			}},
		}},
	}
	inlineOnly := *list[3].Inline
	inlineOnly.Definition.Steps = nil
	return &trace.Trace{
		Run: trace.Run{
			Status: event.Failure, Env: map[string]string{"PATH": "/bin"}, Inputs: map[string]value.Value{"in": value.OfInt(1)},
			Component: &plan.Component{Definition: plan.Definition{Steps: list}},
		},
		Components: map[string]*plan.Component{"sha256:1/step.yml": bang, "sha256:1/my.yml": bang},
		Steps: []*trace.Step{
			{ID: "1", Name: "skipped", Status: event.Skipped},
			{
				ID: "2", Name: "bang", Ref: "./bang", Kind: event.KindComponent, Status: event.Failure, ExitCode: code(7),
				Resolved: &trace.Resolved{Ref: "./bang", Dir: "/src/bang", File: "step.yml", Digest: "sha256:1"},
				Inputs:   map[string]value.Value{"code": value.OfInt(7)},
				Env:      map[string]string{"OUTER": "x", "INNER": "7"},
				Attempts: []trace.Attempt{
					{Command: []string{"exit", "7"}, WorkDir: "/first", ExitCode: code(9)},
					{Command: []string{"exit", "7"}, WorkDir: "/src", ExitCode: code(7)},
				},
				Outputs: map[string]value.Value{"big": value.OfInt(5), "secret": event.Redacted("pbkdf2-sha256:00")},
				Exports: map[string]string{"E": "e\xff"},
			},
			{
				ID: "3", Name: "chosen", Ref: "${{ job.REF }}", Kind: event.KindComponent, Status: event.Success,
				Resolved: &trace.Resolved{Ref: "/opt/bang/my.yml", Dir: "/opt/bang", File: "my.yml", Digest: "sha256:1"},
			},
			{
				ID: "4", Name: "inner", Kind: event.KindSteps, Status: event.Cancelled, Definition: &inlineOnly,
				Steps: []*trace.Step{
					{ID: "4.1", Name: "group", Kind: event.KindParallel, Status: event.Failure, Steps: []*trace.Step{
						{ID: "4.1.1", Name: "lint", Kind: event.KindScript, Status: event.Failure, Definition: script("lint ${{ job.X }}")},
					}},
					{ID: "4.1#2", Name: "group", Kind: event.KindParallel, Status: event.Running, Steps: []*trace.Step{
						{
							ID: "4.1.1#2", Name: "lint", Kind: event.KindScript, Status: event.Running, Definition: script("lint ${{ job.X }}"),
							Attempts: []trace.Attempt{{Command: []string{"bash", "-c", "lint x"}, WorkDir: "/src", Started: time.Unix(1, 0)}},
						},
					}},
				},
			},
		},
	}
}

const wantBangs = `
step: { inputs: { key: "in" value: { number_value: 1 } } }
status: failure
env: { key: "PATH" value: "/bin" }
sub_step_results: {
  step: {
    name: "bang"
    step: { protocol: local filename: "step.yml" paths: { parts: [".", "bang"] } }
    inputs: { key: "code" value: { number_value: 7 } }
    env: { key: "OUTER" value: "x" }
  }
  specDefinition: {
    spec: { spec: { inputs: { key: "code" value: { type: number } } output_method: outputs } }
    definition: { type: exec exec: { command: ["exit", "${{ inputs.code }}"] } env: { key: "INNER" value: "${{ inputs.code }}" } }
  }
  status: failure
  outputs: { key: "big" value: { number_value: 5 } }
  outputs: { key: "secret" value: { struct_value: { fields: { key: "$sensitive" value: { string_value: "pbkdf2-sha256:00" } } } } }
  exports: { key: "E" value: "e\357\277\275" }
  env: { key: "OUTER" value: "x" }
  env: { key: "INNER" value: "7" }
  exec_result: { command: ["exit", "7"] work_dir: "/src" exit_code: 7 }
}
sub_step_results: {
  step: { name: "chosen" step: { protocol: local filename: "my.yml" paths: { parts: ["/", "opt", "bang"] } } }
  specDefinition: {
    spec: { spec: { inputs: { key: "code" value: { type: number } } output_method: outputs } }
    definition: { type: exec exec: { command: ["exit", "${{ inputs.code }}"] } env: { key: "INNER" value: "${{ inputs.code }}" } }
  }
  status: success
}`

func TestFromTrace(t *testing.T) {
	result, err := stepproto.FromTrace(bangs())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("C102 the definition is recorded as written, the invocation and the process evaluated", func(t *testing.T) {
		var want stepproto.StepResult
		if err := prototext.Unmarshal([]byte(wantBangs), &want); err != nil {
			t.Fatal(err)
		}
		got := proto.Clone(result).(*stepproto.StepResult)
		got.SpecDefinition, got.SubStepResults = nil, got.SubStepResults[:2]
		if diff := cmp.Diff(&want, got, protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if steps := result.GetSpecDefinition().GetDefinition().GetSteps(); len(steps) != 4 {
			t.Errorf("the run's own definition has %d steps, want 4", len(steps))
		}
	})
	t.Run("a list in place has its definition whole, and only the last time that it ran", func(t *testing.T) {
		inner := result.GetSubStepResults()[2]
		if got := len(inner.GetSpecDefinition().GetDefinition().GetSteps()); got != 1 {
			t.Errorf("the definition has %d steps, want the one of the group", got)
		}
		if len(inner.GetSubStepResults()) != 1 || len(inner.GetSubStepResults()[0].GetSubStepResults()) != 1 {
			t.Fatalf("the results are %v", inner.GetSubStepResults())
		}
		lint := inner.GetSubStepResults()[0].GetSubStepResults()[0]
		if lint.GetStatus().String() != "running" || lint.GetExecResult().GetCommand()[2] != "lint x" {
			t.Errorf("the result of lint is %v", lint)
		}
		if got := lint.GetStep().GetInputs()["script"].GetStringValue(); got != "lint ${{ job.X }}" {
			t.Errorf("the script is %q", got)
		}
	})
	t.Run("steps that were skipped have no result", func(t *testing.T) {
		for _, sub := range result.GetSubStepResults() {
			if sub.GetStep().GetName() == "skipped" {
				t.Error("there is one")
			}
		}
	})
	t.Run("a run of one process has its result at the top", func(t *testing.T) {
		got, err := stepproto.FromTrace(&trace.Trace{
			Run: trace.Run{Status: event.Success, Component: script("true")},
			Steps: []*trace.Step{{ID: "", Name: "run", Status: event.Success, Attempts: []trace.Attempt{
				{Command: []string{"true"}, ExitCode: code(-1073741510 + 1<<32)},
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetExecResult().GetCommand()[0] != "true" || got.GetExecResult().GetExitCode() != -1073741510 || got.GetSubStepResults() != nil {
			t.Errorf("got %v", got)
		}
	})
	t.Run("a trace without a component is refused", func(t *testing.T) {
		if _, err := stepproto.FromTrace(&trace.Trace{}); err == nil || !strings.Contains(err.Error(), "holds no component") {
			t.Errorf("got %v", err)
		}
	})
}

func TestEncode(t *testing.T) {
	result, err := stepproto.FromTrace(bangs())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("C105 the result in text form is the same every time and reads back", func(t *testing.T) {
		data, err := stepproto.Text(result)
		if err != nil {
			t.Fatal(err)
		}
		if spaces := regexp.MustCompile(`(?m)^ *\w+:  `).Find(data); spaces != nil {
			t.Errorf("two spaces in %q", spaces)
		}
		var back stepproto.StepResult
		if err := prototext.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(result, &back, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the result in JSON has the names of the existing step-runner and reads back", func(t *testing.T) {
		data, err := stepproto.JSON(result)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{`"subStepResults": [`, `"specDefinition": {`, `"execResult": {`, `"workDir": "/src"`, `"exitCode": 7`, `"status": "failure"`, `"outputMethod": "outputs"`} {
			if !strings.Contains(string(data), name) {
				t.Errorf("%s is not in\n%s", name, data)
			}
		}
		var back stepproto.StepResult
		if err := protojson.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(result, &back, protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
	})
}
