package docker

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestArgumentsInOneText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                       nil,
		" \n ":                   nil,
		"a b\tc":                 {"a", "b", "c"},
		`a "b c" d"e f"`:         {"a", "b c", "de f"},
		`"" a`:                   {"", "a"},
		`say \"hi\" "a \"b\" c"`: {"say", `"hi"`, `a "b" c`},
		`C:\x 'a b'`:             {`C:\x`, "'a", "b'"},
		`an "open quote`:         {"an", "open quote"},
	} {
		o, err := parseAction([]string{"--image", "a", "--entrypoint", "", "--args", text})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, o.Args); diff != "" && len(want)+len(o.Args) > 0 {
			t.Errorf("%q: %s", text, diff)
		}
	}
	if o, err := parseAction([]string{"--image", "a", "--args", "b c", "--", "d e"}); err != nil || len(o.Args) != 1 || o.Args[0] != "d e" {
		t.Errorf("arguments that stand by themselves do not win: %v, %v", o, err)
	}
}
