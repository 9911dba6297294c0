package gitlab

import (
	"fmt"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
	"github.com/rungci/rung/steps/value"
)

// includeRule returns a function that decides the rules of includes by facts, and notes what it decided.
func includeRule(facts when.Facts, note func(IncludeRule)) func(config.Node) (bool, error) {
	var cache rule.Cache
	return func(n config.Node) (bool, error) {
		r, err := ruleOf(n, &cache)
		if err != nil {
			return false, err
		}
		verdict, err := when.Decide([]when.Rule{r}, when.Always, facts)
		if err != nil {
			return false, err
		}
		holds := verdict.Rule != when.NoRule
		note(IncludeRule{n.Span().String(), holds, verdict.Why()})
		return holds, nil
	}
}

// ruleOf reads one rule of an include. What has another form than GitLab's is an error.
func ruleOf(n config.Node, cache *rule.Cache) (when.Rule, error) {
	var r when.Rule
	for key, v := range n.Entries() {
		switch key.Text() {
		case "if":
			if v.Kind() != yamlsource.String {
				return r, fmt.Errorf("`if` must be a condition, not %s", v.Kind())
			}
			e, err := cache.Parse(v.Text())
			if err != nil {
				return r, err
			}
			r.If = e
		case "changes":
			paths, err := patterns(v)
			if err != nil {
				return r, fmt.Errorf("`changes`: %w", err)
			}
			r.Changes = &when.Changes{Paths: paths, CompareTo: v.Get("compare_to").Text()}
		case "exists":
			paths, err := patterns(v)
			if err != nil {
				return r, fmt.Errorf("`exists`: %w", err)
			}
			r.Exists = &when.Exists{Paths: paths, Project: v.Get("project").Text(), Ref: v.Get("ref").Text()}
			if place := placeOf(n); r.Exists.Project == "" && place.Kind != config.Local {
				r.Exists.Project, r.Exists.Ref = place.Project, place.Ref
			}
		case "when":
		default:
			return r, fmt.Errorf("a rule of an include does not support %q", key.Text())
		}
	}
	return r, nil
}

func placeOf(n config.Node) config.Place {
	if s := n.Source(); s != nil {
		return s.Place
	}
	return config.Place{}
}

// patterns reads a list of patterns, or `paths:` of a map.
func patterns(n config.Node) ([]string, error) {
	if n.Kind() == yamlsource.Mapping {
		n = n.Get("paths")
	}
	if n.Kind() == yamlsource.String {
		return []string{n.Text()}, nil
	}
	if n.Kind() != yamlsource.Sequence {
		return nil, fmt.Errorf("must be a list of patterns, not %s", n.Kind())
	}
	var out []string
	for _, item := range n.Items() {
		if item.Kind() != yamlsource.String {
			return nil, fmt.Errorf("a pattern must be a string, not %s", item.Kind())
		}
		out = append(out, item.Text())
	}
	return out, nil
}

// inputRule decides the `if` of spec:inputs:rules.
func inputRule(condition string, inputs func(name string) (value.Value, bool)) (bool, error) {
	e, err := rule.Parse(condition)
	if err != nil {
		return false, err
	}
	result, err := e.Eval(func(name string) (string, bool) {
		const prefix = "inputs."
		if len(name) <= len(prefix) || name[:len(prefix)] != prefix {
			return "", false
		}
		v, ok := inputs(name[len(prefix):])
		if !ok || v.IsNull() {
			return "", false
		}
		if v.Kind() == value.String {
			return v.Str(), true
		}
		return string(v.AppendJSON(nil)), true
	})
	return result.True, err
}
