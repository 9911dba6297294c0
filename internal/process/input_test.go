//go:build unix

package process

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheProcessReadsItsInput(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		stdin        []byte
		want         string
	}{
		{"a line", `read x; echo "got $x"`, []byte("one line\n"), "got one line\n"},
		{"the end comes after it", `cat; echo end`, []byte("no newline"), "no newlineend\n"},
		{"no input is the null device", `cat; echo end`, nil, "end\n"},
		{"more than a pipe holds", `wc -c | tr -d ' '`, bytes.Repeat([]byte("x"), 3<<20), "3145728\n"},
		{"a process that reads nothing", `echo done`, bytes.Repeat([]byte("x"), 3<<20), "done\n"},
		{"a process that reads a part", `head -c 3; exec <&-; echo`, bytes.Repeat([]byte("x"), 3<<20), "xxx\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var stdout strings.Builder
			result, err := Run(t.Context(), nil, Spec{Args: []string{"sh", "-c", tc.script}, Env: testEnv(), Stdin: tc.stdin, Stdout: &stdout})
			if err != nil || result.ExitCode != 0 {
				t.Fatalf("%+v, %v", result, err)
			}
			if stdout.String() != tc.want {
				t.Errorf("got %q, want %q", stdout.String(), tc.want)
			}
		})
	}
}

func TestAStragglerThatHoldsTheInputIsNotWaitedFor(t *testing.T) {
	// The child keeps standard input open and reads nothing of it; it dies with the group.
	script := `(trap '' TERM; exec sleep 1000) & exit 0`
	if _, err := Run(t.Context(), nil, Spec{Args: []string{"sh", "-c", script}, Env: testEnv(), Stdin: bytes.Repeat([]byte("x"), 3<<20)}); err != nil {
		t.Fatal(err)
	}
}
