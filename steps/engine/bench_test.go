package engine_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// BenchmarkSteps runs lists of steps; a figure of one operation is that of one step.
func BenchmarkSteps(b *testing.B) {
	if runtime.GOOS == "windows" {
		b.Skip("needs /bin/true")
	}
	for kind, step := range map[string]string{
		"exec":   "- {name: s%d, exec: {command: [/bin/true]}}\n",
		"script": "- {name: s%d, script: 'true'}\n",
	} {
		b.Run(kind, func(b *testing.B) {
			var list strings.Builder
			for i := range b.N {
				fmt.Fprintf(&list, step, i)
			}
			component, err := gitlabsteps.ParseSteps("STEPS", []byte(list.String()))
			if err != nil {
				b.Fatal(err)
			}
			dir := b.TempDir()
			b.ResetTimer()
			result := engine.Run(b.Context(), engine.Options{
				Component: component, Dir: dir, WorkDir: dir,
				HostEnv:        os.Environ(),
				Source:         &source.Local{Parse: gitlabsteps.ParseFile},
				ParseReference: func(text string) (*plan.Reference, error) { return gitlabsteps.ParseStaticReference(text, diag.Span{}) },
				Sink:           sinkFunc(func(event.Event) {}),
			})
			if result.Status != event.Success {
				b.Fatal(result.Error)
			}
		})
	}
}
