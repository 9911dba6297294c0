package yamlsource_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/yamlsource"
)

func TestLinesOfAScalarHavePlacesInTheSource(t *testing.T) {
	for _, test := range []struct{ name, source, want string }{
		{"plain", "a: echo one # no", "1:4+8"},
		{"quoted", `a: "echo \"one\""`, "1:5+12"},
		{"two lines in quotes", `a: "one\ntwo"`, "1:5+3 1:10+3"},
		{"literal", "a: |\n  one\n    two  \n\n  three", "2:3+3 3:5+3 - 5:3+5"},
		{"literal with a header of its own", "a: |2-\n    one\n  two\n", "2:5+3 3:3+3"},
		{"literal with tabs and signs", "a: |\n  \tünï; b\n  c", "2:4+6 3:3+1"},
		{"folded", "a: >\n  one\n  two\n\n  three\n", "2:3+3 5:3+5"},
		{"plain over lines", "a: one\n  two\n", "1:4+3"},
		{"a list item", "- |-\n  x\n  y", "2:3+1 3:3+1"},
		{"carriage returns", "a: |\r\n  one\r\n  two\r\n", "2:3+3 3:3+3"},
		{"empty", "a: ''", "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := yamlsource.Parse("f.yml", []byte(test.source))
			if err != nil {
				t.Fatal(err)
			}
			root := f.Documents[0]
			node := root.Get("a")
			if node == nil {
				node = root.Items[0]
			}
			lines := strings.Split(strings.ReplaceAll(test.source, "\r", ""), "\n")
			var got []string
			for _, line := range f.Lines(node) {
				if line.Line == 0 {
					got = append(got, "-")
					continue
				}
				got = append(got, fmt.Sprintf("%d:%d+%d", line.Line, line.Column, line.Length))
				if line.Source != lines[line.Line-1] || line.File != "f.yml" {
					t.Errorf("the line is %q of %s", line.Source, line.File)
				}
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("got %s, want %s", strings.Join(got, " "), test.want)
			}
		})
	}
}
