package compile

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/value"
)

// FuzzTextsStayAsTheyAre puts any text into a plan, with masked values in it, and evaluates what stands there: out comes the text, and
// the plan did not hold what is masked.
func FuzzTextsStayAsTheyAre(f *testing.F) {
	for _, text := range []string{
		"", "a", "${{ a }}", `\${{ a }}`, "{{ }}", "swordfish", "a swordfish b", `\swordfish`, `\\swordfish}}`, "swordfish}}}}", "{swordfish}}", "${{ swordfish }}",
		"swordfishswordfish", "${swordfish", "$swordfish{", "swordfish\n", "\nswordfish\n\n", "s3", "as3", "swordfish\"}}", "swordfish }}", "sword", "swordfi",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := variable.New(
			variable.Variable{Name: "A", Value: "swordfish", Masked: true, Raw: true}, variable.Variable{Name: "B", Value: "sword", Masked: true, Raw: true},
			variable.Variable{Name: "C", Value: "s3", Masked: true, Raw: true}, variable.Variable{Name: "D", Masked: true},
		)
		s, err := newScope(&Job{Variables: c})
		if err != nil {
			t.Fatal(err)
		}
		vars := value.OfStruct(map[string]value.Value{"A": value.OfString("swordfish"), "B": value.OfString("sword"), "C": value.OfString("s3")})
		field := s.data(text).Value
		got, err := expr.Expand(field, expr.Values{"vars": vars})
		if err != nil || got.Text() != text {
			t.Fatalf("%q became %q, which yields %q, %v", text, field.Str(), got.Text(), err)
		}
		if strings.Contains(field.Str(), "sword") {
			t.Fatalf("%q became %q", text, field.Str())
		}
	})
}

func TestMessagesHoldNoSecret(t *testing.T) {
	c := variable.New(
		variable.Variable{Name: "A", Value: "swordfish", Masked: true},
		variable.Variable{Name: "GIT_STRATEGY", Value: "$A"}, variable.Variable{Name: "GET_SOURCES_ATTEMPTS", Value: "$A"},
	)
	j := &Job{Variables: c, Source: Source{URL: "https://x.example/a"}}
	if _, err := Compile(j); err == nil || strings.Contains(err.Error(), "swordfish") || !strings.Contains(err.Error(), "[MASKED]") {
		t.Errorf("got %v", err)
	}
	j.Variables.Set("GIT_STRATEGY", "clone")
	if got, err := Compile(j); err != nil || len(got.Notes) != 1 || strings.Contains(got.Notes[0], "swordfish") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPathsBesideTheProject(t *testing.T) {
	for temp, want := range map[string]string{"/b/p.tmp": "/b/p.tmp/X", "/b/p.tmp/": "/b/p.tmp/X", `C:\p.tmp`: `C:\p.tmp\X`, `C:/p.tmp`: "C:/p.tmp/X"} {
		if got := (&scope{temp: temp}).path("X"); got != want {
			t.Errorf("%s: got %s", temp, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for text, want := range map[string]string{"": "", "  ": "", "a b": "a|b", ` -c 'a b=c'  --x="y z" `: "-c|a b=c|--x=y z", `''`: "", "a 'open": "a|open"} {
		if got := strings.Join(arguments(text), "|"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
