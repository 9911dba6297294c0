//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/rungci/rung/executor"
)

func TestNothingIsLostOfAShellWhoseOutputsAreOneWriter(t *testing.T) {
	l := level(start(t))
	e, err := l.New(t.TempDir(), executor.Lease{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	env, err := e.Prepare(t.Context(), l.Job("shell"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close(context.Background())
	const times, want = 40, "hello\n" // without a turn for each stream, one in four was lost
	for range times {
		var out bytes.Buffer
		code, err := env.Shell(t.Context(), &executor.Shell{Args: []string{"sh", "-c", "echo hello"}, Stdout: &out, Stderr: &out})
		if err != nil || code != 0 || out.String() != want {
			t.Fatalf("it says %q, code %d, %v", out.String(), code, err)
		}
	}
}
