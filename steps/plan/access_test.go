package plan_test

import (
	"testing"

	"github.com/rungci/rung/steps/plan"
)

func TestParseAccess(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/run/docker.sock:rw", "/opt/sdk", "~", "~:rw", "~/.docker:rw", "/a:b"} {
		if a, err := plan.ParseAccess(text); err != nil || a.String() != text {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	for _, text := range []string{"", "opt", "./opt", "/", "/:rw", "/a/../b", "/a/", "~a", "~/..", "/proc/1/root", "/a\n", "$HOME"} {
		if a, err := plan.ParseAccess(text); err == nil {
			t.Errorf("%q: %v", text, a)
		}
	}
}

func TestAccessCoversWhatIsBelowIt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		granted, wanted string
		covers          bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/a/b", "/a", false},
		{"/a", "/ab", false},
		{"/a", "/a:rw", false},
		{"/a:rw", "/a/b", true},
		{"~:rw", "~/.docker:rw", true},
		{"~", "/root", false},
	} {
		granted, wanted := plan.AccessesOf([]string{tt.granted}), plan.AccessesOf([]string{tt.wanted})
		if _, uncovered := plan.Uncovered(wanted, granted); uncovered == tt.covers {
			t.Errorf("%s covers %s: %v", tt.granted, tt.wanted, !uncovered)
		}
	}
}
