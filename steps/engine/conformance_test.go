package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// A step that writes its `lines` to its output file.
func writer(spec string) string {
	return fmt.Sprintf(`spec:
  inputs: {lines: {type: string, default: ""}}
  outputs: %s
---
exec:
  command: [sh, -c, 'printf "%%s" "$2" >"$1"', sh, "${{ output_file }}", "${{ inputs.lines }}"]
`, spec)
}

// writeLines is a list with the one step "writer".
func writeLines(lines string) string {
	return "- name: writer\n  step: ./writer\n  inputs:\n    lines: |\n      " + strings.ReplaceAll(strings.TrimSuffix(lines, "\n"), "\n", "\n      ") + "\n"
}

func TestOutputFile(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, spec, lines string
		want              map[string]string // output, as JSON
		fails             string
	}{
		{name: "C70 no outputs", spec: "{}", lines: " "},
		{
			name: "C71 two outputs", spec: "{a: {type: string}, b: {type: string}}",
			lines: `{"name":"a","value":"1"}` + "\n" + `{"name":"b","value":"2"}`,
			want:  map[string]string{"a": `"1"`, "b": `"2"`},
		},
		{
			name: "C72 blank lines and whitespace", spec: "{a: {type: string}}",
			lines: "\n\n   {\"name\":\"a\",\"value\":\"1\"}  \n\n",
			want:  map[string]string{"a": `"1"`},
		},
		{
			name:  "C73 every type",
			spec:  "{s: {type: string}, n: {type: number}, b: {type: boolean}, e: {type: struct}, f: {type: struct}, x: {type: array}, y: {type: array}}",
			lines: `{"name":"s","value":"text"}` + "\n" + `{"name":"n","value":12.5}` + "\n" + `{"name":"b","value":true}` + "\n" + `{"name":"e","value":{}}` + "\n" + `{"name":"f","value":{"k":null}}` + "\n" + `{"name":"x","value":[]}` + "\n" + `{"name":"y","value":[1,null,"z"]}`,
			want:  map[string]string{"s": `"text"`, "n": "12.5", "b": "true", "e": "{}", "f": `{"k":null}`, "x": "[]", "y": `[1,null,"z"]`},
		},
		{
			name: "C74 a default fills in", spec: "{a: {type: string, default: later}}", lines: " ",
			want: map[string]string{"a": `"later"`},
		},
		{
			name: "C75 names and values are kept as they are", spec: "{}", lines: "",
		},
		{name: "C76 a line that is not JSON", spec: "{}", lines: "hello", fails: "line 1"},
		{name: "C76 the old key=value form", spec: "{}", lines: `key="v"`, fails: "line 1"},
		{name: "C76 a command of GitHub's", spec: "{}", lines: `::set-output name=a::b`, fails: "line 1"},
		{name: "C76 garbage at line 3", spec: "{a: {type: string}}", lines: `{"name":"a","value":"1"}` + "\n\nnope", fails: "line 3"},
		{name: "C77 a missing required output", spec: "{a: {type: string}}", lines: " ", fails: `key "a": missing output`},
		{name: "C78 an output too many", spec: "{}", lines: `{"name":"a","value":"1"}`, fails: `key "a": unexpected output`},
		{
			name: "C79 the wrong type", spec: "{a: {type: number}}", lines: `{"name":"a","value":"1"}`,
			fails: `key "a": mismatched types, declared as "number" in step specification and received from step as type "string"`,
		},
		{name: "C80 no name", spec: "{}", lines: `{"value":"1"}`, fails: `"name" field is missing`},
		{name: "C80 a null name", spec: "{}", lines: `{"name":null,"value":"1"}`, fails: `"name" field value is null`},
		{name: "C80 an empty name", spec: "{}", lines: `{"name":"","value":"1"}`, fails: `"name" field value is empty`},
		{name: "C81 no value", spec: "{}", lines: `{"name":"a"}`, fails: `"value" field is missing`},
		{name: "C81 a null value", spec: "{}", lines: `{"name":"a","value":null}`, fails: `"value" field value is null`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: writeLines(c.lines), files: map[string]string{"writer/step.yml": writer(c.spec)}}.run(t)
			if c.fails != "" {
				r.fails(event.ErrorStep, "read output file: ", c.fails)
				return
			}
			r.succeeds()
			got := r.finished("writer").Outputs
			if len(got) != len(c.want) {
				t.Errorf("outputs %v, want %v", got, c.want)
			}
			for name, want := range c.want {
				if text := outputOf(t, got, name); text != want {
					t.Errorf("output %s is %s, want %s", name, text, want)
				}
			}
		})
	}
	t.Run("C75 spaces, escapes, unicode and expression text come through a script as they are", func(t *testing.T) {
		t.Parallel()
		r := job{steps: `
- name: any
  script: |
    cat >>${{ output_file }} <<'EOF'
    {"name":" näme \u00e9 ","value":"  two\nlines\tand \${{ job.id }} \u2603 "}
    EOF
- name: next
  script: printf '%s' "${{ steps.any.outputs[" näme é "] }}"
`}.run(t).succeeds()
		r.logs("  two\nlines\tand ${{ job.id }} ☃ ")
	})
}

func TestExportFile(t *testing.T) {
	t.Parallel()
	export := func(value string) string {
		return "- name: give\n  script: |\n    echo '{\"name\":\"FOO\",\"value\":" + value + "}' >>${{ export_file }}\n- name: take\n  script: printf '%s' \"$FOO\"\n"
	}
	for value, want := range map[string]string{`"text"`: "text", "56.99": "56.99", "false": "false", `""`: "", "9007199254740993": "9007199254740993"} {
		t.Run("C82 exports "+value, func(t *testing.T) {
			t.Parallel()
			job{steps: export(value)}.run(t).succeeds().logs(want)
		})
	}
	for value, kind := range map[string]string{"[1]": "array", `{"a":1}`: "struct"} {
		t.Run("C83 an export cannot be a "+kind, func(t *testing.T) {
			t.Parallel()
			job{steps: export(value)}.run(t).fails(event.ErrorStep, "read env file: ", fmt.Sprintf("cannot convert value type %q to string", kind))
		})
	}
	t.Run("C84 an exported variable is in later expressions and processes", func(t *testing.T) {
		t.Parallel()
		job{steps: export(`"bar"`) + "- name: expression\n  script: printf ' %s' \"${{ env.FOO }}\"\n"}.run(t).succeeds().logs("bar bar")
	})
	t.Run("C85 an exported variable names a step", func(t *testing.T) {
		t.Parallel()
		job{
			steps: `
- name: choose
  script: |
    echo '{"name":"STEP_REF","value":"./chosen"}' >>${{ export_file }}
- name: dynamic
  step: ${{ env.STEP_REF }}
`,
			files: map[string]string{"chosen/step.yml": "spec: {}\n---\nexec: {command: [echo, chosen]}\n"},
		}.run(t).succeeds().logs("chosen\n")
	})
}

const greetFromEnv = `spec:
  env: {NAME: {optional: true}}
  outputs: {name: {type: string}}
---
exec:
  command: [sh, -c, 'echo "{\"name\":\"name\",\"value\":\"$NAME\"}" >"$1"', sh, "${{ output_file }}"]
`

func TestEnvironment(t *testing.T) {
	t.Parallel()
	global := func(name, text string) engine.Options { return engine.Options{Env: map[string]string{name: text}} }
	cases := []struct {
		name, steps, want string
		opts              engine.Options
	}{
		{
			name: "C86 a list's environment is expanded from the run's", opts: global("WHERE", "global"), want: "from-global",
			steps: "env: {NAME: 'from-${{ env.WHERE }}'}\nrun: [{name: greet, step: ./greet}]",
		},
		{
			name: "C87 a step's environment is expanded", opts: global("WHERE", "global"), want: "from-global",
			steps: "run: [{name: greet, step: ./greet, env: {NAME: 'from-${{ env.WHERE }}'}}]",
		},
		{
			name: "C88 from the run to the list to the step", opts: global("WHERE", "global"), want: "from-global-then-run-then-invocation",
			steps: "env: {WHERE: '${{ env.WHERE }}-then-run'}\nrun: [{name: greet, step: ./greet, env: {NAME: 'from-${{ env.WHERE }}-then-invocation'}}]",
		},
		{
			name: "C89 the list's environment beats the run's", opts: global("NAME", "from-global"), want: "from-run",
			steps: "env: {NAME: from-run}\nrun: [{name: greet, step: ./greet}]",
		},
		{
			name: "C90 the step's environment beats the list's and the run's", opts: global("NAME", "from-global"), want: "from-invocation",
			steps: "env: {NAME: from-run}\nrun: [{name: greet, step: ./greet, env: {NAME: from-invocation}}]",
		},
		{
			name: "C90 the step's environment beats the run's", opts: global("NAME", "from-global"), want: "from-invocation",
			steps: "run: [{name: greet, step: ./greet, env: {NAME: from-invocation}}]",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := job{steps: c.steps, opts: c.opts, files: map[string]string{"greet/step.yml": greetFromEnv}}.run(t).succeeds()
			if got := outputOf(t, r.finished("greet").Outputs, "name"); got != `"`+c.want+`"` {
				t.Errorf("the step saw NAME=%s, want %s", got, c.want)
			}
		})
	}
	t.Run("not C91 a step's own environment is visible in its inputs", func(t *testing.T) {
		t.Parallel()
		job{
			steps: `[{step: ./hello, inputs: {greeting: "hello ${{ env.name }}"}, env: {name: world}}]`,
			files: map[string]string{"hello/step.yml": "spec: {inputs: {greeting: {type: string}}}\n---\nexec: {command: [echo, '${{ inputs.greeting }}']}\n"},
		}.run(t).succeeds().logs("hello world\n")
	})
	t.Run("C92 of the host's environment only the base names reach a step", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- script: env",
			opts:  engine.Options{HostEnv: []string{"LANG=C.UTF-8", "https_proxy=http://proxy:3128", "CANARY=tweet", "CI_JOB_TOKEN=canary-token", "HOME=/home/canary"}},
		}.run(t).succeeds()
		for _, want := range []string{"LANG=C.UTF-8\n", "https_proxy=http://proxy:3128\n", "PATH="} {
			if !strings.Contains(r.log(), want) {
				t.Errorf("the step was not given %q", want)
			}
		}
		for _, canary := range []string{"CANARY", "tweet", "canary-token", "/home/canary"} {
			if strings.Contains(r.log(), canary) {
				t.Errorf("the step was given %q", canary)
			}
		}
	})
}

func TestOutputsAndScope(t *testing.T) {
	t.Parallel()
	give := map[string]string{
		"give/step.yml":      "spec: {inputs: {v: {type: string, default: given}}, outputs: {o: {type: string}}}\n---\nexec:\n  command: [sh, -c, 'echo \"{\\\"name\\\":\\\"o\\\",\\\"value\\\":\\\"$2\\\"}\" >\"$1\"', sh, '${{ output_file }}', '${{ inputs.v }}']\n",
		"composite/step.yml": "spec: {outputs: {o: {type: string}}}\n---\nrun:\n  - {name: inner, step: ../give}\noutputs: {o: 'composed ${{ steps.inner.outputs.o }}'}\n",
		"constant/step.yml":  "spec: {outputs: {o: {type: string}}}\n---\nrun: [{name: inner, script: 'true'}]\noutputs: {o: constant}\n",
		"fromenv/step.yml":   "spec: {outputs: {o: {type: string}}}\n---\nenv: {WHO: me}\nrun: [{name: inner, script: 'true'}]\noutputs: {o: 'by ${{ env.WHO }}'}\n",
		"delegate/step.yml":  "spec: {outputs: delegate}\n---\nrun: [{name: inner, step: ../give}]\ndelegate: inner\n",
		"delegate2/step.yml": "spec: {outputs: delegate}\n---\nrun: [{name: inner, step: ../composite}]\ndelegate: inner\n",
		"result/step.yml":    "spec: {outputs: delegate}\n---\nexec:\n  command: [sh, -c, 'echo \"{\\\"status\\\":\\\"success\\\",\\\"outputs\\\":{\\\"o\\\":\\\"by result\\\",\\\"n\\\":3}}\" >\"$1\"', sh, '${{ output_file }}']\n",
	}
	for _, c := range []struct{ name, step, want string }{
		{"C94 a sibling's output", "./give", "given"},
		{"C95 a composite's output", "./composite", "composed given"},
		{"C97 a list with a constant output", "./constant", "constant"},
		{"C98 outputs are expanded from the environment", "./fromenv", "by me"},
		{"C99 a list delegates to an exec", "./delegate", "given"},
		{"C100 a list delegates to a composite", "./delegate2", "composed given"},
		{"C101 an exec delegates with a StepResult", "./result", "by result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			job{steps: "- {name: one, step: " + c.step + "}\n- {name: two, script: 'printf %s \"${{ steps.one.outputs.o }}\"'}\n", files: give}.run(t).succeeds().logs(c.want)
		})
	}
	t.Run("C96 a grandchild's output cannot be reached", func(t *testing.T) {
		t.Parallel()
		job{steps: "- {name: one, step: ./composite}\n- {name: two, script: 'echo ${{ steps.inner.outputs.o }}'}\n", files: give}.run(t).
			fails(event.ErrorDefinition, `step "two"`, "inner", "was not found")
	})
	t.Run("B05 the outputs of a list are checked against its spec", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"seq/step.yml": "spec: {outputs: {n: {type: number}, d: {type: string, default: filled}}}\n---\nrun: [{name: inner, script: 'true'}]\noutputs: {n: '${{ env.N }}'}\n"}
		job{steps: "- {name: seq, step: ./seq, env: {N: three}}\n", files: files}.run(t).fails(event.ErrorDefinition, `key "n": mismatched types`)
		files["seq/step.yml"] = strings.Replace(files["seq/step.yml"], "env.N", "num(env.N)", 1)
		r := job{steps: "- {name: seq, step: ./seq, env: {N: '3'}}\n", files: files}.run(t).succeeds()
		if got := outputOf(t, r.finished("seq").Outputs, "d"); got != `"filled"` {
			t.Errorf("the default of a list's output is %s", got)
		}
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	t.Run("C103 a failing script", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: bang, script: exit 1}\n"}.run(t).fails(event.ErrorStep, `step "bang": exec: exit status 1`)
		f := r.finished("bang")
		if r.Status != event.Failure || f.Status != event.Failure || f.ExitCode == nil || *f.ExitCode != 1 || *r.ExitCode != 1 {
			t.Errorf("run %s, step %+v", r.Status, f)
		}
	})
	t.Run("C106 greet, crew, greet", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{
			"greeting/step.yml": `spec:
  inputs:
    name: {type: string, default: steppy}
    age: {type: number, default: 1}
    hungry: {type: boolean, default: false}
    favorites: {type: struct, default: {color: red}}
  outputs: {name: {type: string}}
---
exec:
  command:
    - sh
    - -c
    - |
      echo "meet ${{inputs.name}} who is ${{inputs.age}} likes ${{inputs.favorites}} and is hungry ${{inputs.hungry}}"
      printf '{"name":"name","value":"%s"}\n' "${{inputs.name}}" >>${{output_file}}
`,
			"crew/step.yml": `spec:
  outputs:
    crew_name_1: {type: string, default: nobody}
    crew_name_2: {type: string, default: nobody}
---
run:
  - name: greet_sponge_bob
    step: ../greeting
    inputs: {name: sponge bob, age: 5, favorites: {pants: square}}
  - name: greet_patrick_star
    step: ../greeting
    inputs: {name: patrick star, age: 7, hungry: true}
outputs:
  crew_name_1: ${{steps.greet_sponge_bob.outputs.name}}
  crew_name_2: ${{steps.greet_patrick_star.outputs.name}}
`,
		}
		r := job{files: files, steps: `
- name: greet_steppy
  step: ./greeting
  inputs: {hungry: true, favorites: {foods: [hamburger]}}
- name: crew
  step: ./crew
- name: greet_joe
  step: ./greeting
  inputs:
    name: joe
    age: 42
    favorites: {characters: ["${{steps.crew.outputs.crew_name_1}}", "${{steps.crew.outputs.crew_name_2}}"]}
`}.run(t).succeeds()
		r.logs(`meet steppy who is 1 likes {"foods":["hamburger"]} and is hungry true
meet sponge bob who is 5 likes {"pants":"square"} and is hungry false
meet patrick star who is 7 likes {"color":"red"} and is hungry true
meet joe who is 42 likes {"characters":["sponge bob","patrick star"]} and is hungry false
`)
		var names []string
		for _, s := range bodies[event.StepStarted](r) {
			names = append(names, s.Name)
		}
		if got := strings.Join(names, " "); got != "greet_steppy crew greet_sponge_bob greet_patrick_star greet_joe" {
			t.Errorf("the steps started as %s", got)
		}
	})
}

// Source: the existing step-runner's fixture "greeting", whose program finds its files by variables.
func TestADefinitionsEnvironmentNamesTheFilesOfItsProcess(t *testing.T) {
	t.Parallel()
	r := job{
		steps: "- {name: one, step: ./one}\n- {name: two, script: 'echo \"mode $MODE\"'}\n",
		files: map[string]string{"one/step.yml": `spec: {outputs: {name: {type: string}}, exports: [MODE]}
---
env: {OUT: "${{ output_file }}", EXPORT: "${{ export_file }}", IN: "${{ input_file }}"}
exec: {command: [sh, -c, 'echo "{\"name\":\"name\",\"value\":\"$(cat "$IN")\"}" >"$OUT"; echo "{\"name\":\"MODE\",\"value\":\"on\"}" >"$EXPORT"']}
`},
	}.run(t)
	r.succeeds()
	if got := outputOf(t, r.finished("one").Outputs, "name"); got != `"{}"` {
		t.Errorf("the output is %s", got)
	}
}
