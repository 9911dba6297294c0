package diag_test

import (
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
)

func TestRender(t *testing.T) {
	t.Parallel()
	d := diag.Diagnostic{
		Span:    diag.Span{File: "steps.yml", Line: 3, Column: 5, Length: 6},
		Message: `unknown key "scirpt"`, Hint: `did you mean "script"?`, Source: "    scirpt: echo hello",
	}
	want := `error: unknown key "scirpt"
  --> steps.yml:3:5
   |
 3 |     scirpt: echo hello
   |     ^^^^^^
hint: did you mean "script"?
`
	if got := d.Render(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSnippetStaysInBounds(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]diag.Diagnostic{
		"a column behind the end":    {Span: diag.Span{Line: 1, Column: 99, Length: 5}, Source: "short"},
		"a length behind the end":    {Span: diag.Span{Line: 1, Column: 3, Length: 500}, Source: "short"},
		"a huge line":                {Span: diag.Span{Line: 1, Column: 5_000_000, Length: 3}, Source: strings.Repeat("x", 10_000_000)},
		"control characters":         {Span: diag.Span{Line: 1, Column: 1}, Source: "a\x1b[2Jb"},
		"control characters of C1":   {Span: diag.Span{Line: 1, Column: 1}, Source: "a\u009b2Jb"},
		"bytes that are not UTF-8":   {Span: diag.Span{Line: 1, Column: 2}, Source: "a\xffb"},
		"a position before the text": {Span: diag.Span{Line: 1, Column: -1}, Source: "a"},
	} {
		got := d.Snippet()
		if len(got) > 2000 || strings.ContainsAny(got, "\x1b\u009b") || !strings.Contains(got, "^") {
			t.Errorf("%s: %.200q", name, got)
		}
	}
}

func TestCaretsStandUnderCharactersThatAreTwoColumnsWide(t *testing.T) {
	t.Parallel()
	d := diag.Diagnostic{Span: diag.Span{Line: 1, Column: 4, Length: 3}, Source: "日本 語ｶx"}
	if got, want := d.Snippet(), "   |\n 1 | 日本 語ｶx\n   |      ^^^^\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestSuggest(t *testing.T) {
	t.Parallel()
	keys := []string{"name", "step", "func", "script", "timeout"}
	for name, want := range map[string]string{"scirpt": "script", "timeot": "timeout", "stpe": "step", "zebra": "", "": ""} {
		if got := diag.Suggest(name, keys); got != want {
			t.Errorf("Suggest(%q) = %q, want %q", name, got, want)
		}
	}
}
