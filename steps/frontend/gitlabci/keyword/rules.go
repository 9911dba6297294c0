package keyword

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/rule"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// MaxRulePatterns is how many patterns `rules:changes` and `rules:exists` may have each.
const MaxRulePatterns = 50

// MaxDelay is how long `start_in:` may be.
const MaxDelay = week

// delay is the language of `start_in:`.
var delay = period{limit: MaxDelay, most: "a week"}

// ruleKind is whose rules they are.
type ruleKind struct {
	keys []string
	when []string
}

var (
	workflowRules = ruleKind{
		keys: []string{"if", "changes", "exists", "when", "variables", "auto_cancel"},
		when: words(when.Always, when.Never),
	}
	jobRules = ruleKind{
		keys: []string{"if", "changes", "exists", "when", "start_in", "allow_failure", "variables", "needs", "interruptible"},
		when: words(when.OnSuccess, when.OnFailure, when.Always, when.Never, when.Manual, when.Delayed),
	}
)

// ruleReader reads the conditions of jobs and pipelines: `rules:`, `only:` and `except:`.
type ruleReader struct {
	*values
	variableReader
	needReader
	conditions *rule.Cache
}

// ruleList reads `rules:`. Lists in it stand for their items.
func (r ruleReader) ruleList(n config.Node, name string, kind ruleKind) []Rule {
	out := []Rule{}
	if n.Kind() != yamlsource.Sequence {
		r.report(n, "write a list of rules, each with a dash before it", "`%s` must be a list of maps, not %s", name, n.Kind())
		return out
	}
	if n.Len() == 0 {
		r.report(n, "write a rule, such as `when: never`, or delete the keyword", "`%s` is empty", name)
	}
	for level, it := range n.Flat() {
		if level > MaxNesting {
			r.report(it, "write the rules into one list", "`%s` nests lists deeper than %d levels, which is the limit", name, MaxNesting)
			return out
		}
		if it.Kind() == yamlsource.Mapping && it.Len() == 0 {
			r.report(it, "say something in it, or delete it", "a rule of `%s` is empty", name)
			continue
		}
		if it.Kind() != yamlsource.Mapping {
			r.report(it, "write a map with `if:`, `changes:`, `exists:` or `when:`", "a rule of `%s` must be a map, not %s", name, it.Kind())
			continue
		}
		out = append(out, r.rule(it, name, kind))
	}
	return out
}

func (r ruleReader) rule(n config.Node, name string, kind ruleKind) Rule {
	out := Rule{Node: n}
	for key, v := range r.fields(n, name, kind.keys) {
		of := name + ":" + key
		switch key {
		case "if":
			out.If = r.expression(v, of)
		case "changes":
			out.Changes = r.changes(v, of)
		case "exists":
			out.Exists = r.exists(v, of)
		case "when":
			out.When = when.When(r.choice(v, of, kind.when...))
		case "start_in":
			out.StartIn, _ = r.duration(v, of, delay)
		case "allow_failure":
			out.AllowFailure = r.flag(v, of)
		case "interruptible":
			out.Interruptible = r.flag(v, of)
		case "variables":
			out.Variables = r.variables(v, of, plainVariable)
			out.Rule.Variables = plain(out.Variables)
		case "needs":
			out.Needs = r.needs(v, of, needsOfRule)
		case "auto_cancel":
			out.OnNewCommit, out.OnJobFailure = r.autoCancel(v, of)
		}
	}
	startKey, startIn := n.Entry("start_in")
	switch {
	case !slices.Contains(kind.keys, "start_in"):
	case out.When == when.Delayed && startIn.IsNull():
		r.report(n.Get("when"), "add `start_in:`, such as 30 minutes", "the rule is delayed and does not say how long")
	case out.When != when.Delayed && !startIn.IsNull():
		r.report(startKey, "add `when: delayed`", "`%s:start_in` is for rules with `when: delayed`", name)
	}
	return out
}

// flag is a boolean that may also be not given.
func (r *values) flag(n config.Node, name string) *bool {
	v := r.boolean(n, name)
	if !isBoolean(n) {
		return nil
	}
	return &v
}

// expression reads a condition. A mistake is shown where it is in the text.
func (r ruleReader) expression(n config.Node, name string) *rule.Expression {
	text := r.text(n, name)
	if n.Kind() != yamlsource.String {
		return nil
	}
	e, err := r.conditions.Parse(text)
	if err == nil {
		return e
	}
	var wrong *rule.Error
	if errors.As(err, &wrong) {
		r.reportAt(n, n.At(wrong.Offset, wrong.Length), wrong.Hint, "`%s`: %s", name, wrong.Message)
	} else {
		r.report(n, "", "`%s`: %v", name, err)
	}
	return nil
}

// changes reads `rules:changes`.
func (r ruleReader) changes(n config.Node, name string) *when.Changes {
	if n.Kind() == yamlsource.Sequence {
		return &when.Changes{Paths: r.atMost(n, name, MaxRulePatterns)}
	}
	out := &when.Changes{}
	for key, v := range r.listOrMap(n, name, "paths", "regexp", "compare_to") {
		switch key {
		case "paths":
			out.Paths = r.atMost(v, name+":paths", MaxRulePatterns)
		case "regexp":
			out.Regexp = r.pathPattern(v, name+":regexp")
		case "compare_to":
			out.CompareTo = r.filled(v, name+":compare_to")
		}
	}
	r.pathsGiven(n, name)
	return out
}

// exists reads `rules:exists`.
func (r ruleReader) exists(n config.Node, name string) *when.Exists {
	switch n.Kind() {
	case yamlsource.Sequence:
		return &when.Exists{Paths: r.atMost(n, name, MaxRulePatterns)}
	case yamlsource.String: // which GitLab takes here, and not in `changes`
		return &when.Exists{Paths: []string{n.Text()}}
	}
	out := &when.Exists{}
	for key, v := range r.listOrMap(n, name, "paths", "regexp", "project", "ref") {
		switch key {
		case "paths":
			out.Paths = r.atMost(v, name+":paths", MaxRulePatterns)
		case "regexp":
			out.Regexp = r.pathPattern(v, name+":regexp")
		case "project":
			out.Project = r.filled(v, name+":project")
		case "ref":
			out.Ref = r.filled(v, name+":ref")
		}
	}
	r.pathsGiven(n, name)
	if key, ref := n.Entry("ref"); !ref.IsNull() && n.Get("project").IsNull() {
		r.report(key, "add `project:`, or delete it", "`%s:ref` is for the files of another project", name)
	}
	return out
}

// listOrMap are the fields of what could have been a list as well.
func (r *values) listOrMap(n config.Node, name string, keys ...string) func(func(string, config.Node) bool) {
	if n.Kind() == yamlsource.Mapping {
		return r.fields(n, name, keys)
	}
	hint := "write a list of patterns"
	if n.Kind() == yamlsource.String {
		hint = "put brackets around it: [" + shorten(n.Text()) + "]"
	}
	r.report(n, hint, "`%s` must be a list of patterns, or a map with %s, not %s", name, strings.Join(keys, ", "), n.Kind())
	return func(func(string, config.Node) bool) {}
}

// pathPattern reads the regular expression that is instead of paths.
func (r *values) pathPattern(n config.Node, name string) string {
	text := r.filled(n, name)
	if _, err := when.CompilePaths(text); err != nil {
		r.report(n, "write a pattern of RE2, or `paths:`", "`%s`: %v", name, err)
	}
	return text
}

// pathsGiven reports what says nothing of files, or says it twice.
func (r *values) pathsGiven(n config.Node, name string) {
	key, pattern := n.Entry("regexp")
	switch noPaths := n.Get("paths").IsNull(); {
	case n.Kind() != yamlsource.Mapping:
	case noPaths && pattern.IsNull():
		r.report(n, "add `paths:` with a list of patterns", "`%s` has no paths", name)
	case !noPaths && !pattern.IsNull():
		r.report(key, "delete one of them", "`%s` has paths and regexp, and can have only one of them", name)
	}
}

// policy reads `only:` or `except:`.
func (r ruleReader) policy(n config.Node, name string) *when.Policy {
	out := &when.Policy{}
	switch n.Kind() {
	case yamlsource.Sequence:
		out.Refs = r.refs(n, name)
	case yamlsource.Mapping:
		if n.Len() == 0 {
			r.report(n, "say when the job runs, or delete it", "`%s` is empty", name)
		}
		for key, v := range r.fields(n, name, []string{"refs", "variables", "changes", "kubernetes"}) {
			switch key {
			case "refs":
				out.Refs = r.refs(v, name+":refs")
			case "variables":
				r.texts(v, name+":variables")
				for _, it := range v.Items() {
					if it.Kind() == yamlsource.String {
						if e := r.expression(it, name+":variables"); e != nil {
							out.Variables = append(out.Variables, e)
						}
					}
				}
			case "changes":
				out.Changes = r.atMost(v, name+":changes", MaxRulePatterns)
			case "kubernetes":
				out.Kubernetes = r.choice(v, name+":kubernetes", "active") == "active"
			}
		}
	default:
		hint := "write a list of branches, tags and keywords"
		if n.Kind() == yamlsource.String {
			hint = "put brackets around it: [" + shorten(n.Text()) + "]"
		}
		r.report(n, hint, "`%s` must be a list or a map, not %s", name, n.Kind())
	}
	return out
}

func (r ruleReader) refs(n config.Node, name string) []when.Ref {
	out := make([]when.Ref, 0, n.Len())
	r.texts(n, name)
	for _, it := range n.Items() {
		if it.Kind() != yamlsource.String {
			continue
		}
		ref, err := when.ParseRef(it.Text())
		if err != nil {
			r.report(it, "write a pattern of RE2 between slashes, or a name", "`%s`: %v", name, err)
			continue
		}
		out = append(out, ref)
	}
	return out
}

// startIn reads `start_in:` of a job.
func (r ruleReader) startIn(n config.Node) time.Duration {
	_, d := r.duration(n, "start_in", delay)
	return d
}
