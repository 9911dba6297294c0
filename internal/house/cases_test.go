package house

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ownCase reports whether a case is one of ours. C91 is not wanted: a step's own env is visible in its inputs.
func ownCase(letter string, number int) bool { return letter == "B" || number != 91 }

// TestEveryConformanceCaseHasATest holds the names of tests against the list of cases that existing step-runners are compared
// by: C01 to C127, and B01 to B18 for what they get wrong.
func TestEveryConformanceCaseHasATest(t *testing.T) {
	t.Parallel()
	named := caseIDs(testNames(t))
	for letter, last := range map[string]int{"C": 127, "B": 18} {
		for number := 1; number <= last; number++ {
			if id := fmt.Sprintf("%s%02d", letter, number); ownCase(letter, number) && !named[id] {
				t.Errorf("no test is named for case %s", id)
			}
		}
	}
}

// caseIDs returns the IDs in a text: a C or B and digits, in either case, at the beginning of a word or behind "test". It reads the text once:
// an expression for each ID would take minutes.
func caseIDs(text string) map[string]bool {
	found := map[string]bool{}
	text = strings.ToUpper(text)
	for i := 0; i < len(text); i++ {
		if text[i] != 'C' && text[i] != 'B' || i > 0 && isWord(text[i-1]) && !strings.HasSuffix(text[:i], "TEST") {
			continue
		}
		end := i + 1
		for end < len(text) && text[end] >= '0' && text[end] <= '9' {
			end++
		}
		found[text[i:end]] = true
	}
	return found
}

func isWord(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }

// testNames returns what names tests in the repository: functions and table rows in test files, and the names of scripts.
func testNames(t *testing.T) string {
	t.Helper()
	var names strings.Builder
	for _, file := range tracked(t) {
		switch {
		case strings.HasSuffix(file, ".txtar"):
			names.WriteString(filepath.Base(file) + "\n")
		case strings.HasSuffix(file, "_test.go"):
			text, err := os.ReadFile(filepath.Join(root(), filepath.FromSlash(file)))
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(string(text), "\n") {
				if !strings.HasPrefix(strings.TrimSpace(line), "//") {
					names.WriteString(line + "\n")
				}
			}
		}
	}
	return names.String()
}
