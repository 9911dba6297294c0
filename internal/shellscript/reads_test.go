package shellscript_test

import (
	"slices"
	"testing"

	"github.com/rungci/rung/internal/shellscript"
)

func TestReads(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`echo "$A ${B:-x}" $((C + 1))`:                   {"A", "B"},
		`A=1; echo $A; for i in $L; do :; done; echo $i`: {"L"},
		`cat <<E
$D
E`: {"D"},
		`echo '$NOT'`:     nil,
		`echo "$unclosed`: nil,
	} {
		if got := shellscript.Reads(text, shellscript.Bash); !slices.Equal(got, want) {
			t.Errorf("%s reads %q, want %q", text, got, want)
		}
	}
	if got := shellscript.Reads("echo $A", shellscript.Pwsh); got != nil {
		t.Errorf("PowerShell: %q", got)
	}
}
