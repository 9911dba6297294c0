package when

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
)

// Policy is what `only` or `except` asks for.
type Policy struct {
	// Refs are nil when nothing is said of them.
	Refs []Ref
	// Variables are expressions of which one must be true.
	Variables []*rule.Expression
	// Changes are patterns of files.
	Changes []string
	// Kubernetes asks for an active cluster: `kubernetes: active`.
	Kubernetes bool
}

// Legacy is a job's `only` and `except`.
type Legacy struct {
	// Only and Except are nil when the job has none.
	Only, Except *Policy
	// WorkflowRules says that the pipeline has `workflow: rules`. A job without `only` is then not bound to branches and tags.
	WorkflowRules bool
}

// DecideLegacy decides by `only` and `except`: all parts of `only` must hold, and none of `except`. Of each part one entry is
// enough. GitLab adds `only: [branches, tags]` where nothing is said of refs, so a job without rules is not part of pipelines
// for merge requests, unless the pipeline has `workflow: rules`. Fallback is the job's own `when`.
func DecideLegacy(l Legacy, fallback When, facts Facts) (Verdict, error) {
	only, says := l.Only, "only: "
	if only == nil && !l.WorkflowRules {
		only, says = &Policy{}, "by default: "
	}
	no := Verdict{Rule: NoRule, When: Never}
	reasons := []string{}
	var notes []string
	if only != nil {
		results, err := only.hold(facts, true)
		if err != nil {
			return Verdict{}, fmt.Errorf("only: %w", err)
		}
		for _, p := range results {
			notes = append(notes, p.notes...)
			if !p.holds {
				no.reason, no.Notes = func() string { return says + p.why() }, notes
				return no, nil
			}
			reasons = append(reasons, says+p.why())
		}
	}
	if l.Except != nil {
		results, err := l.Except.hold(facts, false)
		if err != nil {
			return Verdict{}, fmt.Errorf("except: %w", err)
		}
		for _, p := range results {
			notes = append(notes, p.notes...)
			if p.holds {
				no.reason, no.Notes = func() string { return "except: " + p.why() }, notes
				return no, nil
			}
			reasons = append(reasons, "except: "+p.why())
		}
	}
	reason := func() string {
		if len(reasons) == 0 {
			return "there are no rules"
		}
		return strings.Join(reasons, "; ")
	}
	return Verdict{Rule: NoRule, When: fallback, Notes: notes, reason: reason}, nil
}

// part is one part of a policy: refs, variables, changes or kubernetes.
type part struct {
	holds bool
	notes []string
	why   func() string
}

// onlyBranchesAndTags is what GitLab takes where `only` says nothing of refs.
var onlyBranchesAndTags = []Ref{{Name: "branches", text: "branches"}, {Name: "tags", text: "tags"}}

// hold returns how the policy's parts hold. It stops at the first one that decides: which does not hold for `only`, which
// does for `except`.
func (p *Policy) hold(facts Facts, isOnly bool) ([]part, error) {
	refs := p.Refs
	if refs == nil && isOnly {
		refs = onlyBranchesAndTags
	}
	var asks []func() (part, error)
	if refs != nil {
		asks = append(asks, func() (part, error) { return refsHold(refs, facts.Pipeline()) })
	}
	if p.Kubernetes {
		asks = append(asks, func() (part, error) {
			if facts.Pipeline().Kubernetes {
				return part{holds: true, why: func() string { return "the project has a Kubernetes cluster" }}, nil
			}
			return part{why: func() string { return "the project has no Kubernetes cluster" }}, nil
		})
	}
	if p.Variables != nil {
		asks = append(asks, func() (part, error) { return variablesHold(p.Variables, facts) })
	}
	if p.Changes != nil {
		asks = append(asks, func() (part, error) {
			a, err := facts.Changed(Changes{Paths: p.Changes})
			if err != nil {
				return part{}, fmt.Errorf("changes: %w", err)
			}
			return part{holds: a.Yes, why: func() string { return whyChanged(a, p.Changes) }}, nil
		})
	}
	var parts []part
	for _, ask := range asks {
		result, err := ask()
		if err != nil {
			return nil, err
		}
		parts = append(parts, result)
		if result.holds != isOnly {
			break
		}
	}
	return parts, nil
}

// refsHold reports whether one of the refs is the pipeline's.
func refsHold(refs []Ref, p Pipeline) (part, error) {
	what := fmt.Sprintf("%s %s, started by %s", p.Kind, p.Ref, p.Source)
	for _, r := range refs {
		ok, err := r.Matches(p)
		if err != nil {
			return part{}, err
		}
		if ok {
			return part{holds: true, why: func() string { return r.String() + " matches (" + what + ")" }}, nil
		}
	}
	why := func() string {
		names := make([]string, len(refs))
		for i, r := range refs {
			names[i] = r.String()
		}
		return "not " + listed(names) + " (" + what + ")"
	}
	return part{why: why}, nil
}

// variablesHold reports whether one of the expressions is true.
func variablesHold(expressions []*rule.Expression, facts Facts) (part, error) {
	var notes []string
	for _, e := range expressions {
		result, err := e.Eval(facts.Lookup)
		if err != nil {
			return part{}, fmt.Errorf("variables: %w", err)
		}
		notes = append(notes, result.Notes...)
		if result.True {
			return part{holds: true, notes: notes, why: func() string { return explain(e, facts) }}, nil
		}
	}
	why := func() string {
		parts := make([]string, 0, maxShownRules)
		for _, e := range expressions[:min(len(expressions), maxShownRules)] {
			parts = append(parts, explain(e, facts))
		}
		return strings.Join(parts, ", and ")
	}
	return part{notes: notes, why: why}, nil
}
