package github

import (
	"fmt"
	"testing"
)

// BenchmarkThousand parses and evaluates 1,000 expressions, none of which was seen before.
func BenchmarkThousand(b *testing.B) {
	scope := status{world(b), false}
	forms := []string{
		"github.ref == 'refs/heads/branch-%d' && success()", "contains(github.event.labels.*.name, 'label-%d')", "format('{0}-{1}-%d', github.ref, github.event.number)",
		"steps.a.outputs.text || 'default-%d'", "fromJSON(steps.a.outputs.list)[0] == %d", "startsWith(github.ref, 'refs/tags/v%d') || github.event.number > 5", "toJSON(github.event) != '%d'",
	}
	sources := make([]string, 1000)
	b.ReportAllocs()
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		for i := range sources {
			sources[i] = fmt.Sprintf(forms[i%len(forms)], round*len(sources)+i)
		}
		b.StartTimer()
		for _, source := range sources {
			e, err := Parse(source, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := e.Eval(scope); err != nil {
				b.Fatal(err)
			}
		}
	}
}
