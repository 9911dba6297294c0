package keyword

import (
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// MaxParallel is how many copies of a job there may be.
const MaxParallel = 200

// matrixReader reads `parallel:`, and the matrices of other keywords.
type matrixReader struct {
	*values
}

// parallel reads `parallel:`. A trigger has only a matrix.
func (r matrixReader) parallel(n config.Node, trigger bool) *Parallel {
	out := &Parallel{Node: n}
	switch {
	case n.Kind() == yamlsource.Mapping:
		for _, v := range r.fields(n, "parallel", []string{"matrix"}) {
			out.Matrix = r.matrix(v, "parallel:matrix")
			r.matrixWithoutExpressions(v)
		}
		if n.Get("matrix").IsNull() {
			r.report(n, "add `matrix:`, or write a number", "`parallel` has no matrix")
		}
	case trigger:
		r.report(n, "write a `matrix:` under it", "`parallel` of a job that triggers a pipeline must be a map with a matrix, not %s", n.Kind())
	default:
		if _, ok := number(n); !ok && n.Kind() != yamlsource.Number && n.Kind() != yamlsource.String {
			r.report(n, "write a number, or a map with `matrix:`", "`parallel` must be a whole number or a map, not %s", n.Kind())
			return nil
		}
		out.Count = r.integer(n, "parallel", 1, MaxParallel)
	}
	return out
}

// matrix reads a list of maps with variables and their values. One that makes too many jobs is refused before any is made.
func (r matrixReader) matrix(n config.Node, name string) []MatrixEntry {
	if n.Kind() != yamlsource.Sequence {
		r.report(n, "write a list: put a dash before the first variable", "`%s` must be a list of maps, not %s", name, n.Kind())
		return nil
	}
	if n.Len() == 0 {
		r.report(n, "write an entry with variables", "`%s` is empty", name)
	}
	out := make([]MatrixEntry, 0, n.Len())
	jobs := 0
	for _, it := range n.Items() {
		if it.Kind() == yamlsource.Mapping && it.Len() == 0 {
			r.report(it, "write a variable with its values", "an entry of `%s` is empty", name)
			continue
		}
		entry := MatrixEntry{}
		product := 1
		for key, v := range r.named(it, name, "write VARIABLE: [values]") {
			values := r.matrixValues(v, name+":"+shorten(key.Text()))
			product = min(product*max(len(values), 1), MaxParallel+1)
			entry = append(entry, MatrixVariable{Name: key.Text(), Values: values})
		}
		jobs += product
		out = append(out, entry)
	}
	if jobs > MaxParallel {
		r.report(n, "make fewer or shorter lists, or split the job", "`%s` makes more than %d jobs, which is the limit", name, MaxParallel)
		return nil
	}
	return out
}

func (r matrixReader) matrixValues(n config.Node, name string) []string {
	if n.Kind() != yamlsource.Sequence {
		if n.Kind() == yamlsource.Mapping || n.IsNull() {
			r.report(n, "write a value or a list of values", "`%s` must be a string or a list of strings, not %s", name, n.Kind())
			return nil
		}
		if n.Text() == "" {
			r.report(n, "write a value", "`%s` is empty", name)
		}
		return []string{scalar(n)}
	}
	if n.Len() == 0 {
		r.report(n, "write a value", "`%s` is empty", name)
	}
	out := make([]string, 0, n.Len())
	for _, it := range n.Items() {
		if !it.Kind().IsScalar() || it.IsNull() {
			r.report(it, "write a string or a number", "a value of `%s` must be a string, not %s", name, it.Kind())
			continue
		}
		out = append(out, scalar(it))
	}
	return out
}

// matrixExpression finds what needs:parallel:matrix takes from the job's own matrix.
var matrixExpression = lazyregexp.New(`\$\[\[\s*matrix\.([A-Za-z0-9_-]+)\s*\]\]`)

// matrixNames are the variables of the matrix expressions in a text.
func matrixNames(text string) []string {
	if !strings.Contains(text, "$[[") {
		return nil
	}
	var names []string
	for _, found := range matrixExpression().FindAllStringSubmatch(text, -1) {
		names = append(names, found[1])
	}
	return names
}

// matrixWithoutExpressions refuses matrix expressions where the matrix itself is made.
func (r matrixReader) matrixWithoutExpressions(n config.Node) {
	for _, entry := range n.Items() {
		for _, v := range entry.Entries() {
			for _, it := range v.Flat() {
				if len(matrixNames(it.Text())) > 0 {
					r.report(it, "write the value", "%s is for needs:parallel:matrix: a matrix cannot refer to itself", shorten(it.Text()))
				}
			}
		}
	}
}

// combinations are the values of every job that a matrix makes, as the names of those jobs have them. Entries of a checked matrix
// make at most MaxParallel.
func combinations(matrix []MatrixEntry) []string {
	var out []string
	for _, entry := range matrix {
		made := []string{""}
		for i, v := range entry {
			next := make([]string, 0, len(made)*len(v.Values))
			for _, before := range made {
				for _, value := range v.Values {
					if i > 0 {
						value = before + ", " + value
					}
					next = append(next, value)
				}
			}
			made = next
		}
		out = append(out, made...)
	}
	return out
}
