package when

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
)

// Decide decides by rules: the first one whose conditions hold applies. Its `when` is that of the rule, or else fallback, which
// is the job's own, and Always for workflows and includes. When no rule applies, the answer is Never. Rules that are nil were not
// given, and the answer is fallback; with rules that are empty no rule applies.
//
// An error is a *RuleError: one of the facts', or one that says that an `if` cannot be evaluated.
func Decide(rules []Rule, fallback When, facts Facts) (Verdict, error) {
	if rules == nil {
		return Verdict{Rule: NoRule, When: fallback, reason: func() string { return "there are no rules" }}, nil
	}
	var notes []string
	tried := make([]trial, len(rules))
	for i := range rules {
		t, err := try(&rules[i], facts)
		if err != nil {
			return Verdict{}, &RuleError{Rule: i, Err: err}
		}
		notes = append(notes, t.notes...)
		tried[i] = t
		if !t.applies {
			continue
		}
		r := &rules[i]
		why := func() string { return t.why(r, facts) }
		v := Verdict{
			Rule: i, When: r.When, StartIn: r.StartIn, AllowFailure: r.AllowFailure, Interruptible: r.Interruptible,
			Variables: r.Variables, Notes: notes,
			reason: func() string { return fmt.Sprintf("rule %d: %s", i+1, why()) },
		}
		if len(rules) == 1 {
			v.why = why
		}
		if v.When == "" {
			v.When = fallback
		}
		return v, nil
	}
	v := Verdict{Rule: NoRule, When: Never, Notes: notes, reason: func() string { return whyNone(rules, tried, facts) }}
	if len(rules) == 1 {
		v.why = func() string { return tried[0].why(&rules[0], facts) }
	}
	return v, nil
}

// RuleError says that a rule cannot be decided.
type RuleError struct {
	Rule int // the index
	Err  error
}

// Error names the rule, counted from 1.
func (e *RuleError) Error() string { return fmt.Sprintf("rule %d: %v", e.Rule+1, e.Err) }

// Unwrap returns the error of the rule.
func (e *RuleError) Unwrap() error { return e.Err }

// trial is how a rule was tried: which of its conditions decided, and what the facts said.
type trial struct {
	applies         bool
	failed          condition
	changed, exists Answer
	notes           []string
}

// condition is one of a rule's conditions.
type condition int

const (
	noCondition condition = iota
	ifCondition
	changesCondition
	existsCondition
)

// try tries a rule's conditions, those that cost least first.
func try(r *Rule, facts Facts) (t trial, err error) {
	if r.If != nil {
		result, err := r.If.Eval(facts.Lookup)
		if err != nil {
			return t, err
		}
		t.notes = result.Notes
		if !result.True {
			t.failed = ifCondition
			return t, nil
		}
	}
	if r.Changes != nil {
		if t.changed, err = facts.Changed(*r.Changes); err != nil {
			return t, fmt.Errorf("changes: %w", err)
		}
		if !t.changed.Yes {
			t.failed = changesCondition
			return t, nil
		}
	}
	if r.Exists != nil {
		if t.exists, err = facts.Exists(*r.Exists); err != nil {
			return t, fmt.Errorf("exists: %w", err)
		}
		if !t.exists.Yes {
			t.failed = existsCondition
			return t, nil
		}
	}
	t.applies = true
	return t, nil
}

// why says why the rule applies, or what of it does not hold.
func (t trial) why(r *Rule, facts Facts) string {
	switch t.failed {
	case ifCondition:
		return explain(r.If, facts)
	case changesCondition:
		return whyChanged(t.changed, r.Changes.patterns())
	case existsCondition:
		return whyExists(t.exists, r.Exists.patterns())
	}
	var parts []string
	if r.If != nil {
		parts = append(parts, explain(r.If, facts))
	}
	if r.Changes != nil {
		parts = append(parts, whyChanged(t.changed, r.Changes.patterns()))
	}
	if r.Exists != nil {
		parts = append(parts, whyExists(t.exists, r.Exists.patterns()))
	}
	if len(parts) == 0 {
		return "it has no conditions"
	}
	return strings.Join(parts, ", and ")
}

func explain(e *rule.Expression, facts Facts) string { return e.Explain(facts.Lookup, facts.IsMasked) }

func whyChanged(a Answer, paths []string) string {
	switch {
	case a.Why != "":
		return a.Why
	case a.Yes:
		return "a file that matches " + listed(paths) + " was changed"
	default:
		return "no file that matches " + listed(paths) + " was changed"
	}
}

func whyExists(a Answer, paths []string) string {
	switch {
	case a.Why != "":
		return a.Why
	case a.Yes:
		return "a file that matches " + listed(paths) + " exists"
	default:
		return "no file that matches " + listed(paths) + " exists"
	}
}

// How much a reason shows.
const (
	maxShownRules = 5
	maxShownPaths = 3
)

// whyNone says why no rule applies.
func whyNone(rules []Rule, tried []trial, facts Facts) string {
	parts := make([]string, 0, maxShownRules)
	for i := range rules[:min(len(rules), maxShownRules)] {
		parts = append(parts, fmt.Sprintf("rule %d: %s", i+1, tried[i].why(&rules[i], facts)))
	}
	if more := len(rules) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if len(parts) == 0 {
		return "no rule applies: there are none"
	}
	return "no rule applies: " + strings.Join(parts, "; ")
}

// listed returns the first few names.
func listed(names []string) string {
	text := strings.Join(names[:min(len(names), maxShownPaths)], " or ")
	if more := len(names) - maxShownPaths; more > 0 {
		text += fmt.Sprintf(" or %d more", more)
	}
	return text
}
