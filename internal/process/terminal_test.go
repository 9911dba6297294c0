//go:build unix

package process

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

func TestAProcessWithATerminal(t *testing.T) {
	run := func(t *testing.T, script, typed string, size chan Size) (string, Result, error) {
		t.Helper()
		in, typing := io.Pipe()
		defer typing.Close()
		go func() { _, _ = io.WriteString(typing, typed) }()
		var out bytes.Buffer
		result, err := Run(t.Context(), nil, Spec{
			Args: []string{"/bin/sh", "-c", script}, Env: os.Environ(), Terminal: &Terminal{Input: in, Output: &out, Resize: size},
		})
		return out.String(), result, err
	}
	t.Run("its input, output and controlling terminal are one", func(t *testing.T) {
		out, result, err := run(t, `test -t 0 && test -t 1 && test -t 2 && echo controlled >/dev/tty; exit 4`, "", nil)
		if err != nil || result.ExitCode != 4 || out != "controlled\r\n" {
			t.Errorf("%q %+v %v", out, result, err)
		}
	})
	t.Run("it reads what is typed, and the terminal echoes it", func(t *testing.T) {
		out, _, err := run(t, `read line; echo "<$line>"`, "words\n", nil)
		if err != nil || !strings.HasSuffix(out, "<words>\r\n") || !strings.Contains(out, "words\r\n") {
			t.Errorf("%q %v", out, err)
		}
	})
	t.Run("a typed interrupt reaches it", func(t *testing.T) {
		out, result, err := run(t, `trap 'echo interrupted; exit 9' INT; stty -echo; printf '\003' >/dev/null; while :; do sleep 0.05; done`, "\x03", nil)
		if err != nil || result.ExitCode != 9 && result.Signal != "SIGINT" {
			t.Errorf("%q %+v %v", out, result, err)
		}
	})
	t.Run("its size is the person's, also later", func(t *testing.T) {
		sizes := make(chan Size, 2)
		sizes <- Size{Columns: 80, Rows: 24}
		sizes <- Size{Columns: 132, Rows: 43}
		out, _, err := run(t, `until test "$(stty size)" = "43 132"; do sleep 0.02; done; stty size`, "", sizes)
		if err != nil || !strings.Contains(out, "43 132") {
			t.Errorf("%q %v", out, err)
		}
	})
	t.Run("a process that does not start leaves nothing open", func(t *testing.T) {
		_, err := Run(t.Context(), nil, Spec{Args: []string{"/does/not/exist"}, Terminal: &Terminal{Input: strings.NewReader(""), Output: io.Discard}})
		if !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("it is stopped like any other", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, typing := io.Pipe()
		defer typing.Close()
		_, err := Run(ctx, nil, Spec{
			Args: []string{"/bin/sh", "-c", "echo begun; exec sleep 600"}, Env: os.Environ(), Grace: 10 * time.Second,
			Terminal: &Terminal{Input: in, Output: cancelling{cancel}},
		})
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// cancelling is a writer that calls a function at what it gets.
type cancelling struct{ cancel func() }

func (c cancelling) Write(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

func TestInputComesAsAStream(t *testing.T) {
	in, typing := io.Pipe()
	answered := make(chan string, 1)
	go func() {
		_, _ = io.WriteString(typing, "question\n")
		<-answered // the process has answered before the input ends
		typing.Close()
	}()
	var out bytes.Buffer
	result, err := Run(t.Context(), nil, Spec{
		Args: []string{"/bin/sh", "-c", `read line; echo "to $line"; cat`}, Env: os.Environ(), Input: in,
		Stdout: writerFunc(func(p []byte) (int, error) {
			answered <- string(p)
			return out.Write(p)
		}),
	})
	if err != nil || result.ExitCode != 0 || out.String() != "to question\n" {
		t.Errorf("%q %+v %v", out.String(), result, err)
	}
}

func TestInputThatNeverEndsDoesNotHoldUpAProcess(t *testing.T) {
	in, typing := io.Pipe()
	defer typing.Close()
	result, err := Run(t.Context(), nil, Spec{Args: []string{"/bin/sh", "-c", "exit 3"}, Env: os.Environ(), Input: in})
	if err != nil || result.ExitCode != 3 {
		t.Errorf("%+v %v", result, err)
	}
}
