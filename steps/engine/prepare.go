package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// prepare finds out all that a step is given: its component, environment, inputs and secrets. It returns the scope that the
// step's definition runs in.
func (r *run) prepare(ctx context.Context, s *scope, inv *invocation) (*scope, *event.Error) {
	st := inv.step
	vars, err := s.ownEnv(st)
	if err != nil {
		return nil, err
	}
	caller := s.child() // the item's own environment is visible in its inputs and its reference
	caller.env = s.env.with(vars)
	inv.given.Env = shownVariables(vars, r.out)

	inner := caller.child()
	inner.path = joined(s.path, st.Name)
	if st.Inline != nil {
		inv.spec, inv.def = &st.Inline.Spec, &st.Inline.Definition
	} else if st.Ref == nil {
		return nil, definitionError("the step has nothing to do")
	} else if err := r.enter(ctx, caller, inner, inv, vars); err != nil {
		return nil, err
	}
	granted, err := s.grant(st, inv.spec)
	if err != nil {
		return nil, err
	}
	inner, err = inner.request(inv.spec, granted)
	if err != nil {
		return nil, err
	}
	if st.Ref != nil {
		inner.known = inner.secrets
	}
	inv.given.Secrets = slices.Sorted(maps.Keys(inner.secrets))
	return inner, nil
}

// enter makes inner the scope of the component that the step refers to, to which the caller passes the variables.
func (r *run) enter(ctx context.Context, caller, inner *scope, inv *invocation, vars map[string]variable) *event.Error {
	st := inv.step
	if inner.depth++; inner.depth > MaxDepth {
		return definitionError("components call each other more than %d levels deep; is there a cycle?", MaxDepth)
	}
	if inv.found == nil {
		var err *event.Error
		if inv.found, err = r.load(ctx, caller, inv); err != nil {
			return err
		}
		r.components.announce(inv.id, inv.found)
	}
	found := inv.found
	component := found.Plan
	inv.spec, inv.def = &component.Spec, &component.Definition
	given := map[string]value.Value{}
	calling := &call{step: st, from: caller, passed: vars, spec: inv.spec, origin: found.Origin, reads: r.components.envReads(component)}
	if err := calling.permit(); err != nil {
		return err
	}
	inv.given.Permissions = calling.spec.Permissions
	if calling.isAction() {
		inv.given.Permissions = st.Permissions
	}
	if !calling.open() && !st.InheritEnv && inv.spec.Home != plan.HomeJob {
		calling.home = r.dirs.homeOf(inv.id)
	}
	inner.env = calling.environ(caller.parent.env)
	for _, name := range slices.Sorted(maps.Keys(st.Inputs)) {
		f := st.Inputs[name]
		v, err := caller.expand(f)
		if err != nil {
			return err
		}
		if st.Ref.Kind == plan.RefAction {
			v = actionInput(v)
		}
		if name, err = caller.expandName(name, f); err != nil {
			return err
		}
		given[name] = v
		calling.remember(f, v)
	}
	inner.dir, inner.inputs, inner.steps, inner.list, inner.top = found.Dir, value.Value{}, nil, nil, false
	inner.origin, inner.call, inner.may = found.Origin, calling, calling.permissions()
	if err := calling.allowsAccess(); err != nil {
		return r.at(err, st.Span)
	}
	if err := inner.admit(inv, given); err != nil {
		return err
	}
	inputs, ierr := checkInputs(inv.spec, given)
	if ierr != nil {
		return r.at(ierr.event(), inputSpan(st, ierr.name))
	}
	r.out.addSensitive(inputs)
	inv.given.Inputs = r.out.recordAll(inputs)
	inner.inputs = value.OfStruct(inputs)
	return nil
}

// ownEnv evaluates the environment that a step's caller gives it, which may hold the secrets that it is granted.
func (s *scope) ownEnv(st *plan.Step) (map[string]variable, *event.Error) {
	of := s.view
	if len(st.Secrets) > 0 {
		of.granted = map[string]string{}
		for name, own := range st.Secrets {
			if secret, ok := s.secrets[own]; ok {
				of.granted[name] = secret
			}
		}
	}
	return of.expandEnv(st.Env)
}

// joined is the path of the step with the name in the step at the path.
func joined(path, name string) string {
	if path == "" {
		return name
	}
	return path + "/" + name
}

// load resolves the step's reference and loads what it names.
func (r *run) load(ctx context.Context, caller *scope, inv *invocation) (*source.Component, *event.Error) {
	ref, err := caller.resolve(inv.step.Ref)
	if err != nil {
		return nil, err
	}
	ctx = source.WithStep(source.WithProgress(ctx, func(p event.Progress) { r.out.emit(inv.id, p) }), inv.id)
	found, lerr := r.opts.Source.Load(ctx, ref, caller.dir)
	if lerr != nil {
		return nil, r.at(loadError(ctx, ref.Text, lerr), inv.step.Ref.Span)
	}
	r.components.learn(found)
	r.components.meet(inv.id, ref, found)
	return found, nil
}

// resolve evaluates the expressions in a reference. Their results are data: they are never evaluated again.
func (s *scope) resolve(ref *plan.Reference) (*plan.Reference, *event.Error) {
	if ref.Kind == plan.RefDynamic {
		text, _, err := s.expandText(*ref.Expr)
		if err != nil {
			return nil, err
		}
		s.run.out.addSecret(password(text)) // also of what turns out to be none
		parsed, perr := s.run.opts.ParseReference(text)
		if perr != nil {
			return nil, s.run.fieldError(*ref.Expr, "%q, from %q, is not a reference: %v", text, ref.Text, perr)
		}
		return parsed, nil
	}
	out := *ref
	out.Path = slices.Clone(ref.Path)
	for _, part := range templates(&out) {
		if !expr.Has(*part) {
			continue
		}
		text, _, err := s.expandText(plan.Field{Value: value.OfString(*part), Span: ref.Span})
		if err != nil {
			return nil, err
		}
		*part = text
	}
	if ref.Kind == plan.RefAction && ref.Text == ref.Action {
		out.Text = out.Action
	}
	s.run.out.addSecret(password(out.URL))
	return &out, nil
}

// password returns what of a URL must not be shown. Where an expression makes it, it is known when that has been evaluated.
func password(url string) string {
	if secret := source.Password(url); !expr.Has(secret) {
		return secret
	}
	return ""
}

// grant looks up the secrets that the step's caller grants it.
func (s *scope) grant(st *plan.Step, spec *plan.Spec) (map[string]string, *event.Error) {
	granted := make(map[string]string, len(st.Secrets))
	for _, name := range slices.Sorted(maps.Keys(st.Secrets)) {
		if _, ok := spec.Secrets[name]; !ok {
			return nil, hinted(event.NewError(event.CodeSecretNotRequested, "the secret %s is granted to a step that does not request it", name),
				fmt.Sprintf("remove it from `secrets`, or let the step request it with `spec: {secrets: {%s: {}}}`", name))
		}
		own := st.Secrets[name]
		secret, ok := s.secrets[own]
		if !ok {
			return nil, hinted(event.NewError(event.CodeSecretNotGranted, "the secret %s cannot be granted: it is not available here", own),
				fmt.Sprintf("pass it to the run with --secret %s; in a component, request it in spec.secrets first", own))
		}
		granted[name] = secret
	}
	return granted, nil
}

// request gives the scope what the spec asks for: environment variables by name, and the secrets that were granted.
func (s *scope) request(spec *plan.Spec, granted map[string]string) (*scope, *event.Error) {
	extra := map[string]variable{}
	for name, req := range spec.Env {
		if _, ok := s.env.vars[name]; ok || plan.IsPattern(name) {
			continue
		}
		if v, ok := s.run.opts.Job[name]; ok && !v.Sensitive {
			extra[name] = variable{text: v.Value}
		} else if req.Default != nil {
			extra[name] = variable{text: *req.Default}
		} else if !req.Optional {
			return nil, s.run.at(hinted(event.NewError(event.CodeInputInvalid, "the step requires the environment variable %s, which is not set", name),
				fmt.Sprintf("set it with `env: {%s: …}` on the step, or --env %s=… for the run", name, name)), req.Span)
		}
	}
	s.env = s.env.with(extra)
	s.own, s.secrets = nil, nil
	for name, req := range spec.Secrets {
		secret, ok := granted[name]
		if !ok {
			if req.Optional {
				continue
			}
			return nil, s.run.at(hinted(event.NewError(event.CodeSecretNotGranted, "the step requests the secret %s, which was not granted", name),
				fmt.Sprintf("grant it with `secrets: [%s]` on the step, and pass it to the run with --secret %s", name, name)), req.Span)
		}
		if s.own == nil {
			s.own, s.secrets = map[string]variable{}, map[string]string{}
		}
		s.own[name], s.secrets[name] = variable{text: secret, sensitive: true}, secret
	}
	return s, nil
}

// inputSpan is where the input is given, or where the step stands when it is not.
func inputSpan(st *plan.Step, name string) diag.Span {
	if f, ok := st.Inputs[name]; ok {
		return f.Span
	}
	return st.Span
}
