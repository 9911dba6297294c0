package exit_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
)

func TestWhatKeepsARunFromStartingIsAnErrorOfTheRun(t *testing.T) {
	t.Parallel()
	place := diag.Span{File: "/p/.rung/sources.toml", Line: 3, Column: 1, Length: 4}
	own := event.NewError(event.CodeInputInvalid, "an input is missing")
	for name, test := range map[string]struct {
		err   error
		want  *event.Error
		fault event.Fault
	}{
		"a mistake in a file has its place, and not the line, which may hold what the job is not to see": {
			diag.List{{Span: place, Message: `the key "pass" is not known here`, Hint: "remove it", Source: `pass = "s3cr3t"`}},
			&event.Error{
				Code: event.CodeDefinitionInvalid, Kind: event.ErrorDefinition, Message: `/p/.rung/sources.toml:3:1: the key "pass" is not known here`, Hint: "remove it",
				Diagnostics: diag.List{{Span: place, Message: `the key "pass" is not known here`, Hint: "remove it"}},
			},
			event.FaultUser,
		},
		"what is not there": {
			exit.Coded(exit.NotFound, "--locked: there is no steps.lock").Hinted("write one"),
			&event.Error{Code: event.CodeNotFound, Kind: event.ErrorNotFound, Message: "--locked: there is no steps.lock", Hint: "write one"},
			event.FaultUser,
		},
		"what is refused": {
			exit.Coded(exit.Denied, "the cache is not used"), &event.Error{Code: event.CodeDenied, Kind: event.ErrorDenied, Message: "the cache is not used"}, event.FaultDenied,
		},
		"anything else is the machine's": {
			errors.New("https://me:s3cr3t@example.com is down"),
			event.NewError(event.CodeInternalError, "%s", source.MaskUserinfo("https://me:s3cr3t@example.com is down")), event.FaultSystem,
		},
		"what is one already": {own, own, event.FaultUser},
	} {
		got := exit.AsEvent(test.err)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.Fault() != test.fault {
			t.Errorf("%s: its fault is %s, want %s", name, got.Fault(), test.fault)
		}
	}
}
