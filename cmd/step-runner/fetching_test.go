package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
)

// runApp runs the program with arguments in a folder of its own, and returns its exit code and what it says on standard error.
func runApp(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &command.Program{Stdin: strings.NewReader(""), Stdout: f, Stderr: f, Getenv: func(string) string { return "" }}
	code = execute(t.Context(), p, args)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(text)
}

func TestAServerThatSaysNothingDoesNotHoldUpARunBeyondItsTime(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-ended:
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(ended) })
	for _, ref := range []string{s.URL + "/x.zip", s.URL + "/group/project@v1", strings.TrimPrefix(s.URL, "http://") + "/x:1"} {
		t.Run(ref[strings.LastIndexByte(ref, '/'):], func(t *testing.T) {
			t.Parallel()
			code, stderr := runApp(t, "run", "--timeout", "200ms", "--cache", t.TempDir(), ref)
			if code != exit.Timeout || !strings.Contains(stderr, "timed out after 200ms") {
				t.Errorf("the exit code is %d: %s", code, stderr)
			}
		})
	}
}

func TestAPasswordInAReferenceIsNotShown(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"run", "--offline", "http://user:se/cret@127.0.0.1/p@v1"},
		{"run", "http://user:secret@127.0.0.1/p@a b"},
		{"describe", "--offline", "https://user:secret@127.0.0.1/x.zip"},
		{"sources", "ftp://user:secret@127.0.0.1/p"},
		{"lock", "--offline", "https://user:secret@127.0.0.1/p@v1"},
	} {
		code, stderr := runApp(t, append(args, "--cache", t.TempDir())...)
		if args[0] == "sources" {
			code, stderr = runApp(t, args...)
		}
		if code == exit.OK || stderr == "" || strings.Contains(stderr, "cret") {
			t.Errorf("%v: the exit code is %d: %s", args, code, stderr)
		}
	}
}
