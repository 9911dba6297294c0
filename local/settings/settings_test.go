package settings

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []Variable
	}{
		{"an empty file has no variables", "", nil},
		{"a scalar is a value", "A: text\nB: 12\nC: true\nD:\n", []Variable{
			{Variable: variable.Variable{Name: "A", Value: "text"}, Scope: "*"},
			{Variable: variable.Variable{Name: "B", Value: "12"}, Scope: "*"},
			{Variable: variable.Variable{Name: "C", Value: "true"}, Scope: "*"},
			{Variable: variable.Variable{Name: "D"}, Scope: "*"},
		}},
		{"a map says more of it", "A: {value: secret, masked: true, file: true, raw: true, environment_scope: prod/*, protected: true, description: why}", []Variable{
			{Variable: variable.Variable{Name: "A", Value: "secret", Masked: true, File: true, Raw: true, Description: "why"}, Scope: "prod/*", Protected: true},
		}},
		{"a list has a value for each scope", "A:\n- {value: x, environment_scope: prod}\n- y\n", []Variable{
			{Variable: variable.Variable{Name: "A", Value: "x"}, Scope: "prod"},
			{Variable: variable.Variable{Name: "A", Value: "y"}, Scope: "*"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Parse("variables.yml", []byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatIsWrongIsSaidWithItsPlaceAndWithoutTheValue(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a list at the top", "- a", "variables.yml:1:1"},
		{"a name that is none", "A-B: hidden-value", `"A-B" is not a variable name`},
		{"an unknown key", "A: {value: hidden-value, maskd: true}", `a variable does not support the key "maskd"`},
		{"no value", "A: {masked: true}", "has no value"},
		{"a masked value that is too short", "A: {value: abc, masked: true}", "too short to be masked"},
		{"a NUL byte", `A: "hidden-value\0"`, "NUL byte"},
		{"something else than true or false", "A: {value: hidden-value, masked: hidden-value}", "true or false"},
		{"no YAML", "A: [hidden-value", "variables.yml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("variables.yml", []byte(test.text))
			list := diag.Of(err)
			if len(list) == 0 {
				t.Fatalf("there is no diagnostic: %v", err)
			}
			text := list.Render()
			if !strings.Contains(text, test.want) {
				t.Errorf("it says %q, not %q", text, test.want)
			}
			if strings.Contains(text, "hidden-value") {
				t.Errorf("it tells the value: %q", text)
			}
		})
	}
}

func TestForAnEnvironment(t *testing.T) {
	s := &Settings{Variables: []Variable{
		{Variable: variable.Variable{Name: "A", Value: "any"}, Scope: "*"},
		{Variable: variable.Variable{Name: "A", Value: "review"}, Scope: "review/*"},
		{Variable: variable.Variable{Name: "A", Value: "this"}, Scope: "review/this"},
		{Variable: variable.Variable{Name: "P", Value: "kept"}, Scope: "*", Protected: true},
		{Variable: variable.Variable{Name: "E", Value: "end"}, Scope: "*-end"},
	}}
	for _, test := range []struct {
		name, environment string
		protected         bool
		want              map[string]string
	}{
		{"without one, only what is for all", "", false, map[string]string{"A": "any"}},
		{"the longest scope counts", "review/this", false, map[string]string{"A": "this"}},
		{"a pattern matches what begins so", "review/other", false, map[string]string{"A": "review"}},
		{"and what ends so", "the-end", false, map[string]string{"A": "any", "E": "end"}},
		{"protected ones are for protected refs", "", true, map[string]string{"A": "any", "P": "kept"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := map[string]string{}
			for _, v := range s.For(test.environment, test.protected) {
				got[v.Name] = v.Value
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFileThatIsNotThereHasNoVariables(t *testing.T) {
	s, err := Read(t.TempDir(), filepath.Join(t.TempDir(), "variables.yml"), "variables.yml")
	if err != nil || len(s.Variables) != 0 {
		t.Errorf("got %v, %v", s, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("A: b")
	f.Add("A: {value: b, masked: true}")
	f.Add("A:\n- {value: b}\n- c")
	f.Fuzz(func(t *testing.T, text string) {
		variables, err := Parse("f", []byte(text))
		if err == nil {
			(&Settings{Variables: variables}).For("x", true)
		}
	})
}
