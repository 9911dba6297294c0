package tracefile

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/cleantext"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/replay"
	"github.com/rungci/rung/steps/trace"
)

// WriteWould writes all that a replay of the trace would run, uncut: where, in which environment, which components, and the definition itself,
// which is what the engine is given. What the trace says that ran has no part in it. A nil definition is that of the trace.
func WriteWould(w io.Writer, t *trace.Trace, definition *plan.Component) error {
	if definition == nil {
		definition = t.Run.Component
	}
	if definition == nil {
		_, err := fmt.Fprintln(w, "a replay runs nothing: the trace does not record what ran")
		return err
	}
	data, err := plan.Canonical(definition)
	if err == nil {
		data, err = yamlsource.FromJSON(data)
	}
	if err != nil {
		return fmt.Errorf("the recorded steps cannot be shown: %w", err)
	}
	var b strings.Builder
	line := func(format string, args ...any) {
		fmt.Fprintf(&b, "  %s\n", cleantext.Line(fmt.Sprintf(format, args...)))
	}
	texts := func(what string, texts map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			line("%s %s = %s", what, name, texts[name])
		}
	}
	b.WriteString("a replay runs:\n")
	if env := t.Run.Environment; env != nil {
		if env.Image != nil {
			line("in a %s of %s %s", env.Level, env.Image.Name, env.Image.Digest)
		}
		for i := range env.Services {
			line("with the service %s", env.Services[i].Name)
		}
		texts("variable", env.Variables)
	}
	texts("env", t.Run.Env)
	texts("job", t.Run.Job)
	for _, name := range slices.Sorted(maps.Keys(t.Run.Inputs)) {
		line("input %s = %s", name, t.Run.Inputs[name].AppendJSON(nil))
	}
	for _, name := range slices.Sorted(maps.Keys(t.Run.Secrets)) {
		line("secret %s", name)
	}
	for _, c := range replay.Fetched(t) {
		line("component %s %s, content %s", c.Ref, c.File, c.Digest)
	}
	seen := map[string]bool{}
	t.Walk(func(s *trace.Step, _ int) {
		if r := s.Resolved; r != nil && r.Origin == nil && r.Digest != "" && !seen[r.Dir+"\x00"+r.File+"\x00"+r.Digest] {
			seen[r.Dir+"\x00"+r.File+"\x00"+r.Digest] = true
			line("component %s, the file %s in %s, content %s", r.Ref, r.File, r.Dir, r.Digest)
		}
	})
	for text := range strings.Lines(string(data)) {
		b.WriteString("  " + cleantext.Text(text))
	}
	_, err = io.WriteString(w, b.String())
	return err
}
