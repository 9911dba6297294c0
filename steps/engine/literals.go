package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// literals finds the secrets that are in definitions as plain text: what steps give to sensitive inputs. It looks before the first event, which
// shows that text. A component that would have to be fetched is unknown then; what is given to it counts if the input's name ends as
// credentialEnds have it.
type literals struct {
	run  *run
	ctx  context.Context
	seen map[*plan.Component]bool
}

func (l *literals) steps(steps []plan.Step, dir string) {
	for i := range steps {
		st := &steps[i]
		switch {
		case st.Inline != nil:
			l.steps(st.Inline.Definition.Steps, dir)
		case len(st.Parallel) > 0:
			l.steps(st.Parallel, dir)
		case st.Ref != nil:
			l.call(st, dir)
		}
	}
}

// credentialEnds end the names of inputs that take credentials.
var credentialEnds = []string{"token", "password", "passwd", "passphrase", "secret", "private_key", "private-key", "api_key", "api-key", "jwt", "auth_config"}

// call looks at the inputs of one step, and into its component.
func (l *literals) call(st *plan.Step, dir string) {
	found := l.load(st, dir)
	for name, f := range st.Inputs {
		sensitive := found == nil && slices.ContainsFunc(credentialEnds, func(end string) bool { return strings.HasSuffix(strings.ToLower(name), end) })
		if found != nil {
			sensitive = found.Plan.Spec.Inputs[name].Sensitive
		}
		if sensitive && !expr.Has(string(f.Value.AppendJSON(nil))) {
			f.Value.Mark(true).Secrets(l.run.out.addSecret)
		}
	}
	if found != nil && !l.seen[found.Plan] {
		l.seen[found.Plan] = true
		l.steps(found.Plan.Definition.Steps, found.Dir)
	}
}

// load returns the component of a step, nil where it is not known or would have to be fetched. What is wrong with it is found later.
func (l *literals) load(st *plan.Step, dir string) *source.Component {
	ref := l.run.components.static(st.Ref)
	if ref == nil || !ref.IsLocal() || l.run.opts.Source == nil {
		return nil
	}
	key := referenceKey(ref, dir)
	if found := l.run.components.loaded[key]; found != nil {
		return found
	}
	found, err := l.run.opts.Source.Load(l.ctx, ref, dir)
	if err != nil {
		return nil
	}
	put(&l.run.components.loaded, key, found)
	return found
}
