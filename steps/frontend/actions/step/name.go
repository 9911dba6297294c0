package step

import (
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
)

// idPattern is what the id of a step looks like.
var idPattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_-]*$`)

// claim finds a name in the plan for every step. Names in a plan have no dashes: an expression finds the step "a-b" under the name "a_b". Where
// that is taken by another id, expressions are rewritten.
func (r *Reader) claim(list *yamlsource.Node) {
	r.names, r.ids = nil, map[string]claimed{}
	taken := map[string]bool{}
	r.eachStep(list, func(n *yamlsource.Node) {
		r.names = append(r.names, "")
		id := n.Get("id")
		if id == nil {
			return
		}
		key := strings.ToLower(id.Text)
		if first, again := r.ids[key]; again {
			r.Report(id.Span, "rename one of them", "the id %q is already taken by the step on line %d", Shorten(id.Text), first.line)
			return
		}
		if !id.Kind.IsScalar() || !idPattern.MatchString(id.Text) {
			r.Report(id.Span, "use letters, digits, dashes and underscores, and no digit at the start", "%q cannot be the id of a step", Shorten(id.Text))
			return
		}
		plain := strings.ReplaceAll(id.Text, "-", "_")
		name := free(taken, plain)
		if name != plain {
			if r.renamed == nil {
				r.renamed = map[string]string{}
			}
			r.renamed[key] = name
		}
		r.names[len(r.names)-1], r.ids[key] = name, claimed{name: name, line: id.Span.Line}
	})
	for i, name := range r.names {
		if name == "" {
			r.names[i] = free(taken, "step_"+strconv.Itoa(i+1))
		}
	}
}

// eachStep visits all steps of a list, those of a parallel group behind the group.
func (r *Reader) eachStep(list *yamlsource.Node, visit func(*yamlsource.Node)) {
	for _, n := range list.Items {
		visit(n)
		if group := n.Get("parallel"); group != nil && group.Kind == yamlsource.Sequence {
			r.eachStep(group, visit)
		}
	}
}

// free returns the name, with a number when it is taken, and takes it. Upper and lower case are the same to expressions.
func free(taken map[string]bool, base string) string {
	name := base
	for i := 2; taken[strings.ToLower(name)]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	taken[strings.ToLower(name)] = true
	return name
}
