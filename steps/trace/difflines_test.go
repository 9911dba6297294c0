package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLineDiffs(t *testing.T) {
	numbers := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "%d\n", i)
		}
		return b.String()
	}
	for _, c := range []struct{ name, a, b, want string }{
		{"the same", "x\ny\n", "x\ny\n", ""},
		{"all new", "", "x\n", "@@ -0,0 +1,1 @@|+x"},
		{"one line changed", "1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nfour\n5\n6\n7\n", "@@ -2,5 +2,5 @@| 2| 3|-4|+four| 5| 6"},
		{"changes whose surroundings touch share a hunk", numbers(1, 9), strings.NewReplacer("3", "a", "7", "b").Replace(numbers(1, 9)),
			"@@ -1,9 +1,9 @@| 1| 2|-3|+a| 4| 5| 6|-7|+b| 8| 9"},
		{"others do not", numbers(1, 9), strings.NewReplacer("2", "a", "8", "b").Replace(numbers(1, 9)),
			"@@ -1,4 +1,4 @@| 1|-2|+a| 3| 4|@@ -6,4 +6,4 @@| 6| 7|-8|+b| 9"},
		{"moved lines", "a\nb\nc\n", "c\na\nb\n", "@@ -1,3 +1,3 @@|+c| a| b|-c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := diffLines(splitLines(c.a), splitLines(c.b))
			if diff := cmp.Diff(c.want, strings.Join(d.Lines, "|")); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("however many lines are only new, they are counted exactly", func(t *testing.T) {
		if d := diffLines(nil, splitLines(numbers(1, 5000))); d.AtLeast || d.Added != 5000 || d.Removed != 0 {
			t.Errorf("removed %d, added %d, at least: %v", d.Removed, d.Added, d.AtLeast)
		}
	})
	t.Run("texts that have nothing in common are counted, and no more than a bound is kept", func(t *testing.T) {
		d := diffLines(splitLines("same\n"+numbers(1, 5000)), splitLines("same\n"+numbers(10_001, 15_000)))
		if !d.AtLeast || d.Removed != 5000 || d.Added != 5000 || len(d.Lines) != maxDiffShown || d.LeftOut < 10_000-maxDiffShown {
			t.Errorf("removed %d, added %d, kept %d, left out %d", d.Removed, d.Added, len(d.Lines), d.LeftOut)
		}
	})
}

// FuzzLineDiffs: applying the edits to A gives B, and no fewer edits would do than the lines that the other does not have.
func FuzzLineDiffs(f *testing.F) {
	f.Add("a\nb\nc", "b\nc\nd")
	f.Add("abcabba", "cbabac")
	f.Add("", "x")
	f.Fuzz(func(t *testing.T, x, y string) {
		a, b := strings.Split(x, ""), strings.Split(y, "")
		edits, exact := shortestEdit(a, b)
		if diffLines(a, b); !exact {
			return
		}
		var left, right []string
		changed := 0
		for _, e := range edits {
			if e.op != '+' {
				left = append(left, a[e.a])
			}
			if e.op != '-' {
				right = append(right, b[e.b])
			}
			if e.op == ' ' && a[e.a] != b[e.b] {
				t.Fatalf("%q is kept as %q", a[e.a], b[e.b])
			}
			if e.op != ' ' {
				changed++
			}
		}
		if strings.Join(left, "") != x || strings.Join(right, "") != y {
			t.Fatalf("the edits lead from %q to %q", left, right)
		}
		if removed, added := countDifferent(a, b); changed < removed+added {
			t.Fatalf("%d edits, at least %d are needed", changed, removed+added)
		}
	})
}
