package engine

import (
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// skip says why a step does not run; "" when it does.
func (s *view) skip(st *plan.Step) (reason string, err *event.Error) {
	when := st.When
	condition, err := s.condition(st.If)
	if err != nil {
		return "", err
	}
	if when == "" && (condition == nil || !condition.Calls(statusFunctions...)) {
		when = plan.OnSuccess
	}
	switch {
	case when == plan.OnFailure && !s.list.failed:
		return "no earlier step failed", nil
	case when == plan.OnSuccess && s.list.cancelled:
		return "the run was cancelled", nil
	case when == plan.OnSuccess && s.list.failed:
		return "an earlier step failed", nil
	}
	holds, err := s.truth(st.If, condition)
	if holds || err != nil {
		return "", err
	}
	return s.unmet(st.If, condition), nil
}

// holds evaluates a condition. None holds. The reason says why one does not.
func (s *view) holds(f *plan.Field) (holds bool, reason string, err *event.Error) {
	condition, err := s.condition(f)
	if err != nil {
		return false, "", err
	}
	if holds, err = s.truth(f, condition); holds || err != nil {
		return holds, "", err
	}
	return false, s.unmet(f, condition), nil
}

// unmet says that a condition does not hold, in the language that it was written in.
func (s *view) unmet(f *plan.Field, condition *expr.Expr) string {
	text := f.Value.Text()
	if condition != nil {
		if function, own := condition.Wrapped(); s.run.opts.Functions[function] != nil {
			text = own
		}
	}
	if condition == nil || text == "false" {
		return "if: " + text
	}
	if strings.Contains(text, "\n") {
		text = strings.Join(strings.Fields(text), " ")
	}
	return "if: " + text + " is false"
}

// condition parses a condition; nil where it is none, or a value as it is.
func (s *view) condition(f *plan.Field) (*expr.Expr, *event.Error) {
	if f == nil || f.Value.Kind() != value.String {
		return nil, nil
	}
	parsed, err := expr.ParseCondition(f.Value.Str())
	if err != nil {
		return nil, s.run.expressionError(err, *f)
	}
	return parsed, nil
}

// truth evaluates what condition made of f.
func (s *view) truth(f *plan.Field, condition *expr.Expr) (bool, *event.Error) {
	switch {
	case f == nil:
		return true, nil
	case condition == nil:
		return f.Value.Truthy(), nil
	}
	v, err := condition.Eval(conditionScope{s})
	if err != nil {
		return false, s.run.expressionError(err, *f)
	}
	return v.Truthy(), nil
}
