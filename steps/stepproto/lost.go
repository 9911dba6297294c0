package stepproto

import (
	"fmt"

	"github.com/rungci/rung/steps/plan"
)

// Lost names everything in a component that the messages have no field for and that changes what a run does, with the place
// of each: what another step-runner would not do that was given the result of ToProto. Descriptions and titles, which
// change nothing, are not named.
func Lost(c *plan.Component) []string {
	var l losses
	l.component(c, "")
	return l
}

// losses are lines such as `steps.build: "timeout"`.
type losses []string

func (l *losses) note(lost bool, place, what string) {
	if lost {
		*l = append(*l, fmt.Sprintf("%s: %q", place, what))
	}
}

func (l *losses) component(c *plan.Component, place string) {
	for name, in := range sorted(c.Spec.Inputs) {
		at := place + "spec.inputs." + name
		l.note(len(in.Options) > 0, at, "options")
		l.note(in.Match != "", at, "match")
	}
	l.note(len(c.Spec.Env) > 0, place+"spec", "env")
	l.note(len(c.Spec.Secrets) > 0, place+"spec", "secrets")
	l.note(len(c.Spec.Exports) > 0, place+"spec", "exports")
	l.note(len(c.Spec.Permissions) > 0, place+"spec", "permissions")
	l.note(c.Spec.Home != "", place+"spec", "home")
	l.note(len(c.Spec.Access) > 0, place+"spec", "access")
	if e := c.Definition.Exec; e != nil {
		l.note(e.Timeout != 0, place+"exec", "timeout")
		l.note(e.Toolkit != "", place+"exec", "toolkit")
	}
	l.steps(c.Definition.Steps, place)
}

func (l *losses) steps(steps []plan.Step, place string) {
	for i := range steps {
		s := &steps[i]
		at := place + "steps." + s.Name
		l.note(s.If != nil, at, "if")
		l.note(s.When != "" && s.When != plan.OnSuccess, at, "when")
		l.note(s.Timeout != 0, at, "timeout")
		l.note(s.Retry != nil, at, "retry")
		l.note(s.AllowFailure != nil, at, "allow_failure")
		l.note(len(s.Secrets) > 0, at, "secrets")
		l.note(len(s.Permissions) > 0, at, "permissions")
		l.note(s.InheritEnv, at, "inherit_env")
		l.note(len(s.AllowExports) > 0, at, "allow_exports")
		l.note(s.Confine != nil, at, "confine")
		l.note(len(s.AllowAccess) > 0, at, "allow_access")
		l.note(len(s.Parallel) > 0, at, "parallel")
		l.steps(s.Parallel, place)
		if s.Inline != nil {
			l.component(s.Inline, at+".")
		}
	}
}
