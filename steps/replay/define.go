package replay

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// define finds the run's own component: from the recorded source, so that errors can show their place, or else as recorded.
func (r *Replay) define(g *given) error {
	t := r.recorded
	if t.Run.Component == nil {
		return wrong("the trace does not say what was run: run.component is missing")
	}
	if r.opts.Text != nil {
		component, err := r.parse(r.opts.TextName, r.opts.Text, nil)
		if err != nil {
			return err
		}
		r.component, r.text = component, r.opts.Text
		g.needs.own(component)
		return r.fill(g)
	}
	want, err := plan.Canonical(t.Run.Component)
	if err != nil {
		return wrong("the recorded steps cannot be read: %v", err)
	}
	if t.Run.Source != "" {
		if c, err := r.parse(r.sourceName(), []byte(t.Run.Source), want); err == nil && c != nil {
			r.component, r.text = c, []byte(t.Run.Source)
		}
	}
	if r.component == nil {
		if r.component, err = r.relocation().component(t.Run.Component); err != nil {
			return err
		}
		r.text = []byte(t.Run.Source)
		if t.Run.Source != "" && !bytes.Contains(want, []byte(`"$sensitive"`)) && !strings.Contains(t.Run.Source, mask.Replacement) {
			r.note("the recorded text of the steps does not mean what was run; what was run is run again")
		}
	}
	return r.fill(g)
}

// parse tries the parsers until one gives the wanted component; without one the first that understands the text is right.
func (r *Replay) parse(name string, text, want []byte) (*plan.Component, error) {
	var first error
	for _, parse := range r.opts.Parsers {
		component, err := parse(name, text)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if want == nil {
			return component, nil
		}
		if got, err := plan.Canonical(component); err == nil && bytes.Equal(got, want) {
			return component, nil
		}
	}
	return nil, first
}

// sourceName is what the text was called, so that places in it have the same names.
func (r *Replay) sourceName() string {
	for _, s := range r.recorded.Steps {
		if s.Span.File != "" {
			return s.Span.File
		}
	}
	return "STEPS"
}

// urlPassword is a password in a URL, of which a trace shows that there was one.
var urlPassword = lazyregexp.New(`://[^/@\s"]*\[MASKED\][^/@\s"]*@`)

// fill puts what was given in the place of what the recorded component does not show.
func (r *Replay) fill(g *given) error {
	filled := *r.component
	filled.Spec.Inputs = maps.Clone(filled.Spec.Inputs)
	r.inputs = map[string]value.Value{}
	for _, name := range sortedKeys(r.recorded.Run.Inputs) {
		if v, ok := g.value("input", name, filled.Spec.Inputs[name].Type, r.recorded.Run.Inputs[name]); ok {
			r.inputs[name] = v
		}
	}
	for _, name := range sortedKeys(filled.Spec.Inputs) {
		in := filled.Spec.Inputs[name]
		if _, has := r.inputs[name]; in.Default == nil || !withheld(*in.Default) {
			continue
		} else if has {
			in.Default = nil // it was given, so that what it would have been does not matter
		} else if v, ok := g.value("input", name, in.Type, *in.Default); ok {
			in.Default = &v
		}
		filled.Spec.Inputs[name] = in
	}
	r.fillContext(&filled, g)
	r.fillCall(&filled, g)
	r.component = &filled
	if err := checkShape(&filled, 0); err != nil {
		return err
	}
	return r.holes(g)
}

// fillContext does so for what the run was told is known.
func (r *Replay) fillContext(c *plan.Component, g *given) {
	fields := maps.Clone(c.Definition.Context)
	for _, name := range sortedKeys(fields) {
		recorded := fields[name].Value
		if !withheld(recorded) {
			continue
		}
		kind := value.String
		if _, whole := event.IsRedacted(recorded); !whole {
			kind = recorded.Kind()
		}
		if v, ok := g.value("context value", name, kind, recorded); ok {
			fields[name] = plan.Field{Value: expr.EscapeValue(v)}
		}
	}
	c.Definition.Context = fields
}

// fillCall does so for the inputs of a run that calls a single component.
func (r *Replay) fillCall(c *plan.Component, g *given) {
	steps := c.Definition.Steps
	if len(r.text) > 0 || len(steps) != 1 || steps[0].Ref == nil {
		return
	}
	steps = slices.Clone(steps)
	st := &steps[0]
	st.Inputs = maps.Clone(st.Inputs)
	was := r.recorded.Find("1")
	for _, name := range sortedKeys(st.Inputs) {
		recorded := st.Inputs[name].Value
		if !withheld(recorded) {
			continue
		}
		if was != nil && withheld(was.Inputs[name]) {
			recorded = was.Inputs[name]
		}
		if v, ok := g.value("input", name, value.String, recorded); ok {
			st.Inputs[name] = plan.Field{Value: expr.EscapeValue(v)}
		}
	}
	c.Definition.Steps = steps
}

// holes is the error of a definition in which a secret stood as it is: nothing says which.
func (r *Replay) holes(g *given) error {
	if len(g.missing) > 0 || r.opts.Text != nil {
		return nil
	}
	if !hasHoles(r.component) {
		return nil
	}
	e := wrong("a secret was in the text of the recorded steps, so that the trace does not hold all of it")
	e.Hint = "give the file with the steps: --steps FILE"
	return e
}

// maxNesting bounds how deep a recorded definition may be.
const maxNesting = 200

// checkShape makes sure of what every frontend promises the engine, because nobody promises it for a trace.
func checkShape(c *plan.Component, depth int) error {
	d := &c.Definition
	switch {
	case depth > maxNesting:
		return wrong("the recorded steps stand more than %d levels deep in each other", maxNesting)
	case d.Exec != nil && len(d.Steps) > 0:
		return wrong("a recorded definition has both a command and steps")
	}
	processes := []*plan.Exec{d.Exec}
	for _, h := range []*plan.Hook{d.Pre, d.Post} {
		if h != nil && h.Exec == nil {
			return wrong("a recorded definition has a pre or post without a command")
		} else if h != nil {
			processes = append(processes, h.Exec)
		}
	}
	for _, x := range processes {
		if x != nil && (x.Script == nil) == (len(x.Command) == 0) {
			return wrong("a recorded definition has no command, or both a command and a script")
		}
	}
	return checkSteps(d.Steps, depth)
}

func checkSteps(steps []plan.Step, depth int) error {
	for i := range steps {
		st := &steps[i]
		kinds := 0
		for _, is := range []bool{st.Ref != nil, st.Inline != nil, len(st.Parallel) > 0, st.Await != nil} {
			if is {
				kinds++
			}
		}
		switch {
		case kinds != 1:
			return wrong("the recorded step %q is not one thing: a reference, a definition, a group or a wait", st.Name)
		case st.Ref != nil && st.Ref.Kind == plan.RefDynamic && st.Ref.Expr == nil:
			return wrong("the recorded step %q refers to nothing", st.Name)
		case depth > maxNesting:
			return wrong("the recorded steps stand more than %d levels deep in each other", maxNesting)
		}
		if st.Inline != nil {
			if err := checkShape(st.Inline, depth+1); err != nil {
				return err
			}
		}
		if err := checkSteps(st.Parallel, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// variables finds the environment and the job variables. Variables that pointed into the recorded run's own folder are made again.
func (r *Replay) variables(g *given) {
	run, at := &r.recorded.Run, r.relocation()
	own := r.recorded.OwnFolders()
	inOwn := func(text string) bool {
		return slices.ContainsFunc(own, func(folder string) bool {
			return strings.HasPrefix(text, folder+"/") || strings.HasPrefix(text, folder+`\`)
		})
	}
	r.env, r.hostHome = map[string]string{}, true
	for _, name := range sortedKeys(run.Env) {
		if inOwn(run.Env[name]) {
			r.hostHome = false
			continue
		}
		if _, other := r.opts.Env[name]; other {
			continue
		}
		if text, _, ok := g.variable(name, run.Env[name]); ok {
			r.env[name] = at.text(text)
		}
	}
	maps.Copy(r.env, r.opts.Env)
	r.home("HOME")
	r.home("USERPROFILE")
	r.job = map[string]engine.Variable{}
	for _, name := range sortedKeys(run.Job) {
		if text, sensitive, ok := g.text("job variable", name, run.Job[name]); ok {
			r.job[name] = engine.Variable{Value: at.text(text), Sensitive: sensitive}
		}
	}
}

// variable returns a variable of the base environment. One that holds a secret has to be given with the others that are changed.
func (g *given) variable(name, recorded string) (text string, sensitive, ok bool) {
	if strings.Contains(recorded, mask.Replacement) || strings.HasPrefix(recorded, sensitivePrefix) {
		g.missing = append(g.missing, environmentKind+" "+name)
		return "", false, false
	}
	return recorded, false, true
}
