package gitlabsteps_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// rewrite writes a plan and checks that it reads back as it was, and is written in the same way again.
func rewrite(t *testing.T, name string, c *plan.Component) string {
	t.Helper()
	out, err := gitlabsteps.Write(c)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	again, err := gitlabsteps.ParseSteps(name, out)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	want, _ := plan.Canonical(c)
	got, _ := plan.Canonical(again)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Fatalf("%s: -want +got\n%s\nwritten:\n%s", name, diff, out)
	}
	if twice, err := gitlabsteps.Write(again); err != nil || !bytes.Equal(out, twice) {
		t.Errorf("%s: written again it is another text, %v:\n%s", name, err, cmp.Diff(string(out), string(twice)))
	}
	return string(out)
}

func TestWriteLooksLikeThis(t *testing.T) {
	paths, err := filepath.Glob("testdata/write/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			input := archive.Files[0]
			c, err := gitlabsteps.ParseSteps(input.Name, input.Data)
			if err != nil {
				t.Fatal(err)
			}
			got := rewrite(t, input.Name, c)
			if *update {
				archive.Files = []txtar.File{input, {Name: "written.yml", Data: []byte(got)}}
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(archive.Files) != 2 {
				t.Fatalf("run with -update; got\n%s", got)
			}
			want := bytes.ReplaceAll(archive.Files[1].Data, []byte("\r\n"), []byte("\n"))
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestEveryPlanOfTheRepositoryIsWritten tries every definition in the repository's files and testscripts.
func TestEveryPlanOfTheRepositoryIsWritten(t *testing.T) {
	const root = "../../.."
	count := 0
	try := func(name string, data []byte) {
		c, err := gitlabsteps.ParseSteps(name, data)
		if err != nil {
			return
		}
		count++
		rewrite(t, name, c)
	}
	for _, folder := range []string{"steps", "cmd", "docs", "examples", "e2e"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return nil //nolint:nilerr // a folder that is not there has no plans
			}
			switch filepath.Ext(path) {
			case ".yml", ".yaml":
				data, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				try(path, data)
			case ".txtar":
				archive, err := txtar.ParseFile(path)
				if err != nil {
					return err
				}
				for _, file := range archive.Files {
					if ext := filepath.Ext(file.Name); ext == ".yml" || ext == ".yaml" {
						try(path+"/"+file.Name, file.Data)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 50 {
		t.Errorf("only %d plans were found", count)
	}
}

func TestEveryTextIsWritten(t *testing.T) {
	for _, text := range []string{
		"", " ", "a", "a: b", "a #b", "a:", "#", "- a", "? a", "*a", "&a", "!a", "%a", "@a", "`a`", "null", "True", "no", "~", "1", "010", "0x1", "1_000", "1e3", ".5", ".inf", ".NaN", "...", "---", "<<", "=",
		"./a", "../a", "a\nb", "a\nb\n", "a\n\n", "\na", "\n", " a\nb", "\ta\nb", "a\n b\n\nc\n", "a\n ", "a \n \nb", "a\r\nb", "a\u0085b", "a\u2028b\nc", "\ufeffa", "\u00a0", "it's \"so\"", `a\b`, "a\tb", "\x01\x7f", "🚀 世界\nb",
		"${{ a }}", `\${{ a }}`, "# a\nb", "| a\nb", "2024-01-01", "1:30", strings.Repeat("long ", 300),
	} {
		field := plan.Field{Value: value.OfString(text)}
		c := &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: []plan.Step{{
			Name: "a", Ref: &plan.Reference{Kind: plan.RefBuiltin, Text: "builtin://script", Path: []string{"script"}},
			Inputs: map[string]plan.Field{"a": field, "b": {Value: value.OfArray([]value.Value{field.Value, value.OfArray([]value.Value{field.Value}), value.OfStruct(map[string]value.Value{"k": field.Value, text: field.Value})})}},
			Env:    map[string]plan.Field{"E": field},
		}}}}
		rewrite(t, "text", c)
	}
}

func TestWhatCannotBeWritten(t *testing.T) {
	step := func(change func(*plan.Step)) *plan.Component {
		s := plan.Step{Name: "a", Inline: &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{
			Exec: &plan.Exec{Command: []plan.Field{{Value: value.OfString("true")}}},
		}}}
		change(&s)
		return &plan.Component{Spec: plan.Spec{AnyOutputs: true}, Definition: plan.Definition{Steps: []plan.Step{s}}}
	}
	for want, c := range map[string]*plan.Component{
		`"env": {`:                 step(func(s *plan.Step) { s.Inline.Definition.Env = map[string]plan.Field{"A": {}} }),
		"a step cannot":            step(func(s *plan.Step) { s.Name = "a-b" }),
		"the list has no steps":    {Spec: plan.Spec{AnyOutputs: true}},
		"the program's name is em": step(func(s *plan.Step) { s.Inline.Definition.Exec.Command[0].Value = value.OfString("") }),
	} {
		if want == "a step cannot" {
			want = `"a-b" cannot be the name of a step`
		}
		if _, err := gitlabsteps.Write(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func FuzzWrite(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := gitlabsteps.ParseSteps("job.yml", data)
		if err != nil {
			return
		}
		if out, err := gitlabsteps.Write(c); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	})
}
