package trace

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// LineDiff says which lines differ between two texts.
type LineDiff struct {
	Removed int `json:"removed"`
	Added   int `json:"added"`
	// AtLeast says that more lines may differ: the texts are too different to find the shortest way from one to the other.
	AtLeast bool `json:"at_least,omitempty"`
	// Lines are hunks in unified form, with diffContext lines around each. No more than maxDiffShown are kept; LeftOut is how
	// many are not.
	Lines   []string `json:"lines,omitempty"`
	LeftOut int      `json:"left_out,omitempty"`
}

const (
	diffContext   = 2
	maxDiffShown  = 100  // lines of a diff that are kept
	maxDiffLine   = 4096 // bytes of such a line
	maxEditLength = 1000 // removed and added lines up to which the shortest edit is searched for: memory grows with its square
)

// splitLines cuts text into lines without their ends. A last line that has no end counts.
func splitLines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// edit is one line of a comparison: ' ' is in both, '-' only in A, '+' only in B.
type edit struct {
	op   byte
	a, b int // the line's place in each text, counted from 0
}

// diffLines compares two texts line by line.
func diffLines(a, b []string) *LineDiff {
	edits, left := editScript(a, b)
	d := &LineDiff{AtLeast: left > 0}
	for _, e := range edits {
		switch e.op {
		case '-':
			d.Removed++
		case '+':
			d.Added++
		}
	}
	if d.AtLeast {
		d.Removed, d.Added = countDifferent(a, b)
	}
	d.hunks(edits, a, b)
	d.LeftOut += left
	return d
}

// countDifferent counts the lines of each text that the other one does not have, wherever they stand.
func countDifferent(a, b []string) (removed, added int) {
	seed := maphash.MakeSeed()
	count := map[uint64]int{} // by hash: the lines may be millions
	for _, line := range a {
		count[maphash.String(seed, line)]++
	}
	for _, line := range b {
		h := maphash.String(seed, line)
		if count[h] <= 0 {
			added++
			continue
		}
		count[h]--
	}
	for _, n := range count {
		removed += n
	}
	return removed, added
}

// editScript returns the shortest way from a to b. When that is longer than maxEditLength, it returns the beginning of one that
// replaces all between the first line that differs and the last, and how many edits are left of it. Of what both texts begin
// and end with it gives no more than a hunk shows.
func editScript(a, b []string) (edits []edit, left int) {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	for i := max(head-diffContext, 0); i < head; i++ {
		edits = append(edits, edit{' ', i, i})
	}
	endA, endB := len(a)-tail, len(b)-tail
	middle, exact := shortestEdit(a[head:endA], b[head:endB])
	if !exact {
		const shown = maxDiffShown / 2 // of each text
		for i := head; i < min(head+shown, endA); i++ {
			edits = append(edits, edit{'-', i, head})
		}
		for i := head; i < min(head+shown, endB); i++ {
			edits = append(edits, edit{'+', endA, i})
		}
		return edits, max(endA-head-shown, 0) + max(endB-head-shown, 0)
	}
	for _, e := range middle {
		edits = append(edits, edit{e.op, e.a + head, e.b + head})
	}
	for i := 0; i < min(tail, diffContext); i++ {
		edits = append(edits, edit{' ', endA + i, endB + i})
	}
	return edits, 0
}

// shortestEdit is the algorithm of E. Myers, "An O(ND) difference algorithm and its variations" (1986): for each number of
// edits, how far one can come on every diagonal. It gives up, with false, where that takes more than maxEditLength edits.
func shortestEdit(a, b []string) (edits []edit, exact bool) {
	if len(a) == 0 || len(b) == 0 {
		for i := range a {
			edits = append(edits, edit{'-', i, 0})
		}
		for i := range b {
			edits = append(edits, edit{'+', 0, i})
		}
		return edits, true
	}
	limit := min(len(a)+len(b), maxEditLength)
	furthest := make([]int, 2*limit+3) // by diagonal, a's place minus b's, moved by limit+1
	var steps [][]int                  // what furthest was before each number of edits, from diagonal -n to n
	for n := 0; n <= limit; n++ {
		steps = append(steps, slices.Clone(furthest[limit+1-n:limit+2+n]))
		for k := -n; k <= n; k += 2 {
			x := 0
			if at := limit + 1 + k; n > 0 && (k == -n || k != n && furthest[at-1] < furthest[at+1]) {
				x = furthest[at+1]
			} else if n > 0 {
				x = furthest[at-1] + 1
			}
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			furthest[limit+1+k] = x
			if x >= len(a) && x-k >= len(b) {
				return wayBack(steps, len(a), len(b)), true
			}
		}
	}
	return nil, false
}

// wayBack follows the steps of shortestEdit from the ends of both texts.
func wayBack(steps [][]int, x, y int) []edit {
	var edits []edit
	for n := len(steps) - 1; n > 0; n-- {
		at := func(k int) int { return steps[n][k+n] }
		k := x - y
		down := k == -n || k != n && at(k-1) < at(k+1)
		before := k - 1
		if down {
			before = k + 1
		}
		px := at(before)
		for x > px && y > px-before {
			x, y = x-1, y-1
			edits = append(edits, edit{' ', x, y})
		}
		if down {
			y--
			edits = append(edits, edit{'+', x, y})
		} else {
			x--
			edits = append(edits, edit{'-', x, y})
		}
	}
	for x > 0 {
		x, y = x-1, y-1
		edits = append(edits, edit{' ', x, y})
	}
	slices.Reverse(edits)
	return edits
}

// hunks keeps the lines around each difference. Differences whose surroundings touch share a hunk.
func (d *LineDiff) hunks(edits []edit, a, b []string) {
	for i := 0; i < len(edits); i++ {
		if edits[i].op == ' ' {
			continue
		}
		last := i
		for to := i; to < len(edits) && to-last <= 2*diffContext+1; to++ {
			if edits[to].op != ' ' {
				last = to
			}
		}
		d.hunk(edits[max(i-diffContext, 0):min(last+1+diffContext, len(edits))], a, b)
		i = last
	}
}

func (d *LineDiff) hunk(edits []edit, a, b []string) {
	var na, nb int
	for _, e := range edits {
		if e.op != '+' {
			na++
		}
		if e.op != '-' {
			nb++
		}
	}
	d.keep(fmt.Sprintf("@@ -%d,%d +%d,%d @@", edits[0].a+min(na, 1), na, edits[0].b+min(nb, 1), nb))
	for _, e := range edits {
		line := ""
		if e.op == '+' {
			line = b[e.b]
		} else {
			line = a[e.a]
		}
		if len(line) > maxDiffLine {
			line = strings.ToValidUTF8(line[:maxDiffLine], "") + "…"
		}
		d.keep(string(e.op) + line)
	}
}

func (d *LineDiff) keep(line string) {
	if len(d.Lines) == maxDiffShown {
		d.LeftOut++
		return
	}
	d.Lines = append(d.Lines, strings.ToValidUTF8(line, "\uFFFD"))
}
