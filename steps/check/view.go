package check

import (
	"slices"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/value"
)

// view is what expressions see at one place of a definition. It implements expr.Types.
type view struct {
	inputs      expr.Type
	steps       map[string]expr.Type // those that have run
	grants      map[string]string    // the secrets of a step whose own env this is
	hasFunction func(name string) bool
}

var names = []string{"context", "env", "func_dir", "inputs", "job", "step_dir", "steps", "vars", "work_dir"}

// Type implements expr.Types.
func (v *view) Type(name string) (expr.Type, bool) {
	switch name {
	case "inputs":
		return v.inputs, true
	case "steps":
		return expr.ClosedStruct(v.steps), true
	case "secrets":
		if v.grants == nil {
			return expr.Type{}, false
		}
		granted := map[string]expr.Type{}
		for name := range v.grants {
			granted[name] = expr.OfKind(value.String)
		}
		return expr.ClosedStruct(granted), true
	case "env", "vars", "job", "context":
		return expr.OfKind(value.Struct), true
	case "work_dir", "step_dir", "func_dir", "input_file", "output_file", "export_file":
		return expr.OfKind(value.String), true
	}
	return expr.Type{}, false
}

// Names implements expr.Types.
func (v *view) Names() []string {
	if v.grants != nil {
		return append(slices.Clone(names), "secrets")
	}
	return names
}

// HasFunction implements expr.Types.
func (v *view) HasFunction(name string) bool {
	switch name {
	case "always", "success", "failure", "cancelled":
		return true
	}
	return v.hasFunction == nil || v.hasFunction(name)
}
