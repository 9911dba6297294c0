package config_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/value"
)

// resolve resolves a text with files that it may include.
func resolve(t testing.TB, text string, loader files) (*config.Config, error) {
	t.Helper()
	return config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(text), facts(loader))
}

// wantError fails the test unless one of the diagnostics holds the text.
func wantError(t *testing.T, err error, want string) diag.Diagnostic {
	t.Helper()
	for _, d := range diag.Of(err) {
		if strings.Contains(d.Error(), want) {
			return d
		}
	}
	t.Fatalf("no error says %q:\n%v", want, err)
	return diag.Diagnostic{}
}

// chain is n files, each of which includes the next one.
func chain(n int) files {
	loader := files{}
	for i := 1; i < n; i++ {
		loader[fmt.Sprintf("%d.yml", i)] = fmt.Sprintf("include: %d.yml\nvariables: {V%d: x}\n", i+1, i)
	}
	loader[fmt.Sprintf("%d.yml", n)] = "job: {script: x}\n"
	return loader
}

func TestIncludesMayNestAsDeepAsThereMayBeFiles(t *testing.T) {
	c, err := resolve(t, "include: 1.yml", chain(config.MaxIncludes))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(c.Sources); got != config.MaxIncludes+1 {
		t.Errorf("%d files were read", got)
	}
	want := "150.yml:1, included at 149.yml:1, included at 148.yml:1, included at 147.yml:1, included at 146.yml:1, … 144 more …, included at 1.yml:1, included at .gitlab-ci.yml:1"
	if got := c.Job("job").Key.History(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}

	_, err = resolve(t, "include: 1.yml", chain(config.MaxIncludes+1))
	wantError(t, err, "150.yml:1:10: more than 150 files are included, which is the limit (included at 149.yml:1, ")
	if n := len(diag.Of(err)); n != 1 {
		t.Errorf("one mistake gives %d errors:\n%v", n, err)
	}
}

func TestIncludedFilesAreCountedAsOftenAsTheyAreIncluded(t *testing.T) {
	text := "include:\n" + strings.Repeat("  - a.yml\n", config.MaxIncludes+1)
	_, err := resolve(t, text, files{"a.yml": "a: {script: x}"})
	wantError(t, err, ".gitlab-ci.yml:152:5: more than 150 files")
}

func TestAFileThatIsTooLarge(t *testing.T) {
	_, err := resolve(t, "include: a.yml\nb: {script: x}", files{"a.yml": "# " + strings.Repeat("x", config.MaxFileSize)})
	wantError(t, err, ".gitlab-ci.yml:1:10: a.yml has 16777218 bytes")
}

func TestExtendsOfElevenLevels(t *testing.T) {
	text := "l0: {script: x}\n"
	for i := 1; i <= config.MaxExtendsDepth; i++ {
		text += fmt.Sprintf("l%d: {extends: l%d}\n", i, i-1)
	}
	if _, err := resolve(t, text, nil); err != nil {
		t.Error(err)
	}
	_, err := resolve(t, text+"l12: {extends: l11}\nl13: {extends: l12}\n", nil)
	wantError(t, err, `"l12" extends more than 11 levels`)
	if n := len(diag.Of(err)); n != 1 {
		t.Errorf("one mistake gives %d errors:\n%v", n, err)
	}
}

func TestChainsOfManyThousands(t *testing.T) {
	const n = 50_000
	var extends, references strings.Builder
	for i := range n {
		fmt.Fprintf(&extends, "j%d: {extends: j%d}\n", i, i+1)
		fmt.Fprintf(&references, ".j%d: !reference [.j%d]\n", i, i+1)
	}
	fmt.Fprintf(&extends, "j%d: {script: x}\n", n)
	fmt.Fprintf(&references, ".j%d: {script: x}\n", n)
	_, err := resolve(t, extends.String(), nil)
	wantError(t, err, "jobs extend each other in a chain")
	_, err = resolve(t, references.String(), nil)
	wantError(t, err, "lead to each other in a chain")
}

func TestBombs(t *testing.T) {
	var references strings.Builder
	references.WriteString("job: {script: x}\n.b0: {script: [x]}\n")
	for i := 1; i < config.MaxReferenceDepth; i++ {
		fmt.Fprintf(&references, ".b%d:\n  script:\n", i)
		references.WriteString(strings.Repeat(fmt.Sprintf("    - !reference [.b%d, script]\n", i-1), 9))
	}
	lists := files{"a.yml": "spec: {inputs: {n: , list: {type: array}}}\n---\ninclude:\n  - local: a.yml\n    inputs:\n      n: $[[ inputs.n ]]x\n      list: [" +
		strings.Repeat("$[[ inputs.list ]],", 9) + "]\n"}
	deep := files{"a.yml": "spec: {inputs: {n: , list: {type: array}}}\n---\ninclude:\n  - local: a.yml\n    inputs:\n      n: $[[ inputs.n ]]x\n      list: [$[[ inputs.list ]]]\n"}
	texts := files{"a.yml": "spec: {inputs: {n: }}\n---\ninclude:\n  - local: a.yml\n    inputs:\n      n: " + strings.Repeat("$[[ inputs.n ]]", 9) + "\n"}
	var text strings.Builder
	text.WriteString("spec: {inputs: {a: {default: " + strings.Repeat("x", 1<<19) + "}}}\n---\nvariables:\n")
	for i := range 300 {
		fmt.Fprintf(&text, "  V%d: $[[ inputs.a ]].\n", i)
	}
	for _, tt := range []struct {
		name, text, want string
		loader           files
	}{
		{"references", references.String(), "holds more than 1000000 values", nil},
		{"inputs that are lists", "include: {local: a.yml, inputs: {n: x, list: [a]}}", "holds more than 1000000 values", lists},
		{"inputs that nest", "include: {local: a.yml, inputs: {n: x, list: [a]}}", "nests deeper than 100 levels", deep},
		{"inputs that are texts", "include: {local: a.yml, inputs: {n: x}}", "the text is longer than 1048576 bytes", texts},
		{"many long texts", text.String(), "or all texts together are longer than 67108864", nil},
		{"aliases", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n" +
			"g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", "more than 2000000 values with its aliases followed", nil},
		{"blocks", "spec: {inputs: {a: {type: array, default: [x]}}}\n---\na: [" + manyBlocks(config.MaxBlocks+1) + "]", "more than 10000 different $[[ ]]", nil},
		{"a block", "spec: {inputs: {a: {default: x}}}\n---\na: $[[ inputs.a " + strings.Repeat(" ", config.MaxBlockSize) + "| truncate(0,1) ]]", "longer than 1024 bytes", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := resolve(t, tt.text, tt.loader)
			wantError(t, err, tt.want)
		})
	}
}

func manyBlocks(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "$[[ inputs.a[0] | truncate(0,%d) ]],", i)
	}
	return b.String()
}

func TestProblemsAreCountedPastTheLimit(t *testing.T) {
	var text strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&text, "job-%d: {scirpt: x, extends: .nothing%d}\n", i, i)
	}
	_, err := resolve(t, text.String(), nil)
	list := diag.Of(err)
	if len(list) != config.MaxProblems+1 || list[config.MaxProblems].Message != "9900 more problems are not shown" {
		t.Errorf("%d problems, the last one: %s", len(list), list[len(list)-1].Message)
	}
}

func TestResolveStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := config.Resolve(ctx, "a.yml", []byte("include: a.yml"), facts(files{"a.yml": "{}"})); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestWithoutFunctionsThereAreErrorsAndNoPanics(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"include: a.yml", "a.yml cannot be included: files cannot be loaded here"},
		{"include: '*.yml'", "files cannot be loaded here"},
		{"include: {local: a.yml, rules: [{if: $A}]}", "rules of includes cannot be evaluated here"},
		{"spec: {inputs: {a: {rules: [{if: x, default: y}]}}}\n---\na: {script: x}", "rules of inputs cannot be evaluated here"},
	} {
		_, err := config.Resolve(t.Context(), "a.yml", []byte(tt.text), config.Options{})
		wantError(t, err, tt.want)
	}
	c, err := config.Resolve(t.Context(), "a.yml", []byte("spec: {inputs: {a: {default: $X}}}\n---\na: {script: \"$[[ inputs.a | expand_vars ]]\"}"), config.Options{})
	if err != nil || c.Job("a").Body.Get("script").Text() != "$X" {
		t.Error("without variables, they stay", err)
	}
}

func TestInputsOfACommandLine(t *testing.T) {
	const text = "spec:\n  inputs:\n    s: {default: x}\n    n: {type: number, default: 0}\n    b: {type: boolean, default: false}\n    a: {type: array, default: []}\n---\n" +
		"job:\n  script: [$[[ inputs.s ]], $[[ inputs.n ]], $[[ inputs.b ]], $[[ inputs.a ]]]\n"
	for _, tt := range []struct {
		name, want string
		inputs     map[string]value.Value
	}{
		{"none are needed where there are defaults", `["x",0,false,[]]`, nil},
		{"values of the type are taken", `["y",2,true,[1]]`, map[string]value.Value{
			"s": value.OfString("y"), "n": value.OfInt(2), "b": value.OfBool(true), "a": value.OfArray([]value.Value{value.OfInt(1)})}},
		{"text is read as the type", `["7",2.5,true,["a",{"b":null}]]`, map[string]value.Value{
			"s": value.OfString("7"), "n": value.OfString("2.5"), "b": value.OfString("true"), "a": value.OfString(`["a", {"b": null}]`)}},
		{"blocks in a value are text", `["$[[ inputs.s ]]",0,false,[]]`, map[string]value.Value{"s": value.OfString("$[[ inputs.s ]]")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := facts(nil)
			options.Inputs = tt.inputs
			c, err := config.Resolve(t.Context(), "a.yml", []byte(text), options)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(c.Job("job").Body.Get("script").Value().AppendJSON(nil)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if len(c.Inputs) != 4 || c.Inputs[1].Name != "n" || c.Inputs[1].Type != "number" || !c.Inputs[1].Default.Exists() {
				t.Errorf("the inputs are %v", c.Inputs)
			}
		})
	}
}
