//go:build linux

package attacks

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the table of attacks in docs/security.md")

// TestTheDocumentHasAllAttacks holds docs/security.md against the tables of attacks.
func TestTheDocumentHasAllAttacks(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "security.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	for name, table := range map[string]string{"attacks": attacksDocument(), "networks": networksDocument()} {
		begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
		before, rest, ok := strings.Cut(want, begin)
		_, after, ok2 := strings.Cut(rest, end)
		if !ok || !ok2 {
			t.Fatalf("docs/security.md has no place for the %s", name)
		}
		want = before + begin + table + end + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Error("the attacks in docs/security.md are out of date; run go test ./e2e/attacks -run Document -update")
	}
}

func attacksDocument() string {
	return document(columns, hostile, func(a *attack) (group, tries string, want [4]verdict) { return a.group, a.tries, a.want })
}

func networksDocument() string {
	return document(policies, ways, func(w *way) (group, tries string, want [4]verdict) { return w.group, w.tries, w.want })
}

// document is a table with a row for each of all, in groups.
func document[T ~string, A any](columns []T, all []A, row func(*A) (group, tries string, want [4]verdict)) string {
	var b strings.Builder
	b.WriteString("| A job tries to |")
	for _, column := range columns {
		fmt.Fprintf(&b, " `%s` |", column)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	group := ""
	for i := range all {
		in, tries, want := row(&all[i])
		if in != group {
			group = in
			fmt.Fprintf(&b, "| **%s** |%s\n", group, strings.Repeat(" |", len(columns)))
		}
		fmt.Fprintf(&b, "| %s |", tries)
		for _, v := range want {
			mark := ""
			if v == allowed {
				mark = "**"
			}
			fmt.Fprintf(&b, " %s%s%s |", mark, v, mark)
		}
		b.WriteString("\n")
	}
	return b.String()
}
