package workflow_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/actions/workflow"
)

const jobs = "jobs: {a: {runs-on: x, steps: [{run: x}]}}\n"

func TestMistakesOfAWorkflow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no text":                         {"", []string{"one document, not 0"}},
		"a list":                          {"§- a\n", []string{"a workflow must be a map, not a list"}},
		"an unknown key":                  {"on: push\n§jbos: {}\n" + jobs, []string{`unknown key "jbos"`}},
		"nothing starts it":               {"§" + jobs, []string{"the workflow has no `on`"}},
		"on became true":                  {"§true: push\n" + jobs, []string{"has `true:` where `on:` belongs"}},
		"no jobs":                         {"§on: push\n", []string{"the workflow has no jobs"}},
		"jobs without a job":              {"on: push\njobs: §{}\n", []string{"the workflow has no jobs"}},
		"a name that is a list":           {"on: push\nname: §[a]\n" + jobs, []string{"the name must be a string, not a list"}},
		"a run name with the job":         {"on: push\nrun-name: a ${{ §needs.x }}\n" + jobs, []string{"needs"}},
		"merge keys":                      {"on: push\nenv: &e {A: b}\njobs: {a: {runs-on: x, env: §{<<: *e}, steps: [{run: x}]}}\n", []string{"no merge keys"}},
		"an unknown cache mode":           {"on: push\ncache-mode: §reed\n" + jobs, []string{"not a cache mode"}},
		"a concurrency without group":     {"on: push\nconcurrency: §{cancel-in-progress: true}\n" + jobs, []string{"no group"}},
		"a queue that cancels":            {"on: push\nconcurrency: {group: g, cancel-in-progress: true, queue: §max}\n" + jobs, []string{"exclude each other"}},
		"a strange queue":                 {"on: push\nconcurrency: {group: g, queue: §many}\n" + jobs, []string{"not a queue"}},
		"an empty group":                  {"on: push\nconcurrency: §''\n" + jobs, []string{"the concurrency group is empty"}},
		"jobs in the workflow's env":      {"on: push\nenv: {A: '${{ §matrix.x }}'}\n" + jobs, []string{"matrix"}},
		"env that is a list":              {"on: push\nenv: §[A]\n" + jobs, []string{`"env" must be a map`}},
		"a variable with =":               {"on: push\nenv: {§A=B: c}\n" + jobs, []string{"cannot be the name of a variable"}},
		"defaults of other steps":         {"on: push\ndefaults: {§uses: {}}\n" + jobs, []string{`unknown key "uses"`}},
		"expressions in defaults":         {"on: push\ndefaults: {run: {shell: '${{ §github.x }}'}}\n" + jobs, []string{"github"}},
		"permissions for nothing":         {"on: push\npermissions: {§content: read}\n" + jobs, []string{`unknown key "content"`}},
		"a permission too far":            {"on: push\npermissions: {models: §write, id-token: §read, contents: §admin}\n" + jobs, []string{`"models" can be read or none`, `"id-token" can be write or none`, `"contents" can be write, read or none`}},
		"permissions for all that are no": {"on: push\npermissions: §all\n" + jobs, []string{"not a permission for all scopes"}},
	} {
		t.Run(name, func(t *testing.T) { mistakes(t, c.text, c.want) })
	}
}

func TestMistakesOfAJob(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys string
		want []string
	}{
		"an unknown key":                  {"§neds: b", []string{`unknown key "neds"`}},
		"needs that do not exist":         {"needs: §b", []string{`the job "a" needs "b", which does not exist`}},
		"needs in a list":                 {"needs: [§b, §c]", []string{`needs "b"`, `needs "c"`}},
		"needs itself":                    {"needs: §a", []string{`the job "a" needs itself`}},
		"secrets in if":                   {"if: §secrets.X", []string{"secrets"}},
		"steps in if":                     {"if: ${{ §steps.x.outcome }}", []string{"steps"}},
		"hashFiles in if":                 {"if: §hashFiles('x')", []string{"hashFiles"}},
		"an expression that is none":      {"if: a ==§", []string{"ends too early"}},
		"a matrix that is a list":         {"strategy: {matrix: §[a]}", []string{"a matrix must be a map"}},
		"a vector that is a string":       {"strategy: {matrix: {os: §linux}}", []string{`"os" in the matrix must be a list`}},
		"a vector without values":         {"strategy: {matrix: {os: §[]}}", []string{`"os" in the matrix has no values`}},
		"an empty matrix":                 {"strategy: {matrix: §{}}", []string{"the matrix has no values"}},
		"only exclude":                    {"strategy: {matrix: §{exclude: [{a: b}]}}", []string{"the matrix has no values"}},
		"exclude of another name":         {"strategy: {matrix: {os: [a], exclude: [{§so: a}]}}", []string{`"so" is excluded, but is not a name`}},
		"include of a string":             {"strategy: {matrix: {include: [§a]}}", []string{"must be a map"}},
		"a computed matrix with a string": {"strategy: {matrix: {a: ['${{ github.x }}'], b: §c}}", []string{`"b" in a matrix must be a list`}},
		"fail-fast by chance":             {"strategy: {fail-fast: §maybe}", []string{"must be true or false"}},
		"max-parallel below 1":            {"strategy: {max-parallel: §0}", []string{"above 0"}},
		"a matrix in its own strategy":    {"strategy: {matrix: {a: ['${{ §matrix.b }}']}}", []string{"matrix"}},
		"a timeout of a word":             {"timeout-minutes: §long", []string{"number of minutes"}},
		"a timeout of nothing":            {"timeout-minutes: §0", []string{"number of minutes"}},
		"a container without image":       {"container: §{options: x}", []string{"has no image"}},
		"a container with a command":      {"container: {image: x, §command: y}", []string{`unknown key "command"`}},
		"ports that are no list":          {"container: {image: x, ports: §80}", []string{"must be a list"}},
		"secrets in an image":             {"container: '${{ §secrets.X }}'", []string{"secrets"}},
		"credentials of a third kind":     {"container: {image: x, credentials: {§token: y}}", []string{`unknown key "token"`}},
		"a service with a strange name":   {"services: {§1a: x}", []string{"cannot be the name of a service"}},
		"a service without image":         {"services: {a: §{ports: [80]}}", []string{"has no image"}},
		"an environment without name":     {"environment: §{url: x}", []string{"has no name"}},
		"an environment with a port":      {"environment: {name: x, §port: 1}", []string{`unknown key "port"`}},
		"secrets in an address":           {"environment: {name: x, url: '${{ §secrets.X }}'}", []string{"secrets"}},
		"an output with a strange name":   {"outputs: {§a b: c}", []string{"cannot be the name of an output"}},
		"steps in env":                    {"env: {A: '${{ §steps.x.outputs.y }}'}", []string{"steps"}},
		"computed names of variables":     {"env: {§'${{ github.x }}': y}", []string{"cannot be the name of a variable"}},
		"a snapshot of a wrong version":   {"snapshot: {image-name: x, version: §1.2}", []string{"the version of a snapshot"}},
		"with without a call":             {"§with: {}", []string{`unknown key "with"`}},
		"continue-on-error by chance":     {"continue-on-error: §perhaps", []string{"must be true or false"}},
		"defaults with a step":            {"defaults: {run: {§run: x}}", []string{`unknown key "run"`}},
	} {
		t.Run(name, func(t *testing.T) { mistakes(t, withJob(c.keys+"\n"), c.want) })
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"no machine":               {"on: push\njobs:\n  §a: {steps: [{run: x}]}\n", []string{"has no runs-on"}},
		"an empty machine":         {"on: push\njobs:\n  a: {runs-on: §[], steps: [{run: x}]}\n", []string{"runs on nothing"}},
		"a machine of a map":       {"on: push\njobs:\n  a: {runs-on: {§label: x}, steps: [{run: x}]}\n", []string{`unknown key "label"`}},
		"nothing to do":            {"on: push\njobs:\n  §a: {runs-on: x}\n", []string{"has nothing to do"}},
		"no steps":                 {"on: push\njobs:\n  a: {runs-on: x, steps: §[]}\n", []string{"at least one step"}},
		"a step of nothing":        {"on: push\njobs:\n  a: {runs-on: x, steps: [§{name: x}]}\n", []string{"nothing to do"}},
		"two steps with one id":    {"on: push\njobs:\n  a: {runs-on: x, steps: [{id: b, run: x}, {id: §B, run: x}]}\n", []string{"already taken"}},
		"an id like GitHub's":      {"on: push\njobs:\n  §__a: {runs-on: x, steps: [{run: x}]}\n", []string{"cannot be the id of a job"}},
		"an id with a digit first": {"on: push\njobs:\n  §1: {runs-on: x, steps: [{run: x}]}\n", []string{"cannot be the id of a job"}},
		"ids that differ by case":  {"on: push\njobs:\n  a: {runs-on: x, steps: [{run: x}]}\n  §A: {runs-on: x, steps: [{run: x}]}\n", []string{"is defined twice"}},
		"a job that is a string":   {"on: push\njobs:\n  a: §x\n", []string{"the job a must be a map"}},
		"a cycle":                  {"on: push\njobs:\n  §a: {needs: b, runs-on: x, steps: [{run: x}]}\n  b: {needs: [c], runs-on: x, steps: [{run: x}]}\n  c: {needs: a, runs-on: x, steps: [{run: x}]}\n", []string{"a needs b needs c needs a"}},
		"the same need twice":      {"on: push\njobs:\n  a: {needs: [b, §B], runs-on: x, steps: [{run: x}]}\n  b: {runs-on: x, steps: [{run: x}]}\n", []string{`needs "B" twice`}},
	} {
		t.Run(name, func(t *testing.T) { mistakes(t, c.text, c.want) })
	}
}

func TestMistakesOfACall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys string
		want []string
	}{
		"an action":                {"uses: §actions/checkout@v6", []string{"is not a reference to a workflow"}},
		"no ref":                   {"uses: §o/r/.github/workflows/a.yml", []string{"is not a reference to a workflow"}},
		"a local one with a ref":   {"uses: §./.github/workflows/a.yml@v1", []string{"without @"}},
		"another folder":           {"uses: §./workflows/a.yml", []string{"right in .github/workflows"}},
		"a folder below":           {"uses: §./.github/workflows/x/a.yml", []string{"right in .github/workflows"}},
		"out of the repository":    {"uses: §./.github/workflows/../../a.yml", []string{"right in .github/workflows"}},
		"another kind of file":     {"uses: §./.github/workflows/a.txt", []string{"right in .github/workflows"}},
		"a computed one":           {"uses: §'./.github/workflows/${{ github.x }}.yml'", []string{"cannot be computed"}},
		"steps besides":            {"uses: ./.github/workflows/a.yml\n§steps: []", []string{`cannot have "steps"`}},
		"a machine besides":        {"uses: ./.github/workflows/a.yml\n§runs-on: x", []string{`cannot have "runs-on"`}},
		"secrets of a word":        {"uses: ./.github/workflows/a.yml\nsecrets: §all", []string{"a map or inherit"}},
		"secrets in with":          {"uses: ./.github/workflows/a.yml\nwith: {a: '${{ §secrets.X }}'}", []string{"secrets"}},
		"a list in with":           {"uses: ./.github/workflows/a.yml\nwith: {a: §[1]}", []string{"must be a string, a number or a boolean"}},
		"an unknown key":           {"uses: ./.github/workflows/a.yml\n§wiht: {}", []string{`unknown key "wiht"`}},
		"steps in the secrets map": {"uses: ./.github/workflows/a.yml\nsecrets: {A: '${{ §steps.x }}'}", []string{"steps"}},
	} {
		t.Run(name, func(t *testing.T) {
			mistakes(t, "on: push\njobs:\n  a:\n"+indent(c.keys+"\n", "    "), c.want)
		})
	}
	for text, want := range map[string]workflow.Call{
		"./.github/workflows/a.yml":          {Local: true, Path: ".github/workflows/a.yml"},
		"$/.github/workflows/a.yaml":         {Local: true, Path: ".github/workflows/a.yaml"},
		"o/r/.github/workflows/a.yml@v1.2/3": {Repository: "o/r", Ref: "v1.2/3", Path: ".github/workflows/a.yml"},
	} {
		got := *parse(t, "on: push\njobs: {a: {uses: '"+text+"', secrets: inherit}}\n").Jobs[0].Call
		want.Uses, want.Inherit, want.Span = text, true, got.Span
		if got != want {
			t.Errorf("%s is %+v, want %+v", text, got, want)
		}
	}
}

func TestHostileWorkflows(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'j'; c++ {
		bomb += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1)
	}
	numbers := func(n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat("1, ", n), ", ") + "]"
	}
	steps := "[" + strings.Repeat("{run: x}, ", workflow.MaxSteps+1) + "]"
	for name, c := range map[string]struct{ text, want string }{
		"a YAML bomb":              {bomb, "which is the limit"},
		"deep nesting":             {"on: " + strings.Repeat("[", 200) + strings.Repeat("]", 200), "nest deeper"},
		"a long expression":        {withJob("if: " + strings.Repeat("a", 100_000) + "\n"), ""},
		"deep parentheses":         {withJob("if: " + strings.Repeat("!", 100_000) + "1\n"), ""},
		"257 legs":                 {withJob("strategy: {matrix: {a: " + numbers(257) + "}}\n"), "makes 257 jobs, and 256 is the most"},
		"65,536 legs":              {withJob("strategy: {matrix: {a: " + numbers(256) + ", b: " + numbers(256) + "}}\n"), "combinations"},
		"more than a megabyte":     {"on: push\n#" + strings.Repeat("x", workflow.MaxSize), "longer than 1 MiB"},
		"more steps than are seen": {"on: push\njobs: {a: {runs-on: x, steps: " + steps + "}}", "steps, and 1000 is the most"},
		"a long pattern":           {"on: {push: {branches: ['" + strings.Repeat("[a-z]", 2000) + "']}}\n" + jobs, "longer than"},
		"repeats of repeats":       {"on: {push: {branches: ['a++']}}\n" + jobs, "repeats the character before it"},
	} {
		_, err := workflow.Parse("ci.yml", []byte(c.text))
		if list := diag.Of(err); len(list) == 0 || !strings.Contains(list.Error(), c.want) {
			t.Errorf("%s: %.300s, want %q", name, list.Error(), c.want)
		}
	}
	if _, err := workflow.Parse("ci.yml", []byte(withJob("strategy: {matrix: {a: "+numbers(256)+"}}\n"))); err != nil {
		t.Errorf("256 legs: %v", err)
	}
}

func TestNotesTellWhatIsNotDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"a snapshot":              {withJob("snapshot: image\n"), "snapshot is ignored"},
		"time for a cancel":       {withJob("cancel-timeout-minutes: 5\n"), "cancel-timeout-minutes is ignored"},
		"a job it needs not":      {withJob("env: {A: '${{ needs.b.result }}'}\n"), `the job "a" does not need "b"`},
		"an output not there":     {"on: push\njobs:\n  b: {runs-on: x, steps: [{run: x}]}\n  a: {needs: b, runs-on: x, if: needs.b.outputs.o, steps: [{run: x}]}\n", `"b" has no output "o"`},
		"text around a job's if":  {withJob("if: a${{ true }}\n"), "always holds"},
		"text around a step's if": {"on: push\njobs: {a: {runs-on: x, steps: [{run: x, if: '(${{ success() }})'}]}}\n", "always holds"},
		"the file of variables":   {"on: push\njobs: {a: {runs-on: x, steps: [{run: 'echo A=b >> ${{ github.env }}'}]}}\n", "github.env is known to processes only"},
		"a type of no input":      {"on: {workflow_dispatch: {inputs: {a: {type: int}}}}\n" + jobs, "GitHub treats it as a string"},
		"nothing to note":         {withJob("name: x\n"), ""},
		"an output that there":    {"on: push\njobs:\n  b: {runs-on: x, outputs: {O: x}, steps: [{run: x}]}\n  a: {needs: b, runs-on: x, if: needs.b.outputs.o, steps: [{run: 'echo ${{ needs.*.result }}'}]}\n", ""},
	} {
		notes := parse(t, c.text).Notes
		if c.want == "" && len(notes) > 0 || c.want != "" && !strings.Contains(notes.Error(), c.want) {
			t.Errorf("%s: %s, want %q", name, notes.Error(), c.want)
		}
	}
}
