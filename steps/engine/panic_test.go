package engine_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// brokenSource has a bug.
type brokenSource struct{}

func (brokenSource) Load(context.Context, *plan.Reference, string) (*source.Component, error) {
	panic("a bug in the source")
}

type noSink struct{}

func (noSink) Event(event.Event) {}

func TestABugInAParallelStepIsAPanicOfTheRun(t *testing.T) {
	t.Parallel()
	component, err := gitlabsteps.ParseSteps("STEPS", []byte(`[{parallel: [{name: a, step: "${{ env.REF }}", env: {REF: ./x}}, {name: b, script: "true"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if bug := fmt.Sprint(recover()); !strings.HasPrefix(bug, "a bug in the source\n") || !strings.Contains(bug, "panic_test.go") {
			t.Errorf("the panic is %q, want the bug and where it is", bug)
		}
	}()
	engine.Run(t.Context(), engine.Options{
		Component: component, Dir: t.TempDir(), WorkDir: t.TempDir(), HostEnv: os.Environ(), Source: brokenSource{}, Sink: noSink{},
		ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
	})
	t.Error("the run ended as if nothing had been")
}
