package fleet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rungci/rung/cmd/rung/command/fleet"
	"github.com/rungci/rung/cmd/step-runner/command"
)

// shown matches a command in the document, and what follows it.
var shown = regexp.MustCompile("(?s)```console\n\\$ rung fleet (simulate .*?)\n(.*?)```")

func TestTheDocumentShowsWhatIsPrinted(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/fleet.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../../../..")
	all := shown.FindAllStringSubmatch(string(text), -1)
	if len(all) < 2 {
		t.Fatalf("%d commands are shown", len(all))
	}
	for _, c := range all {
		out := filepath.Join(t.TempDir(), "out")
		cmd := fleet.Command(&command.Program{Getenv: func(string) string { return "" }})
		cmd.SetArgs(append(strings.Fields(c[1]), "--output", out))
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(out); err != nil || string(got) != c[2] {
			t.Errorf("rung fleet %s prints (%v)\n%s", c[1], err, got)
		}
	}
}
