package config

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/value"
)

// inputReader reads the inputs of files: what they declare, and what is given for it.
type inputReader struct {
	*problems
	rule func(condition string, inputs func(name string) (value.Value, bool)) (bool, error) // Options.InputRule
}

func (r *resolver) inputReader() *inputReader {
	return &inputReader{problems: r.problems, rule: r.options.InputRule}
}

// given reads the `inputs` of an include.
func (r *inputReader) given(inputs Node) map[string]item {
	if inputs.IsNull() {
		return nil
	}
	if inputs.Kind() != yamlsource.Mapping {
		r.report(inputs, "write names and values under it", "`inputs` must be a map, not %s", inputs.Kind())
		return nil
	}
	given := make(map[string]item, inputs.Len())
	for _, e := range inputs.tree.entries {
		given[e.key.text] = item{e.value, e.via.then(inputs.via)}
	}
	return given
}

// values gives every declared input its value: the one that is given, or its default.
func (r *inputReader) values(s *Source, declared []*Input, given map[string]item) {
	byName := make(map[string]*Input, len(declared))
	for _, in := range declared {
		byName[in.Name] = in
	}
	for _, name := range sortedNames(given) {
		if byName[name] != nil {
			continue
		}
		if r.partial && s.Parent == nil { // it may be declared in the missing file
			continue
		}
		hint := r.suggest(name, sortedNames(byName), "delete it, or declare it in the header of "+s.Name)
		if s.Parent == nil {
			r.reportGiven(s, given[name], hint, "there is no input %q", shorten(name))
		} else {
			r.reportGiven(s, given[name], hint, "%s has no input %q", s.Name, shorten(name))
		}
	}
	state := map[string]uint8{}
	for _, in := range declared {
		r.value(s, in, byName, given, state)
	}
}

// value gives one input its value, after those that its rules ask for.
func (r *inputReader) value(s *Source, in *Input, byName map[string]*Input, given map[string]item, state map[string]uint8) {
	switch state[in.Name] {
	case underway:
		r.report(in.Key, "break the cycle", "the rules of the input %q ask for the input itself", shorten(in.Name))
		in.bad = true
		return
	case good:
		return
	}
	state[in.Name] = underway
	defer func() { state[in.Name] = good }()
	required := true
	if in.rules.Exists() && !in.bad {
		for _, rule := range in.rules.Items() {
			for _, name := range namesIn(rule.Get("if").Text()) {
				if other := byName[name]; other != nil {
					r.value(s, other, byName, given, state)
				} else {
					r.report(rule.Get("if"), r.suggest(name, sortedNames(byName), "declare it"), "there is no input %q", shorten(name))
					in.bad = true
				}
			}
		}
		if !in.bad {
			required = r.applyRules(in, byName)
		}
	}
	v, isGiven := given[in.Name]
	if isGiven && v.value.kind != yamlsource.Null {
		in.Value = r.convert(s, in, v)
	} else if in.Default.Exists() {
		in.Value = in.Default
		if in.Default.IsNull() {
			return
		}
		if !in.bad && !typed(in, in.Default) {
			r.report(in.Default, "write "+article(in.Type)+", or change the type", "the default of the input %q is %s, and its type is %s", shorten(in.Name), in.Default.Kind(), in.Type)
			return
		}
	} else {
		if required && !in.bad {
			r.missingInput(s, in)
		} else if !required {
			in.Value = Node{tree: stringTree(in.Key.tree, "")}
		}
		return
	}
	r.checkValue(s, in, v, isGiven)
}

// missingInput reports an input that has to be given, where it would be given.
func (r *inputReader) missingInput(s *Source, in *Input) {
	if s.Parent == nil {
		r.report(in.Key, "give it a value, or a `default:`", "the input %q has no value", shorten(in.Name))
		return
	}
	message := fmt.Sprintf("%s needs the input %q, which is declared at %s", s.Name, shorten(in.Name), line(in.Key.Span()))
	if r.first(s.At, message) {
		r.found = append(r.found, s.Parent.diagnostic(s.At, fmt.Sprintf("add `%s:` under `inputs:` of the include", in.Name), s.Parent.included(message)))
	}
}

// reportGiven reports something about a value that was given, where it was given.
func (r *inputReader) reportGiven(s *Source, v item, hint, format string, args ...any) {
	n := Node{tree: v.value, via: v.via}
	if !n.Span().IsZero() {
		r.report(n, hint, format, args...)
		return
	}
	r.found = append(r.found, diag.Diagnostic{Span: diag.Span{File: s.Name}, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// convert makes what was given the input's type. Text of a command line, and text that is bare in a file, may be read as
// what the type asks for.
func (r *inputReader) convert(s *Source, in *Input, v item) Node {
	n := Node{tree: v.value, via: v.via}
	if in.bad || typed(in, n) {
		return n
	}
	if n.Kind() == yamlsource.String && (n.tree.source == nil || n.IsBare()) {
		if parsed, err := value.ParseJSON([]byte(strings.TrimSpace(n.Text()))); err == nil {
			t := treeOf(parsed)
			t.raw, t.source = n.tree.raw, n.tree.source
			if c := (Node{tree: t, via: n.via}); typed(in, c) {
				return c
			}
		}
	}
	hint := "write " + article(in.Type)
	if in.Type == "string" {
		hint = "quote it"
	}
	r.reportGiven(s, v, hint, "the input %q of %s is %s, and its type is %s (declared at %s)", shorten(in.Name), s.Name, n.Kind(), in.Type, line(in.Key.Span()))
	in.bad = true
	return n
}

func article(kind string) string {
	if kind == "array" {
		return "a list"
	}
	return "a " + kind
}

// typed reports whether a value has the input's type.
func typed(in *Input, n Node) bool {
	switch in.Type {
	case "number":
		return n.Kind() == yamlsource.Number
	case "boolean":
		return n.Kind() == yamlsource.Boolean
	case "array":
		return n.Kind() == yamlsource.Sequence
	default:
		return n.Kind() == yamlsource.String
	}
}

// checkValue holds a value against options and pattern.
func (r *inputReader) checkValue(s *Source, in *Input, v item, isGiven bool) {
	if in.bad {
		return
	}
	report := func(hint, format string, args ...any) {
		message := fmt.Sprintf(format, args...)
		if isGiven {
			r.reportGiven(s, v, hint, "%s (declared at %s)", message, line(in.Key.Span()))
		} else {
			r.report(in.Value, hint, "the default is wrong: %s", message)
		}
	}
	if in.Options != nil {
		values := []Node{in.Value}
		if in.Type == "array" {
			values = nil
			for _, it := range in.Value.Items() {
				values = append(values, it)
			}
		}
		for _, one := range values {
			if !in.allows(one) {
				report("choose one of "+in.listOptions(), "%s is not an option of the input %q", shown(one), shorten(in.Name))
			}
		}
	}
	if in.pattern != nil && !in.pattern.MatchString(in.Value.Text()) {
		report("", "%s does not match %s, as the input %q has to", shown(in.Value), shorten(in.Regex), shorten(in.Name))
	}
}

func (in *Input) allows(v Node) bool {
	for _, o := range in.Options {
		if equal(o.tree, v.tree) || o.Kind() == yamlsource.Number && v.Kind() == yamlsource.Number && value.Equal(o.Value(), v.Value()) {
			return true
		}
	}
	return false
}

func (in *Input) listOptions() string {
	var texts []string
	for _, o := range in.Options {
		texts = append(texts, shown(o))
	}
	return shorten(strings.Join(texts, ", "))
}

// shown is a value as a message shows it.
func shown(n Node) string {
	text, err := textOf(n.tree)
	if err != nil {
		return n.Kind().String()
	}
	if n.Kind() == yamlsource.String {
		return fmt.Sprintf("%q", shorten(text))
	}
	return shorten(text)
}

// equal reports whether two trees hold the same.
func equal(a, b *tree) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil || a.kind != b.kind || a.text != b.text || a.nodes != b.nodes || len(a.items) != len(b.items) || len(a.entries) != len(b.entries) {
		return false
	}
	for i := range a.items {
		if !equal(a.items[i].value, b.items[i].value) {
			return false
		}
	}
	for i := range a.entries {
		if a.entries[i].key.text != b.entries[i].key.text || !equal(a.entries[i].value, b.entries[i].value) {
			return false
		}
	}
	return true
}

// namesIn are the inputs that a condition asks for.
func namesIn(condition string) []string {
	var names []string
	for {
		_, end, inside, ok := nextBlock(condition)
		if !ok {
			return names
		}
		if name, isInput := strings.CutPrefix(inside, "inputs."); isInput {
			names = append(names, name)
		}
		condition = condition[end:]
	}
}

// applyRules gives an input the options and the default of the first of its rules that holds. It reports whether the input has
// to be given when it has no default then: it has not when no rule holds.
func (r *inputReader) applyRules(in *Input, byName map[string]*Input) (required bool) {
	if in.rules.Kind() != yamlsource.Sequence {
		r.report(in.rules, "write a list of rules", "`rules` must be a list, not %s", in.rules.Kind())
		in.bad = true
		return false
	}
	lookup := func(name string) (value.Value, bool) {
		other := byName[name]
		if other == nil || !other.Value.Exists() {
			return value.Value{}, false
		}
		return other.Value.Value(), true
	}
	for _, rule := range in.rules.Items() {
		if !r.checkRule(in, rule) {
			in.bad = true
			continue
		}
		if condition := rule.Get("if"); condition.Exists() {
			if r.rule == nil {
				r.report(condition, "", "rules of inputs cannot be evaluated here")
				in.bad = true
				return false
			}
			holds, err := r.rule(condition.Text(), lookup)
			if err != nil {
				r.ruleError(condition, err)
				in.bad = true
				return false
			}
			if !holds {
				continue
			}
		}
		if options := rule.Get("options"); options.Exists() {
			in.Options = r.optionList(options)
		}
		if v := rule.Get("default"); !v.IsNull() {
			in.Default = v
		}
		return true
	}
	return false
}

// checkRule reports a rule of an input that cannot be one.
func (r *inputReader) checkRule(in *Input, rule Node) bool {
	if rule.Kind() != yamlsource.Mapping {
		r.report(rule, "write `if:`, `options:` and `default:`", "a rule of an input must be a map, not %s", rule.Kind())
		return false
	}
	ok := true
	for key := range rule.Entries() {
		switch key.Text() {
		case "if", "options", "default":
		default:
			r.report(key, r.suggest(key.Text(), []string{"if", "options", "default"}, "delete it"), "a rule of an input has no key %q", shorten(key.Text()))
			ok = false
		}
	}
	condition, options, v := rule.Get("if"), rule.Get("options"), rule.Get("default")
	switch {
	case condition.Exists() && condition.Kind() != yamlsource.String:
		r.report(condition, "write an expression", "`if` must be an expression, not %s", condition.Kind())
		return false
	case condition.Exists() && !options.Exists() && !v.Exists():
		r.report(rule, "add `options:` or `default:`", "the rule of the input %q has no effect", shorten(in.Name))
		return false
	case !condition.Exists() && !options.Exists():
		r.report(rule, "add `options:`, or an `if:`", "a rule of an input without `if` needs `options`")
		return false
	}
	return ok
}
