//go:build unix

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// row is a figure as docs/performance.md has it.
type row struct{ Name, Target string }

func TestTheDocumentListsEveryFigureWithItsTargetAndPeer(t *testing.T) {
	text, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "| figure | target | peer |\n|---|---|---|\n")
	if !found {
		t.Fatal("docs/performance.md has no table of figures")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var documented, measured []row
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.ReplaceAll(strings.TrimSpace(line), `\|`, ""), "| "), " | ")
		if len(cells) != 3 || slices.Contains(cells, "") {
			t.Fatalf("a row needs a figure, a target and a peer: %s", line)
		}
		documented = append(documented, row{cells[0], cells[1]})
	}
	for _, f := range append(figures(), peerFigures...) {
		measured = append(measured, row{f.name, f.targetText()})
	}
	byName := func(a, b row) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(documented, byName)
	slices.SortFunc(measured, byName)
	if diff := cmp.Diff(measured, documented); diff != "" {
		t.Errorf("docs/performance.md differs from what bench measures (-bench +document):\n%s", diff)
	}
}
