package gitlabsteps_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// compare compares plans by their meaning: values as steps see them, and without places.
var compare = cmp.Options{cmp.Comparer(value.Equal), cmpopts.IgnoreTypes(diag.Span{}, [][]diag.SourceLine{})}

func mustFile(t *testing.T, text string) *plan.Component {
	t.Helper()
	c, err := gitlabsteps.ParseFile("func.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s", diag.Of(err).Render())
	}
	return c
}

func mustSteps(t *testing.T, text string) *plan.Component {
	t.Helper()
	c, err := gitlabsteps.ParseSteps("job.yml", []byte(text))
	if err != nil {
		t.Fatalf("%s", diag.Of(err).Render())
	}
	return c
}

func field(text string) plan.Field { return plan.Field{Value: value.OfString(text)} }

func canonical(t *testing.T, c *plan.Component) []byte {
	t.Helper()
	text, err := plan.Canonical(c)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestLoading holds the conformance cases about files that load. Those about files that do not are golden: testdata/c*.txtar.
func TestLoading(t *testing.T) {
	t.Run("C04 {} and run load, and come back unchanged from the canonical form", func(t *testing.T) {
		c := mustFile(t, "{}\n---\nrun:\n- name: a\n  step: ./a\n")
		text := canonical(t, c)
		again, err := plan.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again, compare); diff != "" {
			t.Error(diff)
		}
		if !bytes.Equal(text, canonical(t, again)) {
			t.Error("the canonical form changed")
		}
	})
	t.Run("C05 a spec with defaults and an exec come back equal", func(t *testing.T) {
		c := mustFile(t, `spec:
  inputs:
    n: {type: number, default: 12.5}
    s: {type: string, default: ""}
    o: {type: struct, default: {a: [1, null]}}
---
exec: {command: [echo, "${{ inputs.s }}"]}
`)
		again, err := plan.Parse(canonical(t, c))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, again, compare); diff != "" {
			t.Error(diff)
		}
		if got := c.Spec.Inputs["n"].Default.Text(); got != "12.5" {
			t.Errorf("the default of n is %s", got)
		}
	})
	for _, spec := range []string{"spec: {}", "spec:", "{}", "---"} {
		t.Run(fmt.Sprintf("C06 the spec can be %q", spec), func(t *testing.T) {
			c := mustFile(t, spec+"\n---\nexec: {command: [a]}\n")
			if diff := cmp.Diff(plan.Spec{}, c.Spec, compare); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, kind := range value.KindNames {
		t.Run("C08 "+kind+" is a type of inputs and outputs", func(t *testing.T) {
			c := mustFile(t, fmt.Sprintf("spec:\n  inputs: {a: {type: %s}}\n  outputs: {b: {type: %s}}\n---\nexec: {command: [a]}\n", kind, kind))
			if got := c.Spec.Inputs["a"].Type.String() + " " + c.Spec.Outputs["b"].Type.String(); got != kind+" "+kind {
				t.Errorf("got %s", got)
			}
		})
	}
	t.Run("a null default is not a default", func(t *testing.T) {
		if c := mustFile(t, "spec: {inputs: {a: {type: string, default: null}}}\n---\nexec: {command: [a]}"); c.Spec.Inputs["a"].Default != nil {
			t.Error("the input has a default")
		}
	})
	t.Run("C11 outputs can be delegated", func(t *testing.T) {
		c := mustFile(t, "spec: {outputs: delegate}\n---\nrun: [{name: a, step: ./a}]\ndelegate: a\n")
		if !c.Spec.DelegateOutputs || c.Definition.Delegate != "a" {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("C11 an exec can delegate to what it writes", func(t *testing.T) {
		if c := mustFile(t, "spec: {outputs: delegate}\n---\nexec: {command: [a]}\n"); !c.Spec.DelegateOutputs {
			t.Error("the outputs are not delegated")
		}
	})
}

func ref(kind plan.RefKind, change func(*plan.Reference)) *plan.Reference {
	r := &plan.Reference{Kind: kind}
	change(r)
	return r
}

// TestInvocations holds the conformance cases about references in steps that load.
func TestInvocations(t *testing.T) {
	for _, tt := range []struct {
		name, step string
		want       *plan.Reference
	}{
		{"C13 local", "./hello", ref(plan.RefLocal, func(r *plan.Reference) { r.Text, r.Path = "./hello", []string{".", "hello"} })},
		{"C14 git, short", "gitlab.com/a/b@v1", ref(plan.RefGit, func(r *plan.Reference) {
			r.Text, r.URL, r.Rev, r.Path, r.OrRoot = "gitlab.com/a/b@v1", "https://gitlab.com/a/b", "v1", []string{"steps"}, true
		})},
		{"C15 git, map", "{git: {url: gitlab.com/a/b, rev: v1}}", ref(plan.RefGit, func(r *plan.Reference) {
			r.Text, r.URL, r.Rev = "https://gitlab.com/a/b@v1", "https://gitlab.com/a/b", "v1"
		})},
		{"C18 git, map with dir and file", "{git: {url: 'https://gitlab.com/a/b', rev: v1, dir: /x/y/, file: z.yml}}", ref(plan.RefGit, func(r *plan.Reference) {
			r.Text, r.URL, r.Rev = "https://gitlab.com/a/b@v1 x/y/z.yml", "https://gitlab.com/a/b", "v1"
			r.Path, r.File = []string{"x", "y"}, "z.yml"
		})},
		{"C25 C42 oci, map: the reference holds everything, and the engine fetches it; two steps and an expression between them were needed before",
			"{oci: {registry: registry.gitlab.com, repository: a/b, tag: v1, dir: x/y, file: z.yml}}", ref(plan.RefOCI, func(r *plan.Reference) {
				r.Text, r.Registry, r.Repository, r.Tag = "registry.gitlab.com/a/b:v1 x/y/z.yml", "registry.gitlab.com", "a/b", "v1"
				r.Path, r.File = []string{"x", "y"}, "z.yml"
			})},
		{"C36 the dir of a git map has no steps before it", "{git: {url: gitlab.com/a/b, rev: v1, dir: bash}}", ref(plan.RefGit, func(r *plan.Reference) {
			r.Text, r.URL, r.Rev, r.Path = "https://gitlab.com/a/b@v1 bash", "https://gitlab.com/a/b", "v1", []string{"bash"}
		})},
		{"C41 an expression in a map stays in its part", "{git: {url: 'gitlab.com/${{ inputs.a }}', rev: '${{ inputs.r }}', dir: \"${{ inputs['a/b'] }}\"}}", ref(plan.RefGit, func(r *plan.Reference) {
			r.URL, r.Rev, r.Path = "https://gitlab.com/${{ inputs.a }}", "${{ inputs.r }}", []string{"${{ inputs['a/b'] }}"}
			r.Text = "https://gitlab.com/${{ inputs.a }}@${{ inputs.r }} ${{ inputs['a/b'] }}"
		})},
	} {
		for _, key := range []string{"step", "func"} {
			t.Run(tt.name+" ("+key+")", func(t *testing.T) {
				c := mustSteps(t, "- name: a\n  "+key+": "+tt.step+"\n")
				want := []plan.Step{{Name: "a", Ref: tt.want}}
				if diff := cmp.Diff(want, c.Definition.Steps, compare); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
	t.Run("C43 an action is a reference of its own kind: the actions frontend runs it, no action-runner is fetched", func(t *testing.T) {
		c := mustSteps(t, "- name: a\n  action: actions/checkout@v4\n  inputs: {fetch-depth: 0}\n")
		want := []plan.Step{{
			Name: "a", Ref: &plan.Reference{Kind: plan.RefAction, Text: "actions/checkout@v4", Action: "actions/checkout@v4"},
			Inputs: map[string]plan.Field{"fetch-depth": {Value: value.OfInt(0)}},
		}}
		if diff := cmp.Diff(want, c.Definition.Steps, compare); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("C44 a script is an exec written inline: the step has the script's text itself, where before it had it as the input of a fetched step", func(t *testing.T) {
		c := mustSteps(t, "- name: a\n  script: echo ${{ env.A }}\n  env: {A: b}\n")
		want := []plan.Step{{
			Name: "a",
			Inline: &plan.Component{
				Spec:       plan.Spec{AnyOutputs: true},
				Definition: plan.Definition{Exec: &plan.Exec{Script: &plan.Script{Text: field("echo ${{ env.A }}")}}},
			},
			Env: map[string]plan.Field{"A": field("b")},
		}}
		if diff := cmp.Diff(want, c.Definition.Steps, compare); diff != "" {
			t.Error(diff)
		}
	})
	kinds := []string{"step: ./a", "func: ./a", "script: a", "action: a/b@v1", "exec: {command: [a]}", "run: [{name: x, script: a}]", "parallel: [script: a]"}
	for i, one := range kinds {
		for _, other := range kinds[i+1:] {
			a, _, _ := strings.Cut(one, ":")
			b, _, _ := strings.Cut(other, ":")
			for _, nested := range []bool{false, true} {
				name, text := "C22", "- {name: a, "+one+", "+other+"}\n"
				if nested {
					name, text = "C23 nested:", "- name: outer\n  run:\n  - {name: a, "+one+", "+other+"}\n"
				}
				t.Run(name+" "+a+" and "+b+" exclude each other", func(t *testing.T) {
					_, err := gitlabsteps.ParseSteps("job.yml", []byte(text))
					list := diag.Of(err)
					if want := fmt.Sprintf("a step has %s or %s, not both", a, b); len(list) != 1 || list[0].Message != want {
						t.Errorf("got %v, want %s", err, want)
					}
				})
			}
		}
	}
}

// TestReferences holds the conformance cases about short forms. Where the cases name the file step.yml that was only the
// default, File is empty: func.yml and then step.yml are looked for.
func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, tt := range []struct {
		name, text string
		want       plan.Reference
	}{
		{"C27 a dot", ".", plan.Reference{Kind: plan.RefLocal, Path: []string{"."}}},
		{"C28 folders", "./path/to/my/file", plan.Reference{Kind: plan.RefLocal, Path: []string{".", "path", "to", "my", "file"}}},
		{"C29 a file", "./path/to/step.yml", plan.Reference{Kind: plan.RefLocal, Path: []string{".", "path", "to"}, File: "step.yml"}},
		{"C30 absolute", "/path/to/step/", plan.Reference{Kind: plan.RefLocal, Path: []string{"/", "path", "to", "step"}}},
		{"C31 a file at the root", "/step.yml", plan.Reference{Kind: plan.RefLocal, Path: []string{"/"}, File: "step.yml"}},
		{"parent folders", "../../greeting", plan.Reference{Kind: plan.RefLocal, Path: []string{"..", "..", "greeting"}}},
		{"C32 https is the default", "host/p@v1", plan.Reference{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Path: []string{"steps"}, OrRoot: true}},
		{"C33 a folder in a repository", "host/p/-/sub@v1", plan.Reference{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Path: []string{"steps", "sub"}, OrRoot: true}},
		{"C34 a file in a repository", "host/p/-/my-step.yml@v1", plan.Reference{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Path: []string{"steps"}, OrRoot: true, File: "my-step.yml"}},
		{"C35 a file in a folder", "host/p/-/sub/my-step.yml@v1", plan.Reference{Kind: plan.RefGit, URL: "https://host/p", Rev: "v1", Path: []string{"steps", "sub"}, OrRoot: true, File: "my-step.yml"}},
		{"C37 http is kept", "http://host/p@v1", plan.Reference{Kind: plan.RefGit, URL: "http://host/p", Rev: "v1", Path: []string{"steps"}, OrRoot: true}},
		{"C38 the last @ counts", "http://tok:PW@host/x.git@main", plan.Reference{Kind: plan.RefGit, URL: "http://tok:PW@host/x.git", Rev: "main", Path: []string{"steps"}, OrRoot: true}},
		{"ssh, as Git writes it", "git@gitlab.com:a/b.git@v1", plan.Reference{Kind: plan.RefGit, URL: "git@gitlab.com:a/b.git", Rev: "v1", Path: []string{"steps"}, OrRoot: true}},
		{"a port", "localhost:8080/a/b@v1", plan.Reference{Kind: plan.RefGit, URL: "https://localhost:8080/a/b", Rev: "v1", Path: []string{"steps"}, OrRoot: true}},
		{"a branch with a slash", "host/p@feature/x", plan.Reference{Kind: plan.RefGit, URL: "https://host/p", Rev: "feature/x", Path: []string{"steps"}, OrRoot: true}},
		{"C40 dist", "dist://oci/publish", plan.Reference{Kind: plan.RefBuiltin, Path: []string{"oci", "publish"}}},
		{"C40 builtin", "builtin://function/oci/build", plan.Reference{Kind: plan.RefBuiltin, Path: []string{"function", "oci", "build"}}},
		{"an image", "registry.gitlab.com/a/b:v1", plan.Reference{Kind: plan.RefOCI, Registry: "registry.gitlab.com", Repository: "a/b", Tag: "v1"}},
		{"an image on a port", "localhost:5000/a:latest", plan.Reference{Kind: plan.RefOCI, Registry: "localhost:5000", Repository: "a", Tag: "latest"}},
		{"a folder and file in an image", "docker.io/a/b:v1 sub/dir/my.yml", plan.Reference{Kind: plan.RefOCI, Registry: "docker.io", Repository: "a/b", Tag: "v1", Path: []string{"sub", "dir"}, File: "my.yml"}},
		{"an archive", "https://host/a/steps.zip", plan.Reference{Kind: plan.RefArchive, URL: "https://host/a/steps.zip"}},
		{"an archive on https", "host/a/steps.tar.gz", plan.Reference{Kind: plan.RefArchive, URL: "https://host/a/steps.tar.gz"}},
		{"a folder and file in an archive by digest", "https://host/x.tgz?v=1/-/sub/my.yml#sha256=" + strings.Repeat("0A", 32), plan.Reference{
			Kind: plan.RefArchive, URL: "https://host/x.tgz?v=1", Path: []string{"sub"}, File: "my.yml", SHA256: strings.Repeat("0a", 32),
		}},
		{"a local archive", "./dist/steps.zip/-/hello", plan.Reference{Kind: plan.RefArchive, URL: "./dist/steps.zip", Path: []string{"hello"}}},
		{"a repository that is named like an archive", "host/a/x.zip@v1", plan.Reference{Kind: plan.RefGit, URL: "https://host/a/x.zip", Rev: "v1", Path: []string{"steps"}, OrRoot: true}},
		{"an image by digest", "docker.io/a/b@" + digest, plan.Reference{Kind: plan.RefOCI, Registry: "docker.io", Repository: "a/b", Tag: digest}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Text = tt.text
			for _, parse := range []func(string, diag.Span) (*plan.Reference, error){gitlabsteps.ParseReference, gitlabsteps.ParseStaticReference} {
				got, err := parse(tt.text, diag.Span{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&tt.want, got, compare); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	t.Run("C39 without a revision it is an error", func(t *testing.T) {
		if got, err := gitlabsteps.ParseReference("invalid", diag.Span{}); err == nil {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("C41 an expression makes it dynamic, the whole text kept", func(t *testing.T) {
		text := "gitlab.com/a/b@${{ inputs.rev }}"
		got, err := gitlabsteps.ParseReference(text, diag.Span{})
		if err != nil {
			t.Fatal(err)
		}
		expr := field(text)
		if diff := cmp.Diff(&plan.Reference{Kind: plan.RefDynamic, Text: text, Expr: &expr}, got, compare); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("B11 text that was evaluated is not evaluated again", func(t *testing.T) {
		got, err := gitlabsteps.ParseStaticReference("./${{ env.A }}", diag.Span{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&plan.Reference{Kind: plan.RefLocal, Text: "./${{ env.A }}", Path: []string{".", "${{ env.A }}"}}, got, compare); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a broken expression is told at its place", func(t *testing.T) {
		_, err := gitlabsteps.ParseReference("./${{ a. }}", diag.Span{File: "-", Line: 1, Column: 5})
		if list := diag.Of(err); len(list) != 1 || list[0].Column != 14 {
			t.Errorf("got %v", err)
		}
	})
}
