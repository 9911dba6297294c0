package check

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/steps/diag/rules"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// statusFunctions free a condition from asking that everything before succeeded.
var statusFunctions = []string{"always", "success", "failure", "cancelled"}

// list checks the steps of a list, in order: each sees those before it.
func (s *scope) list(steps []plan.Step) {
	if len(steps) == 0 {
		return
	}
	s.steps, s.later = maps.Clone(s.steps), map[string]bool{}
	for i := range steps {
		s.later[steps[i].Name] = true
		for j := range steps[i].Parallel {
			s.later[steps[i].Parallel[j].Name] = true
		}
	}
	s.waiting = map[string]expr.Type{}
	ended, told := "", false // the step that always fails
	for i := range steps {
		st := &steps[i]
		s := s.at(i, st)
		if ended != "" && !told && !runsAfterFailure(st) {
			s.report(rules.Unreachable, st.Span, "delete it, or let it run with `when: always`", "the step %q never runs: the step %q always fails before it", st.Name, ended)
			told = true // which is enough
		}
		if len(st.Parallel) > 0 {
			s.group(st)
		} else {
			t, skipped := s.step(st)
			if !skipped && ended == "" && alwaysFails(st) {
				ended = st.Name
			}
			if st.Background {
				s.waiting[st.Name] = t
				continue
			}
			s.steps[st.Name] = t
		}
		delete(s.later, st.Name)
		s.waited(st.Await)
	}
	s.waited(&plan.Await{})
}

// at is the scope of a step of the list, which shares what the list knows.
func (s *scope) at(i int, st *plan.Step) *scope {
	c := *s
	c.id, c.path = strconv.Itoa(i+1), st.Name
	if s.id != "" {
		c.id, c.path = s.id+"."+c.id, s.path+"/"+st.Name
	}
	return &c
}

// waited makes known the background steps that a step waits for.
func (s *scope) waited(a *plan.Await) {
	if a == nil {
		return
	}
	for name, t := range s.waiting {
		if len(a.Steps) == 0 || slices.Contains(a.Steps, name) {
			s.steps[name] = t
			delete(s.later, name)
			delete(s.waiting, name)
		}
	}
}

// group checks a parallel group, whose members do not see each other.
func (s *scope) group(st *plan.Step) {
	if _, skipped := s.reached(st); skipped {
		for i := range st.Parallel {
			s.steps[st.Parallel[i].Name] = stepType(expr.OfKind(value.Struct))
		}
		return
	}
	s.fields(st.Env)
	types := make([]expr.Type, len(st.Parallel))
	for i := range st.Parallel {
		member := s.at(i, &st.Parallel[i]).child()
		member.maybe = s.maybe || st.If != nil
		types[i], _ = member.step(&st.Parallel[i])
	}
	for i := range st.Parallel {
		s.steps[st.Parallel[i].Name] = types[i]
		delete(s.later, st.Parallel[i].Name)
	}
}

// reached checks the condition of a step, and whether it can hold.
func (s *scope) reached(st *plan.Step) (conditional, skipped bool) {
	v, constant := s.condition(st.If)
	if constant && !v.Truthy() {
		s.report(rules.Unreachable, st.If.Span, "delete it, or change its condition", "the step %q never runs: its condition is always false", st.Name)
		return true, true
	}
	return st.If != nil && !constant, false
}

// step checks one step and returns what others can know of it. What a step would do that never runs is not wrong.
func (s *scope) step(st *plan.Step) (t expr.Type, skipped bool) {
	conditional, skipped := s.reached(st)
	if skipped {
		return stepType(expr.OfKind(value.Struct)), true
	}
	own := *s
	own.grants = st.Secrets
	own.fields(st.Env)
	s.optional(st.TimeLimit)
	inner := s.child()
	inner.maybe = s.maybe || conditional
	outputs := expr.OfKind(value.Struct)
	switch {
	case st.Inline != nil:
		call{s, st, &st.Inline.Spec}.secrets()
		inner.definition(&st.Inline.Definition)
		outputs = outputType(&st.Inline.Spec, &st.Inline.Definition, inner)
	case st.Ref != nil:
		outputs = inner.call(st)
	}
	if st.AllowFailure != nil && st.AllowFailure.If != nil {
		after := s.child()
		after.steps = maps.Clone(s.steps)
		after.steps[st.Name] = stepType(expr.OfKind(value.Struct))
		after.condition(st.AllowFailure.If)
	}
	return stepType(outputs), false
}

// stepType is what ${{ steps.NAME }} reads.
func stepType(outputs expr.Type) expr.Type {
	return expr.ClosedStruct(map[string]expr.Type{
		"status": expr.OfKind(value.String), "allowed": expr.OfKind(value.Boolean), "timeout": expr.OfKind(value.String), "outputs": outputs,
	})
}

func runsAfterFailure(st *plan.Step) bool {
	if st.When == plan.Always || st.When == plan.OnFailure || st.Await != nil {
		return true
	}
	if st.When != "" || st.If == nil || st.If.Value.Kind() != value.String {
		return false
	}
	e, err := expr.ParseCondition(st.If.Value.Str())
	return err != nil || e.Calls(statusFunctions...)
}

var failingExit = lazyregexp.New(`^exit +0*[1-9][0-9]{0,2}$`)

// anyExit finds what may end a script earlier, or leave the last line out.
var anyExit = regexp.MustCompile(`\b(exit|return|exec|kill|trap)\b|\|\||&&|<<|\\$`)

// alwaysFails reports whether a step fails whatever it runs with: its script ends in a plain `exit 1`, or is `false`.
func alwaysFails(st *plan.Step) bool {
	if st.If != nil || st.When == plan.OnFailure || st.AllowFailure != nil || st.Background || st.Inline == nil || st.Inline.Definition.Exec == nil {
		return false
	}
	x := st.Inline.Definition.Exec
	if x.Script == nil {
		return len(x.Command) == 1 && x.Command[0].Value.Text() == "false"
	}
	if !slices.Contains([]string{"", plan.ShellBash, plan.ShellSh}, x.Script.Shell) {
		return false
	}
	lines := strings.Split(strings.TrimRight(x.Script.Text.Value.Text(), " \t\r\n"), "\n")
	last, before := lines[len(lines)-1], strings.Join(lines[:len(lines)-1], "\n")
	if expr.Has(before) || anyExit.MatchString(before) || strings.Count(before, `"`)%2 != 0 || strings.Count(before, "'")%2 != 0 {
		return false
	}
	return failingExit.MatchString(last) || last == "false" && len(lines) == 1
}
