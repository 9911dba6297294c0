package container

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/event"
)

func TestWhatAnEntrypointSaysIsReportedInWhateverOrderItsStreamsArrive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ said, want string }{
		{"step-runner is listening on /s\n", ""},
		{"hello\nstep-runner is listening on /s\n", "hello\n"},
		{"hello\nstep-runner is listening on /s\nlater\n", "hello\n"},
		{"hello\nstep-runner is listening on /s\nstep-runner is listening on /s\n", "hello\n"},
		{"step-runner is listening on /s\nhello\r\nstep-runner is listening on /s\nlater\n", "hello\n"},
		{"one\nstep-runner is listening on /s\ntwo\nstep-runner is listening on /s\n", "one\ntwo\n"},
	} {
		var s Said
		fmt.Fprint(&s, tt.said)
		var got string
		s.ReportEntrypoint(func(p event.Preparing) { got += p.Message + "\n" }, "image")
		if got != tt.want {
			t.Errorf("of %q it reports %q, not %q", tt.said, got, tt.want)
		}
	}
}

func TestWhatIsKeptBeginsWithAWholeLine(t *testing.T) {
	t.Parallel()
	var s Said
	fmt.Fprintf(&s, "a long secret\n%s\nthe end\n", strings.Repeat("x", MaxSaid-len("secret\n\nthe end\n")))
	if got := s.String(); strings.Contains(got, "secret") || !strings.HasSuffix(got, "x\nthe end") {
		t.Errorf("%.40q", got)
	}
}
