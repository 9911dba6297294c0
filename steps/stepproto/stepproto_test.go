package stepproto_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/testing/protocmp"

	stepsv0 "github.com/rungci/rung/api/gitlab/steps/v0"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/stepproto"
	"github.com/rungci/rung/steps/value"
)

var equal = cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(value.Equal)}

func text(s string) plan.Field { return plan.Field{Value: value.OfString(s)} }

func textPointer(s string) *plan.Field {
	f := text(s)
	return &f
}

func script(s string) *plan.Component {
	return &plan.Component{
		Spec:       plan.Spec{AnyOutputs: true},
		Definition: plan.Definition{Exec: &plan.Exec{Script: &plan.Script{Text: text(s)}}},
	}
}

// greeting is what testdata/greeting.txtpb means.
func greeting() *plan.Component {
	you := value.OfString("you")
	all := value.OfArray([]value.Value{{}, value.OfFloat(1.5)})
	return &plan.Component{
		Spec: plan.Spec{
			Inputs: map[string]plan.Input{
				"name":  {Type: value.String, Default: &you},
				"times": {Type: value.Number},
				"token": {Type: value.String, Sensitive: true},
			},
			Outputs: map[string]plan.Output{"text": {Type: value.String}, "all": {Type: value.Array, Default: &all}},
		},
		Definition: plan.Definition{
			Env: map[string]plan.Field{"GREETING": text("hello ${{ inputs.name }}")},
			Steps: []plan.Step{
				{Name: "say", Inline: script("echo $GREETING"), Env: map[string]plan.Field{"A": text("b")}},
				{
					Name: "near",
					Ref:  &plan.Reference{Kind: plan.RefLocal, Text: "../echo/step.yml", Path: []string{"..", "echo"}, File: "step.yml"},
					Inputs: map[string]plan.Field{
						"echo": {Value: value.OfStruct(map[string]value.Value{"n": value.OfInt(3)})},
					},
				},
				{Name: "far", Ref: &plan.Reference{
					Kind: plan.RefGit, Text: "https://example.com/p/-/steps/sub/step.yml@v1",
					URL: "https://example.com/p", Rev: "v1", Path: []string{"steps", "sub"}, File: "step.yml",
				}},
				{Name: "image", Ref: &plan.Reference{
					Kind: plan.RefOCI, Text: "r.example.com/a/b:1 dir/step.yml",
					Registry: "r.example.com", Repository: "a/b", Tag: "1", Path: []string{"dir"}, File: "step.yml",
				}},
				{Name: "chosen", Ref: &plan.Reference{Kind: plan.RefDynamic, Text: "${{ env.STEP_REF }}", Expr: textPointer("${{ env.STEP_REF }}")}},
				{Name: "fetched", Ref: &plan.Reference{
					Kind: plan.RefDynamic, Text: "${{ steps.far.outputs.dir }}/my.yml", Expr: textPointer("${{ steps.far.outputs.dir }}/my.yml"),
				}},
				{Name: "packed", Ref: &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://oci/publish", Path: []string{"oci", "publish"}}},
				{Name: "inline", Inline: &plan.Component{Definition: plan.Definition{
					Exec: &plan.Exec{Command: []plan.Field{text("make"), text("all")}, WorkDir: textPointer("src")},
				}}},
			},
			Outputs: map[string]plan.Field{"text": text("${{ steps.near.outputs.echo }}")},
		},
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestParseText(t *testing.T) {
	t.Run("C105 a step file in text form is read", func(t *testing.T) {
		got, err := stepproto.ParseText(readFile(t, "testdata/greeting.txtpb"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(greeting(), got, equal); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("C105 what is read and written means the same when it is read again", func(t *testing.T) {
		data, err := stepproto.Text(stepproto.ToProto(greeting()))
		if err != nil {
			t.Fatal(err)
		}
		again, err := stepproto.ParseText(data)
		if err != nil {
			t.Fatalf("%v in\n%s", err, data)
		}
		// A dynamic reference has its file in its text, and a file that was not named is the only one there was then.
		if diff := cmp.Diff(greeting(), again, equal); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("a bare definition is read, as it is in the text files of the existing step-runner", func(t *testing.T) {
		got, err := stepproto.ParseText([]byte(`
			# no spec
			type: steps
			steps: { name: "a" step: { protocol: local path: ".." path: "echo" filename: "step.yml" } }
			delegate: "a"`))
		if err != nil {
			t.Fatal(err)
		}
		if !got.Spec.AnyOutputs || !got.Spec.DelegateOutputs || len(got.Definition.Steps) != 1 {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("a definition that does not say its type has that of what it holds", func(t *testing.T) {
		got, err := stepproto.ParseText([]byte(`exec: { command: "true" }`))
		if err != nil || got.Definition.Exec == nil {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("an absolute path and a path with an expression in the middle", func(t *testing.T) {
		got, err := stepproto.ParseText([]byte(`
			steps: { name: "a" step: { protocol: local path: "/" path: "opt" path: "x" } }
			steps: { name: "b" step: { protocol: local path: "x" path: "${{ job.DIR }}" filename: "step.yml" } }
			steps: { name: "c" step: { protocol: local path_exp: "/opt/x" filename: "step.yml" } }`))
		if err != nil {
			t.Fatal(err)
		}
		want := []*plan.Reference{
			{Kind: plan.RefLocal, Text: "/opt/x", Path: []string{"/", "opt", "x"}},
			{Kind: plan.RefDynamic, Text: "./x/${{ job.DIR }}/step.yml", Expr: textPointer("./x/${{ job.DIR }}/step.yml")},
			{Kind: plan.RefLocal, Text: "/opt/x/step.yml", Path: []string{"/", "opt", "x"}, File: "step.yml"},
		}
		for i, step := range got.Definition.Steps {
			if diff := cmp.Diff(want[i], step.Ref, equal); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		}
	})
}

func TestParseTextRefuses(t *testing.T) {
	spec := func(s string) string {
		return "spec: { spec: { " + s + " } } definition: { exec: { command: \"true\" } }"
	}
	step := func(s string) string { return `steps: { name: "a" ` + s + ` }` }
	tests := map[string]struct{ give, want string }{
		"nothing":                        {"", "the text holds no definition"},
		"a spec alone (C03)":             {"spec: {}", "definition: missing"},
		"text that is not a message":     {"run:\n  - name: x", "line 1, column 1: unknown field: run"},
		"an unknown field, with a guess": {"definition: {\n  exec: { comand: \"a\" }\n}", `line 2, column 11: unknown field: comand; did you mean "command"?`},
		"a wrong type of field":          {`exec: { command: 1 }`, "line 1, column 18: "},
		"a brace that is not closed":     {`exec: { command: "a"`, "unexpected EOF"},
		"C09 an unknown type":            {spec(`inputs: { key: "a" value: { type: text } }`), "line 1, column "},
		"C10 no type":                    {spec(`inputs: { key: "a" value: {} }`), `spec.spec.inputs["a"]: the type is missing`},
		"the type that was removed":      {spec(`inputs: { key: "a" value: { type: 1 } }`), `spec.spec.inputs["a"]: the type raw_string no longer exists; use string`},
		"a default of another type":      {spec(`inputs: { key: "a" value: { type: number default: { string_value: "5" } } }`), `spec.spec.inputs["a"].default: it is a string, and the type is number`},
		"an empty default":               {spec(`inputs: { key: "a" value: { type: number default: {} } }`), `spec.spec.inputs["a"].default: the value is empty`},
		"a default that is not finite":   {spec(`inputs: { key: "a" value: { type: number default: { number_value: inf } } }`), "infinity and NaN"},
		"C12 a name with a space":        {spec(`outputs: { key: "a b" value: { type: string } }`), `the name "a b" must begin with`},
		"outputs declared and delegated": {spec(`outputs: { key: "a" value: { type: string } } output_method: delegate`), "declared or delegated, not both"},
		"C21 an empty command":           {`exec: {}`, "exec.command: it is empty"},
		"exec and steps":                 {`exec: { command: "a" } ` + step(`step: { protocol: dynamic url: "x" }`), "type: a definition has an exec or steps, not both"},
		"neither exec nor steps":         {`definition: {}`, "definition.type: a definition has an exec or steps, and this one has neither"},
		"a type that is not so":          {`type: steps exec: { command: "a" }`, "type: it is steps, and the definition has an exec"},
		"outputs of an exec":             {`exec: { command: "a" } outputs: { key: "a" value: { bool_value: true } }`, "outputs: an exec writes its outputs to its output file"},
		"C24 a bad step name":            {`steps: { name: "a-b" step: { protocol: dynamic url: "x" } }`, `steps[0].name: the name "a-b" must begin with`},
		"B03 two steps of one name":      {step(`step: { protocol: dynamic url: "x" }`) + step(`step: { protocol: dynamic url: "x" }`), `steps[1].name: there is another step with the name "a" before it`},
		"B14 a delegate that is missing": {step(`step: { protocol: dynamic url: "x" }`) + ` delegate: "b"`, `delegate: there is no step with the name "b"`},
		"a bad variable name":            {`exec: { command: "a" } env: { key: "A-B" value: "" }`, `env["A-B"]: the name "A-B" must begin with`},
		"no reference":                   {step(""), "steps[0].step: missing"},
		"no protocol":                    {step(`step: {}`), "steps[0].step.protocol: missing; it is one of"},
		"zip":                            {step(`step: { protocol: zip }`), "steps[0].step.protocol: zip was never implemented"},
		"a protocol from the future":     {step(`step: { protocol: 9 }`), "steps[0].step.protocol: 9 is not a protocol"},
		"local without a path":           {step(`step: { protocol: local }`), "steps[0].step.paths: a local reference has a path"},
		"C16 git without a version":      {step(`step: { protocol: git url: "https://example.com/p" }`), "steps[0].step.url: a git reference has a url and a version"},
		"git with an expression in path": {step(`step: { protocol: git url: "u" version: "v" path: "${{ job.x }}" }`), "only a local path can have expressions"},
		"C25 oci without a tag":          {step(`step: { protocol: oci registry: "r" repository: "p" }`), "an oci reference has a registry, a repository and a tag"},
		"dynamic without text":           {step(`step: { protocol: dynamic }`), "a dynamic reference has the text"},
		"a script of another type":       {step(`step: { protocol: dist path: "script" } inputs: { key: "script" value: { number_value: 1 } }`), "the script step takes one input, script, which is a string"},
		"a place for a definition":       {step(`step: { protocol: spec_def }`), "steps[0].step.specDef: a spec_def reference has a definition here"},
		"a definition in place, inputs":  {step(`step: { protocol: spec_def specDef: { definition: { exec: { command: "a" } } } } inputs: { key: "x" value: { bool_value: true } }`), "a definition in place takes no inputs"},
		"the path of what is inside":     {step(`step: { protocol: spec_def specDef: { definition: { exec: {} } } }`), "steps[0].step.specDef.definition.exec.command: it is empty"},
		"messages that nest without end": {"definition: { steps: { step: " + strings.Repeat("{ specDef: { definition: { steps: { step: ", 5000), "recursion"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := stepproto.ParseText([]byte(tt.give))
			if err == nil {
				t.Fatalf("no error, and %+v", got)
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "proto:") {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	t.Run("everything that is wrong is named, in order", func(t *testing.T) {
		_, err := stepproto.ParseText([]byte(`steps: { name: "a b" step: {} } steps: { name: "c" }`))
		if got := strings.Count(err.Error(), "\n") + 1; got != 3 {
			t.Errorf("%d errors, want 3:\n%v", got, err)
		}
	})
}

func TestToProto(t *testing.T) {
	convert := func(s plan.Step) *stepsv0.Step {
		c := &plan.Component{Definition: plan.Definition{Steps: []plan.Step{s}}}
		return stepproto.ToProto(c).GetDefinition().GetSteps()[0]
	}
	tests := map[string]struct {
		give plan.Step
		want string
	}{
		"C43 an action calls the action runner": {
			plan.Step{Name: "a", Ref: &plan.Reference{Kind: plan.RefAction, Action: "actions/x@v1"}, Inputs: map[string]plan.Field{"i": text("1")}},
			`name: "a" step: { protocol: git url: "https://gitlab.com/components/action-runner" version: "main" filename: "step.yml" }
			 inputs: { key: "action" value: { string_value: "actions/x@v1" } }
			 inputs: { key: "inputs" value: { struct_value: { fields: { key: "i" value: { string_value: "1" } } } } }`,
		},
		"C44 a script calls the script step": {
			plan.Step{Name: "a", Inline: script("exit 1")},
			`name: "a" step: { protocol: dist filename: "step.yml" paths: { parts: "script" } }
			 inputs: { key: "script" value: { string_value: "exit 1" } }`,
		},
		"a script for another shell is a command in place": {
			plan.Step{Name: "a", Inline: &plan.Component{Definition: plan.Definition{Exec: &plan.Exec{
				Script: &plan.Script{Text: text("dir"), Shell: plan.ShellPwsh}, WorkDir: textPointer("x"),
			}}}},
			`name: "a" step: { protocol: spec_def filename: "" specDef: { spec: { spec: { output_method: outputs } }
			 definition: { type: exec exec: { command: ["pwsh", "-NoLogo", "-NoProfile", "-NonInteractive", "-Command", "dir"] work_dir: "x" } } } }`,
		},
		"a reference that names no file names the only one there was": {
			plan.Step{Name: "a", Ref: &plan.Reference{Kind: plan.RefLocal, Path: []string{".", "x"}}},
			`name: "a" step: { protocol: local filename: "step.yml" paths: { parts: [".", "x"] } }`,
		},
		"values that are not text become text where only text can stand": {
			plan.Step{Name: "a", Env: map[string]plan.Field{"N": {Value: value.OfInt(3)}}},
			`name: "a" env: { key: "N" value: "3" }`,
		},
		"the steps of a parallel group stand in the list": {
			plan.Step{Name: "group", Parallel: []plan.Step{{Name: "first"}, {Name: "second"}}},
			`name: "first"`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var want stepsv0.Step
			if err := prototext.Unmarshal([]byte(tt.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, convert(tt.give), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLost(t *testing.T) {
	t.Run("what the messages can say is not lost", func(t *testing.T) {
		if lost := stepproto.Lost(greeting()); len(lost) > 0 {
			t.Errorf("lost %q", lost)
		}
	})
	t.Run("what they cannot say is named, with its place", func(t *testing.T) {
		c := &plan.Component{
			Spec: plan.Spec{
				Inputs:  map[string]plan.Input{"color": {Options: []value.Value{{}}, Match: "x"}},
				Secrets: map[string]plan.SecretRequest{"T": {}},
			},
			Definition: plan.Definition{Steps: []plan.Step{
				{Name: "build", If: textPointer("${{ false }}"), Timeout: 1, When: plan.OnSuccess},
				{Name: "group", Parallel: []plan.Step{{Name: "lint", When: plan.Always, Retry: &plan.Retry{}}}},
				{Name: "list", Inline: &plan.Component{Definition: plan.Definition{Steps: []plan.Step{{Name: "in", AllowFailure: &plan.AllowFailure{}}}}}},
			}},
		}
		want := []string{
			`spec.inputs.color: "options"`, `spec.inputs.color: "match"`, `spec: "secrets"`, `steps.build: "if"`, `steps.build: "timeout"`,
			`steps.group: "parallel"`, `steps.lint: "when"`, `steps.lint: "retry"`, `steps.list.steps.in: "allow_failure"`,
		}
		if diff := cmp.Diff(want, stepproto.Lost(c)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func FuzzParseText(f *testing.F) {
	whole, err := os.ReadFile("testdata/greeting.txtpb")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`exec: { command: "a" }`))
	f.Add([]byte(`steps: { name: "a" step: { protocol: local path: "/" } }`))
	f.Add([]byte(`steps: { name: "a" step: { protocol: local path_exp: "/" } }`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := stepproto.ParseText(data)
		if err != nil {
			return
		}
		written, err := stepproto.Text(stepproto.ToProto(c))
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := stepproto.ParseText(written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, written)
		}
		twice, err := stepproto.Text(stepproto.ToProto(again))
		if err != nil {
			t.Fatal(err)
		}
		if string(written) != string(twice) {
			t.Fatalf("written again it differs:\n%s\nthen\n%s", written, twice)
		}
	})
}
