package placed_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/placed"
)

// even accepts even numbers.
type even int

func (e *even) UnmarshalTOML(text []byte) error {
	if _, err := fmt.Sscan(string(text), (*int)(e)); err != nil || *e%2 != 0 {
		return placed.Refusal(text, "%s is not an even number", text)
	}
	return nil
}

func TestWhatIsWrongWithTOMLHasItsPlace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {"number = 2\nname = \"a\"", ""},
		"no TOML":            {"name = \"a\"\nname", "f.toml:2:"},
		"an unknown key":     {"name = \"a\"\n  nmae = 1", `f.toml:2:3: unknown key "nmae"`},
		"all unknown keys":   {"a = 1\nb = 2", "f.toml:1:1: unknown key \"a\"\nf.toml:2:1: unknown key \"b\""},
		"the wrong type":     {"\nname = 3", "f.toml:2:"},
		"what a type is not": {"\nnumber = 3", "f.toml:2:10: 3 is not an even number"},
		"in an inner table":  {"[[table]]\nnumber = 2\n[[table]]\n  number = 5", "f.toml:4:12: 5 is not an even number"},
		"after letters":      {"name = \"ä\"\n[[table]]\n\"ö\" = 1", `f.toml:3:1: unknown key "ö"`},
	} {
		var into struct {
			Name   string `toml:"name"`
			Number even   `toml:"number"`
			Table  []struct {
				Number even `toml:"number"`
			} `toml:"table"`
		}
		got := ""
		if err := (placed.Text{Name: "f.toml", Text: []byte(c.text)}).TOML(&into); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q in it", name, got, c.want)
		}
	}
}

func TestAnErrorIsAboutATable(t *testing.T) {
	t.Parallel()
	text := placed.Text{Name: "f.toml", Text: []byte("[[a]]\nx = 1\n[[b]]\n  [[ a ]] # the second\n")}
	if got := text.Table("a", 1, "", "wrong").Error(); got != "f.toml:4:3: wrong" {
		t.Error(got)
	}
	if got := text.Table("c", 0, "", "wrong").Error(); got != "f.toml: wrong" {
		t.Error(got)
	}
	if got := text.Table("a", 1, "mend it", "wrong").Render(); !strings.Contains(got, "[[ a ]] # the second") || !strings.Contains(got, "mend it") {
		t.Error(got)
	}
}
