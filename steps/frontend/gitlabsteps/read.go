package gitlabsteps

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
)

// reader reads the values of one text. What is wrong is reported to source; the methods then return what they could make of the rest.
type reader struct {
	source Text
	called string // what diagnostics call it
	dashes bool   // inputs and outputs are those of an action or a workflow, whose names may hold dashes
}

// start is the place of mistakes that concern a text as a whole.
func (p *reader) start() diag.Span {
	return diag.Span{File: p.called, Line: 1, Column: 1, Length: 1}
}

func (p *reader) report(place diag.Span, hint, format string, args ...any) {
	p.source.Report(place, hint, format, args...)
}

// namePattern is what names of steps, inputs, outputs, variables and secrets look like.
var namePattern = lazyregexp.New(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// name checks a name and reports whether it is one. what says whose name it is.
func (p *reader) name(n *yamlsource.Node, what string) bool {
	if n.Kind == yamlsource.String && namePattern.MatchString(n.Text) {
		return true
	}
	if n.Kind != yamlsource.String && n.Kind != yamlsource.Number {
		p.report(n.Span, nameHint(n), "the name of %s must be a string, not %s", what, n.Kind)
		return false
	}
	hint := "use letters, digits and underscores, and no digit at the start"
	if valid := validName(n.Text); valid != "" {
		hint += "; for example " + valid
	}
	p.report(n.Span, hint, "%q cannot be the name of %s", shorten(n.Text), what)
	return false
}

// template makes a field of a string that may hold expressions, and checks their syntax.
func (p *reader) template(n *yamlsource.Node) plan.Field {
	p.checkTemplate(n)
	return plan.Field{Value: n.Value(), Span: n.Span}
}

func (p *reader) checkTemplate(n *yamlsource.Node) bool {
	if n.Kind != yamlsource.String || !expr.Has(n.Text) {
		return true
	}
	_, err := expr.ParseTemplate(n.Text)
	p.expressionError(n, err)
	return err == nil
}

// expressionError reports what is wrong with an expression in the text of a node, if err is not nil.
func (p *reader) expressionError(n *yamlsource.Node, err error) {
	if err == nil {
		return
	}
	place, hint := n.Span, ""
	if e := (*expr.Error)(nil); errors.As(err, &e) {
		place, hint = p.source.At(n, e.Offset, e.Length), e.Hint
	}
	p.report(place, hint, "%s", err)
}

// checkTemplates checks the strings in a value at any depth, keys too.
func (p *reader) checkTemplates(n *yamlsource.Node) {
	p.checkTemplate(n)
	for _, item := range n.Items {
		p.checkTemplates(item)
	}
	for _, e := range n.Entries {
		p.checkTemplate(e.Key)
		p.checkTemplates(e.Value)
	}
}

// object checks that a node is a map with no keys but the given ones. what names the map in messages ("the spec").
func (p *reader) object(n *yamlsource.Node, what string, keys ...string) bool {
	return yamlsource.CheckKeys(p.source, n, what, keys...)
}

// unknown reports a key that is not one of the given ones.
func (p *reader) unknown(key *yamlsource.Node, keys []string) {
	yamlsource.UnknownKey(p.source, key, keys)
}

// either returns the entry of the one key of several with the same meaning that is there. Two of them are a mistake.
func (p *reader) either(n *yamlsource.Node, keys ...string) (found yamlsource.Entry, ok bool) {
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Key.Text) {
			continue
		}
		if ok {
			p.report(e.Key.Span, "keep one of them", "%q and %q mean the same", found.Key.Text, e.Key.Text)
			continue
		}
		found, ok = e, true
	}
	return found, ok
}

// text reads a string. what names it in messages ("the description").
func (p *reader) text(n *yamlsource.Node, what string) (string, bool) {
	if n.Kind == yamlsource.String {
		return n.Text, true
	}
	p.report(n.Span, quoteHint(n), "%s must be a string, not %s", what, n.Kind)
	return "", false
}

// filled reads a string that is not empty.
func (p *reader) filled(n *yamlsource.Node, what string) (string, bool) {
	if n.Kind == yamlsource.Null || n.Kind == yamlsource.String && strings.TrimSpace(n.Text) == "" {
		p.report(n.Span, "", "%s is empty", what)
		return "", false
	}
	return p.text(n, what)
}

// quoteHint is for a scalar that would be a string in quotes.
func quoteHint(n *yamlsource.Node) string {
	switch n.Kind {
	case yamlsource.Number, yamlsource.Boolean:
		return fmt.Sprintf(`quote it: "%s"`, n.Text)
	case yamlsource.Null:
		return `write "" for an empty string`
	default:
		return ""
	}
}

// boolean reads true or false.
func (p *reader) boolean(n *yamlsource.Node, what string) bool {
	if n.Kind != yamlsource.Boolean {
		hint := ""
		if n.Kind == yamlsource.String && n.IsPlain() && slices.Contains([]string{"yes", "no", "on", "off"}, strings.ToLower(n.Text)) {
			hint = "write true or false"
		}
		p.report(n.Span, hint, "%s must be true or false, not %s", what, n.Kind)
	}
	return n.Value().Bool()
}

// integer reads a whole number between low and high.
func (p *reader) integer(n *yamlsource.Node, what string, low, high int64) (int, bool) {
	if n.Kind == yamlsource.Number {
		if i, ok := n.Value().Integer(); ok && i.Cmp(big.NewInt(low)) >= 0 && i.Cmp(big.NewInt(high)) <= 0 {
			return int(i.Int64()), true
		}
		p.report(n.Span, "", "%s must be a whole number from %d to %d", what, low, high)
		return 0, false
	}
	p.report(n.Span, "", "%s must be a number, not %s", what, n.Kind)
	return 0, false
}

// entries reads a map whose keys must be accepted. A null map is empty.
func (p *reader) entries(e yamlsource.Entry, accept func(key *yamlsource.Node) bool) []yamlsource.Entry {
	if e.Value.Kind == yamlsource.Null {
		return nil
	}
	if e.Value.Kind != yamlsource.Mapping {
		p.report(e.Value.Span, "", "%q must be a map, not %s", e.Key.Text, e.Value.Kind)
		return nil
	}
	entries := make([]yamlsource.Entry, 0, len(e.Value.Entries))
	for _, entry := range e.Value.Entries {
		if accept(entry.Key) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// named reads a map whose keys are names. what says of what ("an input").
func (p *reader) named(e yamlsource.Entry, what string) []yamlsource.Entry {
	return p.entries(e, func(key *yamlsource.Node) bool { return p.name(key, what) })
}

// dashed reads a map whose keys are names of inputs or outputs.
func (p *reader) dashed(e yamlsource.Entry, what string) []yamlsource.Entry {
	return p.entries(e, func(key *yamlsource.Node) bool {
		return p.dashes && key.Kind == yamlsource.String && actionInputPattern.MatchString(key.Text) || p.name(key, what)
	})
}

// addressed reads a map whose keys are names or have expressions that make them.
func (p *reader) addressed(e yamlsource.Entry, what string) []yamlsource.Entry {
	return p.entries(e, func(key *yamlsource.Node) bool {
		if key.Kind == yamlsource.String && expr.Has(key.Text) {
			return p.checkTemplate(key)
		}
		return p.name(key, what)
	})
}

// env reads a map of environment variables, whose values are strings with expressions.
func (p *reader) env(e yamlsource.Entry) map[string]plan.Field {
	var env map[string]plan.Field
	for _, entry := range p.addressed(e, "a variable") {
		if _, ok := p.text(entry.Value, "the variable "+entry.Key.Text); ok {
			put(&env, entry.Key.Text, p.template(entry.Value))
		}
	}
	return env
}

// data makes fields of any values, whose strings at any depth may hold expressions.
func (p *reader) data(entries []yamlsource.Entry) map[string]plan.Field {
	var fields map[string]plan.Field
	for _, e := range entries {
		p.checkTemplates(e.Value)
		put(&fields, e.Key.Text, plan.Field{Value: e.Value.Value(), Span: e.Value.Span})
	}
	return fields
}

// put sets a key of a map that is made when it is needed: an empty map and none are the same plan.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
