package gitlabsteps

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// checkDelegate checks that the step whose outputs a list passes on is in the list. n is the map with the list's keys.
func (p stepReader) checkDelegate(d *plan.Definition, n *yamlsource.Node) {
	delegate := n.Get("delegate")
	if delegate == nil || d.Delegate == "" {
		return
	}
	if n.Get("outputs") != nil {
		p.report(keySpan(n, "delegate"), "keep one of them", "a list of steps has outputs or a delegate, not both")
	}
	names := map[string]bool{} // and whether the step has outputs
	stepNames(d.Steps, names)
	gives, known := names[d.Delegate]
	switch {
	case known && !gives:
		p.report(delegate.Span, "name one of its steps", "%q is a parallel group, which has no outputs of its own", d.Delegate)
	case !known:
		sorted := slices.Sorted(maps.Keys(names))
		hint := "give the step that is meant this name"
		if like := diag.Suggest(d.Delegate, sorted); like != "" {
			hint = fmt.Sprintf("did you mean %q?", like)
		}
		p.report(delegate.Span, hint, "no step here is named %q", shorten(d.Delegate))
	}
}

// checkWaits checks that steps wait for background steps that come before them.
func (p stepReader) checkWaits(list *yamlsource.Node, steps []plan.Step) {
	var names []string
	for i := range steps {
		s, item := &steps[i], list.Items[i]
		for j := range s.Parallel {
			if member := item.Get("parallel").Items[j]; s.Parallel[j].Background || s.Parallel[j].Await != nil {
				p.report(member.Span, "move it out of the group", "a step of a parallel group cannot be in the background, and cannot wait")
			}
		}
		if s.Background {
			names = append(names, s.Name)
		}
		if s.Await == nil {
			continue
		}
		for _, name := range s.Await.Steps {
			if slices.Contains(names, name) {
				continue
			}
			hint := "a step that others wait for has `background: true`"
			if like := diag.Suggest(name, names); like != "" {
				hint = fmt.Sprintf("did you mean %q?", like)
			}
			p.report(item.Span, hint, "no background step before it is named %q", shorten(name))
		}
	}
}

func stepNames(steps []plan.Step, names map[string]bool) {
	for i := range steps {
		names[steps[i].Name] = len(steps[i].Parallel) == 0
		stepNames(steps[i].Parallel, names)
	}
}

// checkOutputs checks that a file's definition gives the outputs that its spec promises.
func (p *parser) checkOutputs(c *plan.Component, spec, definition *yamlsource.Node) {
	d := &c.Definition
	if d.Exec != nil || definition.Kind != yamlsource.Mapping {
		return // a command's outputs are known when it has run
	}
	p.steps.checkDelegate(d, definition)
	if c.Spec.DelegateOutputs {
		if outputs := definition.Get("outputs"); outputs != nil && definition.Get("delegate") == nil {
			p.report(keySpan(definition, "outputs"), "write `delegate:` with the name of a step", "the spec says that the outputs are delegated")
		} else if definition.Get("delegate") == nil {
			p.report(spec.Get("spec").Get("outputs").Span, "add `delegate:` with the name of a step to the definition", "the outputs are delegated, but the definition has no delegate")
		}
		return
	}
	if d.Delegate != "" {
		p.report(keySpan(definition, "delegate"), "write `outputs: delegate` in the spec", "the spec does not say that the outputs are delegated")
		return
	}
	p.checkGiven(c, definition.Get("outputs"))
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Outputs)) {
		out := c.Spec.Outputs[name]
		if _, given := d.Outputs[name]; !given && out.Default == nil {
			p.report(out.Span, "add it to `outputs` of the definition, or give it a default", "the output %q is declared, but never given", name)
		}
	}
}

// checkGiven checks the outputs that a definition gives against the spec, as far as that can be known before it runs.
func (p *parser) checkGiven(c *plan.Component, outputs *yamlsource.Node) {
	if outputs == nil {
		return
	}
	names := slices.Sorted(maps.Keys(c.Spec.Outputs))
	for _, e := range outputs.Entries {
		name := e.Key.Text
		out, declared := c.Spec.Outputs[name]
		if !declared {
			hint := "declare it in `spec.outputs`"
			if like := diag.Suggest(name, names); like != "" && !p.source.Full() {
				hint = fmt.Sprintf("did you mean %q?", like)
			}
			if namePattern.MatchString(name) {
				p.report(e.Key.Span, hint, "the spec does not declare the output %q", name)
			}
			continue
		}
		if text := e.Value; text.Kind != yamlsource.String || !expr.Has(text.Text) {
			p.specs.fits(e.Value, out.Type, fmt.Sprintf("the output %q", name))
		}
	}
}
