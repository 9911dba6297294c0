package trust

import (
	"testing"

	"github.com/rungci/rung/cmd/step-runner/command"
)

// TestPushTarget shows what can be pushed to.
func TestPushTarget(t *testing.T) {
	t.Parallel()
	a := &app{&command.Program{}}
	for text, want := range map[string]string{
		"host/a:1.2.3": "host/a 1.2.3", "localhost:5000/a/b:edge": "localhost:5000/a/b edge", "oci://host/a:1": "host/a 1",
		"host/a": "", "host:5000/a": "", "host/a:": "", "host/a@sha256:12": "", "host/A:1": "", "host:1": "", "a:b c": "", "": "",
	} {
		to, err := a.pushTarget(text)
		got := ""
		if err == nil {
			got = to.At.URL + " " + to.Tag
		}
		if got != want {
			t.Errorf("%q: got %q (%v), want %q", text, got, err, want)
		}
	}
}
