package host_test

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/rungci/rung/executor/host"
)

// uncomparable is a writer that == panics on.
type uncomparable struct {
	io.Writer
	_ []byte
}

func TestOutputs(t *testing.T) {
	var a, b bytes.Buffer
	for name, c := range map[string]struct {
		stdout, stderr io.Writer
		one            bool
	}{
		"two":                      {stdout: &a, stderr: &b},
		"one":                      {stdout: &a, stderr: &a, one: true},
		"none":                     {one: true}, // both are io.Discard
		"no stderr":                {stdout: &a},
		"some that cannot compare": {stdout: uncomparable{Writer: &a}, stderr: uncomparable{Writer: &a}},
	} {
		stdout, stderr := host.Outputs(c.stdout, c.stderr)
		if stdout == nil || stderr == nil {
			t.Errorf("%s: nil writers", name)
			continue
		}
		_, discards := stdout.(uncomparable)
		if !discards && (stdout == stderr) != c.one {
			t.Errorf("%s: they are one: %v, want %v", name, !c.one, c.one)
		}
	}
}

// TestOneWriterLosesNothing is about bytes.Buffer, whose ReadFrom takes back what is written while it reads.
func TestOneWriterLosesNothing(t *testing.T) {
	const lines = 10_000
	var got bytes.Buffer
	stdout, stderr := host.Outputs(&got, &got)
	var both sync.WaitGroup
	for _, w := range []io.Writer{stdout, stderr} {
		both.Go(func() {
			r, pipe := io.Pipe()
			go func() {
				for range lines {
					_, _ = io.WriteString(pipe, "line\n")
				}
				_ = pipe.Close()
			}()
			_, _ = io.Copy(w, r)
		})
	}
	both.Wait()
	if n := strings.Count(got.String(), "line\n"); n != 2*lines {
		t.Errorf("%d lines, want %d", n, 2*lines)
	}
}
