package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

func TestHistory(t *testing.T) {
	c, err := resolve(t, "stages: [a]\n\ninclude:\n  - templates/go.yml\n\n.extra: {tags: [x]}\n\nbuild:\n  extends: .base\n  stage: a\n", files{
		"templates/go.yml": "\n.base:\n  script:\n    - go build\n    - !reference [.lib, test]\n  needs: [x]\n.lib:\n  test: [go test]\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	script := c.Job("build").Body.Get("script")
	if got, want := script.History(), "templates/go.yml:4, by `extends: .base` at .gitlab-ci.yml:9, included at .gitlab-ci.yml:4"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var got []string
	for level, line := range script.Flat() {
		got = append(got, strings.Repeat(" ", level)+line.Text()+" "+line.History())
	}
	want := []string{
		" go build templates/go.yml:4, by `extends: .base` at .gitlab-ci.yml:9, included at .gitlab-ci.yml:4",
		"  go test templates/go.yml:8, by `!reference [.lib, test]` at templates/go.yml:5, by `extends: .base` at .gitlab-ci.yml:9, included at .gitlab-ci.yml:4",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	d := script.Diagnostic("", "this is wrong")
	if got, want := d.Error(), "templates/go.yml:4:5: this is wrong (by `extends: .base` at .gitlab-ci.yml:9, included at .gitlab-ci.yml:4)"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if d.Source != "    - go build" {
		t.Errorf("the source line is %q", d.Source)
	}
	steps := script.Via()
	if len(steps) != 1 || steps[0].By != config.ByExtends || steps[0].Name != ".base" || steps[0].Source.Name != ".gitlab-ci.yml" {
		t.Errorf("the way is %v", steps)
	}
	if own := c.Job("build").Body.Get("stage"); own.History() != ".gitlab-ci.yml:10" || own.Via() != nil {
		t.Errorf("what is written in the job has the history %q", own.History())
	}
}

func TestPlacesInsideText(t *testing.T) {
	c, err := resolve(t, "spec: {inputs: {a: {default: b}}}\n---\njob:\n  script: 'echo hello'\n  image: x-$[[ inputs.a ]]\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := c.Job("job").Body
	if got := body.Get("script").At(5, 5); got.Column != 17 || got.Length != 5 {
		t.Errorf("the second word is at %v with length %d", got, got.Length)
	}
	image := body.Get("image")
	if got := image.At(2, 1); got != image.Span() {
		t.Errorf("a place in text that an input made is %v, want that of the whole, %v", got, image.Span())
	}
}

func TestZeroNode(t *testing.T) {
	var n config.Node
	if n.Exists() || !n.IsNull() || n.Text() != "" || n.Len() != 0 || n.Get("x").Exists() || n.History() != "" || n.Source() != nil || !n.Value().IsNull() {
		t.Error("the zero Node is something")
	}
	for range n.Items() {
		t.Error("it has items")
	}
	for range n.Entries() {
		t.Error("it has entries")
	}
	for range n.Flat() {
		t.Error("it has flat items")
	}
	if d := n.Diagnostic("", "x"); d.Error() != "x" {
		t.Errorf("a diagnostic about it is %q", d.Error())
	}
}

func TestStringsOfInputsThatStandBare(t *testing.T) {
	c, err := resolve(t, "spec: {inputs: {a: {default: 'true'}}}\n---\njob: {script: x, interruptible: $[[ inputs.a ]], when: \"$[[ inputs.a ]]\", tags: ['true']}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	body := c.Job("job").Body
	if n := body.Get("interruptible"); n.Kind() != yamlsource.String || !n.IsBare() {
		t.Error("a bare block should give a bare string")
	}
	if body.Get("when").IsBare() || body.Get("tags").IsBare() {
		t.Error("a quoted block gave a bare string")
	}
}

func TestNumbersAndBooleansAsKeys(t *testing.T) {
	c, err := resolve(t, "job:\n  script: x\n  variables: {NO: a, on: b, 010: c, 1.0: d}\n.ref: {off: [x]}\nother: {script: !reference [.ref, off]}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for key := range c.Job("job").Body.Get("variables").Entries() {
		got = append(got, key.Text())
	}
	if diff := cmp.Diff([]string{"NO", "on", "010", "1.0"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSecretsInURLsAreNotShown(t *testing.T) {
	loader := files{"https://example.com/a.yml": "error: no"}
	for _, text := range []string{
		"include: https://user:secret@example.com/a.yml",
		"include: {remote: 'https://user:secret@example.com/a.yml'}",
		"include: {remote: 'ssh://user:secret@example.com/a.yml'}",
		"include: {remote: 'https://user:se%zzcret@example.com/a.yml', intgrity: x}",
		"include: [https://user:secret@example.com/a.yml",
		"job: {scirpt: https://user:secret@example.com}",
		"include: 'https://example.com/a.yml?ref=main&private_token=secret'",
		"include: {remote: \"https://example.com/a.yml?job_token=secret#x\"}",
		"include: [https://example.com/gone.yml?a=b&X-Sig=secret, https://x/?y]",
	} {
		_, err := resolve(t, text, loader)
		list := wantError(t, err, "").Render()
		for _, d := range []string{err.Error(), list} {
			if strings.Contains(d, "secret") || strings.Contains(d, "cret@") {
				t.Errorf("%s shows the password:\n%s", text, d)
			}
		}
	}
}

func TestPathsCannotLeaveTheProject(t *testing.T) {
	for _, text := range []string{"include: ../a.yml", "include: {local: /a/../../b.yml}", "include: '../*.yml'", "include: {project: a/b, file: ../c.yml}", `include: '..\a.yml'`} {
		_, err := resolve(t, text, files{})
		wantError(t, err, "leads out of the project")
	}
}

func TestAnUnknownVariableInAnIncludeIsNotCalledABadName(t *testing.T) {
	_, err := resolve(t, "include: {local: 'a$/b'}", files{})
	d := wantError(t, err, `"a$/b" is not the name of a YAML file`)
	if !strings.Contains(d.Hint, "set the variables") {
		t.Errorf("hint: %s", d.Hint)
	}
}

func TestNestedLocalIncludesOfRemoteFiles(t *testing.T) {
	_, err := resolve(t, "include: https://example.com/a.yml", files{"https://example.com/a.yml": "include: b.yml"})
	wantError(t, err, `https://example.com/a.yml:1:10: "b.yml" cannot be a local file: the file that includes it is not in a project (included at .gitlab-ci.yml:1)`)
}

func TestMaskedVariablesAreNotExpanded(t *testing.T) {
	_, err := resolve(t, "spec: {inputs: {a: {default: $MASKED}}}\n---\njob: {script: \"$[[ inputs.a | expand_vars ]]\"}", nil)
	wantError(t, err, "expand_vars: MASKED is masked")
}

func TestAnEmptyConfiguration(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "a.yml: the file is empty"},
		{"comments", "# x\n", "a.yml: the file is empty"},
		{"null", "~", "a.yml: the file is empty"},
		{"a list", "- a", "a configuration must be a map, not a list"},
		{"a string", "a", "a configuration must be a map, not a string"},
		{"no YAML", "a: [1", "the [ is never closed"},
		{"a map of nothing", "{}", "has no visible jobs"},
		{"hidden jobs alone", ".a: {script: x}", "has no visible jobs"},
		{"a header alone", "spec: {inputs: {a: {default: b}}}", "has no visible jobs"},
		{"three documents", "a: {script: x}\n---\nb: {script: x}", "only one document can be the configuration"},
		{"a header in the configuration", "spec: {}\na: {script: x}", "a header can only contain `spec`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Resolve(t.Context(), "a.yml", []byte(tt.text), config.Options{})
			wantError(t, err, tt.want)
		})
	}
}

func TestDocumentMarkersAroundAConfiguration(t *testing.T) {
	for _, text := range []string{"---\na: {script: x}\n", "a: {script: x}\n---\n", "---\n---\na: {script: x}\n...\n", "---\nspec: {}\n---\na: {script: x}\n"} {
		if c, err := resolve(t, text, nil); err != nil || len(c.Jobs) != 1 {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestTheKeysOfIncludesAreGitLabs(t *testing.T) {
	const url = "https://example.com/a.yml"
	for text, want := range map[string]string{
		"include: {remote: '" + url + "', cache: true}":                              "",
		"include: {remote: '" + url + "', cache: '1 day'}":                           "",
		"include: {remote: '" + url + "', cache: }":                                  "",
		"include: {remote: '" + url + "', cache: [a]}":                               "`cache` must be a boolean or a duration, not a list",
		"include: {local: a.yml, cache: true}":                                       "`cache` goes only with `remote`",
		"include: {local: a.yml, rules: [{if: $NONE, when: on_success}]}":            "the rule of an include cannot be \"on_success\"",
		"include: {local: a.yml, rules: [{if: $NONE, when: never}, {when: manual}]}": "the rule of an include cannot be \"manual\"",
		"include: {local: a.yml, rules: [{if: $NONE, when: }, {when: always}]}":      "",
		"include: [null, a.yml]":                                                     "",
	} {
		_, err := resolve(t, text+"\njob: {script: x}\n", files{url: "a: {script: x}", "a.yml": "a: {script: x}"})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: want %q, got %v", text, want, err)
		}
	}
}
