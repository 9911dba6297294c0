package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/check"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// preflight loads every local component that is known before the run, so that a mistake in the last one is found before the
// first one starts, and asks whether the others may be used. What does not exist yet may be made by a step; what is conditional may be a recursion that ends.
type preflight struct {
	run     *run
	ctx     context.Context
	checked map[string]bool // by path: nothing is wrong with it
	path    []visit         // from the job to the component at hand
}

// visit is a component on the way to another one.
type visit struct {
	file        string
	ref         string
	conditional bool
}

// all checks the run's own definition.
func (p *preflight) all() *event.Error {
	r := p.run
	if d := &r.opts.Component.Definition; d.Pre != nil || d.Post != nil {
		return r.at(definitionError("pre and post are allowed only in a component that a step calls, not in the run's own definition"), d.Span)
	}
	if err := p.steps(r.opts.Component.Definition.Steps, "", "", r.opts.Dir, false); err != nil {
		return err
	}
	return p.check()
}

// check reports what will be wrong whatever the steps do, all of it at once. Of components it knows those that were loaded on the way here.
func (p *preflight) check() *event.Error {
	r := p.run
	result := check.Definition(p.ctx, r.opts.Component, check.Options{
		Dir: r.opts.Dir,
		Load: func(ref *plan.Reference, from string, _ bool) (*source.Component, error) {
			if ref = r.components.static(ref); ref == nil {
				return nil, nil
			}
			return r.components.loaded[referenceKey(ref, from)], nil
		},
		HasFunction: func(name string) bool { return r.opts.Functions[name] != nil },
		Line:        r.line,
	})
	wrong, _, _ := rules.Split(rules.Apply(result.Found, nil, r.text))
	if len(wrong) == 0 {
		return nil
	}
	first := slices.IndexFunc(result.Found, func(d diag.Diagnostic) bool { return d == wrong[0] })
	for i := range wrong {
		wrong[i].Span = r.shown(wrong[i].Span)
	}
	err := event.NewError(codeOf(wrong[0].Code), "%s", wrong[0].Message)
	if err.Hint = wrong[0].Hint; len(wrong) > 1 {
		err.Message = fmt.Sprintf("the definition has %d errors: %s", len(wrong), wrong[0].Message)
	}
	err.Diagnostics = wrong
	err.Step, err.StepName = result.Steps[first][0], result.Steps[first][1]
	return err
}

// codeOf is the code of an error that breaks a rule.
func codeOf(rule string) event.Code {
	switch rule {
	case rules.UnknownStep, rules.UnknownOutput, rules.UnknownName, rules.UnknownFunction, rules.ExpressionType:
		return event.CodeExpressionInvalid
	case rules.MissingInput, rules.InputType:
		return event.CodeInputInvalid
	case rules.SecretNotRequested:
		return event.CodeSecretNotRequested
	case rules.AccessNotGranted:
		return event.CodeAccessNotGranted
	case rules.SecretNotGranted:
		return event.CodeSecretNotGranted
	case rules.PermissionNotGranted:
		return event.CodeDenied
	}
	return event.CodeDefinitionInvalid
}

// steps checks the steps of the step with the ID prefix, to which the names in path lead.
func (p *preflight) steps(steps []plan.Step, prefix, path, dir string, conditional bool) *event.Error {
	if err := checkWaits(&p.run.places, prefix, path, steps); err != nil {
		return err
	}
	for i := range steps {
		st := &steps[i]
		id, path := childID(prefix, i+1), joined(path, st.Name)
		maybe := conditional || st.If != nil
		err := p.confinable(st)
		switch {
		case err != nil:
		case st.Inline != nil:
			p.run.hooks.expected = p.run.hooks.expected || st.Inline.Definition.Pre != nil
			err = p.steps(st.Inline.Definition.Steps, id, path, dir, maybe)
		case len(st.Parallel) > 0:
			err = p.steps(st.Parallel, id, path, dir, maybe)
		case st.Ref != nil:
			ref := p.known(st.Ref, maybe)
			if ref != nil {
				err = p.reference(st, id, path, ref, dir, maybe)
			}
			if st.Ref.Kind == plan.RefAction && (ref == nil || !ref.IsLocal()) {
				p.run.hooks.expected = true
			}
		}
		if err != nil {
			return p.run.in(err, id, path, st)
		}
	}
	return nil
}

// known returns the reference where it is known before the run, whatever the steps do, else nil. One that leads elsewhere is
// left alone behind a condition: it may never be followed.
func (p *preflight) known(ref *plan.Reference, conditional bool) *plan.Reference {
	static := p.run.components.static(ref)
	if static == nil || conditional && !static.IsLocal() {
		return nil
	}
	return static
}

func (p *preflight) reference(st *plan.Step, id, path string, ref *plan.Reference, dir string, conditional bool) *event.Error {
	if !ref.IsLocal() {
		return p.refused(st, ref, dir)
	}
	key := referenceKey(ref, dir)
	found, lerr := p.run.components.loaded[key], error(nil)
	if found == nil {
		found, lerr = p.run.opts.Source.Load(p.ctx, ref, dir)
	}
	var missing *source.NotFoundError
	if errors.As(lerr, &missing) {
		return nil
	}
	if lerr != nil {
		return p.run.at(loadError(p.ctx, st.Ref.Text, lerr), st.Ref.Span)
	}
	put(&p.run.components.loaded, key, found)
	file := found.Dir + "/" + found.File
	for i, v := range p.path {
		if v.file == file {
			return p.cycle(p.path[i:], st, conditional)
		}
	}
	if p.checked[file] {
		return nil
	}
	p.run.add(found.Plan.Definition.Span.File, found.Text)
	p.run.out.component(found.Plan) // so that no error quotes a sensitive default
	p.path = append(p.path, visit{file, st.Ref.Text, conditional})
	defer func() { p.path = p.path[:len(p.path)-1] }()
	err := p.steps(found.Plan.Definition.Steps, id, path, found.Dir, false)
	p.checked[file] = err == nil
	return err
}

// refused asks whether a component that would have to be fetched can be used at all. It is fetched when control reaches it: a
// step may have to make the way there first.
func (p *preflight) refused(st *plan.Step, ref *plan.Reference, dir string) *event.Error {
	checker, ok := p.run.opts.Source.(source.Checker)
	if !ok {
		return nil
	}
	if err := checker.Check(ref, dir); err != nil {
		return p.run.at(loadError(p.ctx, st.Ref.Text, err), st.Ref.Span)
	}
	return nil
}

// cycle is the error of components that call each other without end.
func (p *preflight) cycle(loop []visit, st *plan.Step, conditional bool) *event.Error {
	refs := []string{}
	for i, v := range loop {
		refs = append(refs, v.ref)
		conditional = conditional || i > 0 && v.conditional
	}
	if conditional {
		return nil
	}
	err := definitionError("components call each other in a cycle: %s -> %s", strings.Join(refs, " -> "), st.Ref.Text)
	err.Hint = "a component may call itself only under an `if` that can end the recursion"
	return p.run.at(err, st.Ref.Span)
}
