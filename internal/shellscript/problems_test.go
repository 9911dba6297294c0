package shellscript_test

import (
	"fmt"
	"testing"

	"github.com/rungci/rung/internal/shellscript"
)

func TestUsesHavePlaces(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`echo "$A" '$B' ${A:-x}`:                      "[{A 7 false} {A 17 true}]",
		`A=1; echo $A; for i in $L; do echo $i; done`: "[{L 24 false}]",
		`read -r A B; echo $A $B $C`:                  "[{C 25 false}]",
		`echo "`:                                      "[]",
	} {
		if got := fmt.Sprint(shellscript.Uses(text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestUnclosed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"echo 'a' \"b":            9,
		"true\necho 'it":          10,
		"echo $(date":             5,
		"if true; then\necho x\n": 0,
		"echo fine":               -1,
		"cat <<E\nx\nE\n":         -1,
		"cat <<E\nx\n":            4,
		"cat <<'E' x E":           4,
		"true\ncat <<-\\E\nx\n E": 9,
		"if (Test-Path x) { y }":  -1, // another shell
		"echo )":                  -1,
	} {
		offset, message, ok := shellscript.Unclosed(text)
		if !ok {
			offset = -1
		}
		if offset != want || ok && message == "" {
			t.Errorf("%s: %d %q, want %d", text, offset, message, want)
		}
	}
}
