package gitlabsteps

import (
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

func (w *writer) spec(s *plan.Spec) node {
	out := node{object: true}
	out.addText("description", s.Description)
	if len(s.Inputs) > 0 {
		out.add("inputs", named(s.Inputs, func(in plan.Input) node {
			n := declaration(in.Type, in.Default, in.Sensitive, in.Description)
			if in.Computed != nil {
				n.add("computed", fieldNode(*in.Computed))
			}
			n.addText("deprecated", in.Deprecated)
			if len(in.Options) > 0 {
				n.add("options", valueNode(value.OfArray(in.Options)))
			}
			n.addText("match", in.Match)
			return n
		}))
	}
	if s.AnyInputs {
		out.add("any_inputs", boolNode(true))
	}
	if s.AnyOutputs {
		out.add("any_outputs", boolNode(true))
	}
	if s.DelegateOutputs {
		out.add("outputs", textNode("delegate"))
	} else if len(s.Outputs) > 0 {
		out.add("outputs", named(s.Outputs, func(o plan.Output) node { return declaration(o.Type, o.Default, o.Sensitive, o.Description) }))
	}
	if len(s.Env) > 0 {
		out.add("env", named(s.Env, func(e plan.EnvRequest) node {
			n := node{object: true}
			if e.Default != nil {
				n.add("default", textNode(*e.Default))
			}
			if e.Optional {
				n.add("optional", boolNode(true))
			}
			n.addText("description", e.Description)
			return n
		}))
	}
	if len(s.Exports) > 0 {
		out.add("exports", textsNode(s.Exports))
	}
	out.addText("home", s.Home)
	if len(s.Permissions) > 0 {
		out.add("permissions", named(s.Permissions, textNode))
	}
	if len(s.Access) > 0 {
		out.add("access", textsNode(s.Access))
	}
	if len(s.Secrets) > 0 {
		out.add("secrets", named(s.Secrets, func(e plan.SecretRequest) node {
			n := node{object: true}
			if e.Optional {
				n.add("optional", boolNode(true))
			}
			n.addText("description", e.Description)
			return n
		}))
	}
	return out
}

func declaration(kind value.Kind, def *value.Value, sensitive bool, description string) node {
	var n node
	n.add("type", textNode(kind.String()))
	if def != nil {
		n.add("default", valueNode(*def))
	}
	if sensitive {
		n.add("sensitive", boolNode(true))
	}
	n.addText("description", description)
	return n
}
