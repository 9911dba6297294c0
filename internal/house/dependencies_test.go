package house

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write cmd/*/dependencies.txt again")

const dependenciesHeader = `# Every module that is linked into this program, on any system. Reviewed by hand: a program that people put into all their
# jobs should reach as little as possible. "go test ./internal/house -run Dependencies -update" writes the list again.
`

// TestDependencies compares what every program links with the reviewed list beside it.
func TestDependencies(t *testing.T) {
	mains, err := filepath.Glob(filepath.Join(root(), "cmd", "*", "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, main := range mains {
		dir := filepath.Dir(main)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			got := dependenciesHeader + dependencies(t, "./cmd/"+filepath.Base(dir))
			file := filepath.Join(dir, "dependencies.txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v: review what the program links, then run go test ./internal/house -run Dependencies -update", err)
			}
			if diff := difference(string(want), got); diff != "" {
				t.Errorf("the program does not link what dependencies.txt says; review, then run go test ./internal/house -run Dependencies -update\n%s", diff)
			}
		})
	}
}

// dependencies lists the modules, other than ours, that a program links on any system, a line each.
func dependencies(t *testing.T, program string) string {
	t.Helper()
	linked := map[string]bool{}
	for _, system := range systems {
		packages, err := List(root(), system, "-deps", program)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			if !p.Standard && p.Module != nil && p.Module.Path != modulePath {
				linked[p.Module.Path] = true
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(linked)), "\n") + "\n"
}

// difference lists the lines that only one of the texts has.
func difference(want, got string) string {
	count := map[string]int{}
	for line := range strings.SplitSeq(want, "\n") {
		count[line]--
	}
	for line := range strings.SplitSeq(got, "\n") {
		count[line]++
	}
	var out []string
	for line, n := range count {
		switch {
		case n > 0:
			out = append(out, fmt.Sprintf("linked, not listed: %s", strings.TrimSpace(line)))
		case n < 0:
			out = append(out, fmt.Sprintf("listed, not linked: %s", strings.TrimSpace(line)))
		}
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}
