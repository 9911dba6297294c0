package config

import (
	"maps"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/rungci/rung/internal/yamlsource"
)

// Limits of headers.
const (
	// MaxInputs is how many inputs a file may declare.
	MaxInputs = 500
	// MaxOptions is how many options an input may have.
	MaxOptions = 50
	// MaxSpecDescription is how long the description of a file may be, in characters.
	MaxSpecDescription = 256
	// MaxDescription is how long the description of an input may be, in characters.
	MaxDescription = 1024
)

// InputTypes are the types that an input may have; one that has none is a string.
var InputTypes = []string{"string", "number", "boolean", "array"}

// Input is an input that a file declares.
type Input struct {
	Name, Type, Description string
	// Key is the name where it is declared.
	Key Node
	// Default exists when the input need not be given.
	Default Node
	// Options are the values that it can have, when they are listed.
	Options []Node
	// Regex is what the value has to match, when there is such a thing.
	Regex string
	// Value is what was given, or the default. It does not exist for an input that lacks one.
	Value Node

	pattern *regexp.Regexp
	regex   Node
	rules   Node
	bad     bool // its declaration is wrong, so that its value cannot be checked
}

// componentFields are what $[[ component.… ]] may ask for.
var componentFields = []string{"name", "sha", "version", "reference"}

// header reads the `spec` of a file and finds the values of its inputs. given are those that the including file sets.
func (r *resolver) header(s *Source, doc Node, given map[string]item) *blocks {
	b := &blocks{resolver: r, inputs: map[string]item{}, component: map[string]item{}}
	spec := doc.Get("spec")
	if spec.IsNull() {
		r.inputReader().refuseInputs(s, given)
		return b
	}
	if spec.Kind() != yamlsource.Mapping {
		r.report(spec, "write `inputs:` under it", "`spec` must be a map, not %s", spec.Kind())
		return b
	}
	in, declared := r.inputReader(), []*Input(nil)
	for key, v := range spec.Entries() {
		switch key.Text() {
		case "inputs":
			declared = in.declarations(v, declared)
		case "include":
			for _, list := range r.headerIncludes(s, key, v) {
				declared = in.declarations(list, declared)
			}
		case "component":
			in.componentContext(s, v, b.component)
		case "description":
			if !v.Kind().IsScalar() {
				r.report(v, "write a string", "`spec:description` must be a string, not %s", v.Kind())
			} else if utf8.RuneCountInString(v.Text()) > MaxSpecDescription {
				r.report(v, "shorten it", "`spec:description` is longer than %d characters, which is the limit", MaxSpecDescription)
			}
		default:
			r.report(key, r.suggest(key.Text(), []string{"inputs", "include", "component", "description"}, "delete it"), "`spec` has no key %q", shorten(key.Text()))
		}
	}
	in.values(s, declared, given)
	for _, in := range declared {
		b.inputs[in.Name] = item{in.Value.tree, in.Value.via}
	}
	if s.Parent == nil {
		for _, in := range declared {
			r.inputs = append(r.inputs, *in)
		}
	}
	return b
}

// headerIncludes reads the files of `spec:include`, each of which holds `inputs:` and nothing else.
func (r *resolver) headerIncludes(s *Source, key, include Node) []Node {
	if s.component != nil && s.Place.Kind == CatalogComponent || s.asked.Kind == CatalogComponent {
		r.report(key, "declare the inputs in the component itself", "a component cannot have `spec:include`")
		return nil
	}
	var lists []Node
	for _, inc := range r.inclusions(s, include) {
		if inc.inputs != nil || inc.place.Kind == Template || inc.place.Kind == CatalogComponent {
			r.report(inc.at, "include it by `local:`, `project:` or `remote:`, without inputs", "`spec:include` cannot include this")
			continue
		}
		child, doc := r.headerFile(s, inc)
		if doc == nil {
			r.partial = true
			continue
		}
		n := Node{tree: child.converter().tree(doc)}
		for k := range n.Entries() {
			if k.Text() != "inputs" {
				r.report(k, "delete it", "a file that `spec:include` includes can only contain `inputs`, not %q", shorten(k.Text()))
			}
		}
		lists = append(lists, n.Get("inputs"))
	}
	return lists
}

// headerFile loads and parses a file of inputs.
func (r *resolver) headerFile(parent *Source, inc inclusion) (*Source, *yamlsource.Node) {
	s, data, ok := r.fetch(parent, inc)
	if !ok {
		return nil, nil
	}
	r.sources = append(r.sources, s)
	file := r.parse(s, data)
	if file == nil {
		return s, nil
	}
	if len(file.Documents) == 0 || file.Documents[0].Kind != yamlsource.Mapping {
		r.report(inc.at, "write `inputs:` in it", "%s declares no inputs", s.Name)
		return s, nil
	}
	return s, file.Documents[0]
}

// componentContext reads `spec:component`: which fields of the component the file uses.
func (r *inputReader) componentContext(s *Source, list Node, fields map[string]item) {
	if list.Kind() != yamlsource.Sequence {
		r.report(list, "write a list of fields, such as [name, version]", "`spec:component` must be a list, not %s", list.Kind())
		return
	}
	component := s.component
	if component == nil {
		component = &Component{}
	}
	values := map[string]string{"name": component.Name, "sha": component.SHA, "version": component.Version, "reference": component.Reference}
	for _, field := range list.Items() {
		text, known := values[field.Text()]
		if !known {
			r.report(field, r.suggest(field.Text(), componentFields, "write name, sha, version or reference"), "a component has no field %q", shorten(field.Text()))
			continue
		}
		if s.component == nil {
			r.report(field, "include the file by `component:`", "the file is not included as a component, so it has no %q", field.Text())
			text = ""
		}
		t := stringTree(field.tree, text)
		if text == "" {
			t.kind = yamlsource.Null
		}
		fields[field.Text()] = item{value: t}
	}
}

// declarations reads a map of inputs and adds them to those that are declared already.
func (r *inputReader) declarations(inputs Node, declared []*Input) []*Input {
	if inputs.IsNull() {
		return declared
	}
	if inputs.Kind() != yamlsource.Mapping {
		r.report(inputs, "write the names of inputs under it", "`inputs` must be a map, not %s", inputs.Kind())
		return declared
	}
	known := map[string]*Input{}
	for _, in := range declared {
		known[in.Name] = in
	}
	for key, v := range inputs.Entries() {
		if earlier := known[key.Text()]; earlier != nil {
			r.report(key, "keep one of them", "the input %q is already declared at %s", shorten(key.Text()), line(earlier.Key.Span()))
			continue
		}
		if len(declared) >= MaxInputs {
			r.report(key, "declare fewer", "the file declares more than %d inputs, which is the limit", MaxInputs)
			break
		}
		declared = append(declared, r.declaration(key, v))
	}
	return declared
}

// declaration reads one input.
func (r *inputReader) declaration(key, v Node) *Input {
	in := &Input{Name: key.Text(), Type: "string", Key: key}
	if v.IsNull() {
		return in
	}
	if v.Kind() != yamlsource.Mapping {
		r.report(v, "write `default:`, `type:` and so on under it", "the input %q must be described by a map, not %s", shorten(in.Name), v.Kind())
		in.bad = true
		return in
	}
	for k, what := range v.Entries() {
		switch k.Text() {
		case "default":
			in.Default = what
		case "type":
			if !slices.Contains(InputTypes, what.Text()) {
				r.report(what, r.suggest(what.Text(), InputTypes, "write string, number, boolean or array"), "%q is not an input type", shorten(what.Text()))
				in.bad = true
				continue
			}
			in.Type = what.Text()
		case "description":
			in.Description = what.Text()
			if !what.Kind().IsScalar() {
				r.report(what, "write a string", "the description of an input must be a string, not %s", what.Kind())
			}
			if utf8.RuneCountInString(in.Description) > MaxDescription {
				r.report(what, "shorten it", "the description is longer than %d characters, which is the limit", MaxDescription)
			}
		case "options":
			in.Options = r.optionList(what)
		case "regex":
			in.regex, in.Regex = what, what.Text()
		case "rules":
			in.rules = what
		default:
			r.report(k, r.suggest(k.Text(), []string{"default", "type", "description", "options", "regex", "rules"}, "delete it"), "an input has no key %q", shorten(k.Text()))
		}
	}
	r.checkDeclaration(in, v)
	return in
}

// optionList reads the values that an input may have.
func (r *inputReader) optionList(list Node) []Node {
	if list.Kind() != yamlsource.Sequence {
		r.report(list, "write a list", "`options` must be a list, not %s", list.Kind())
		return nil
	}
	if list.Len() > MaxOptions {
		r.report(list, "list fewer", "the input has %d options, and %d is the limit", list.Len(), MaxOptions)
	}
	options := []Node{}
	for _, o := range list.Items() {
		if o.IsNull() {
			r.report(o, "delete it", "an option cannot be null")
			continue
		}
		options = append(options, o)
	}
	return options
}

// checkDeclaration reports what does not go together.
func (r *inputReader) checkDeclaration(in *Input, v Node) {
	if in.rules.Exists() {
		for _, other := range []string{"options", "default"} {
			if key, _ := v.Entry(other); key.Exists() {
				r.report(key, "move it into the rules; the last one needs no `if:`", "an input with `rules` cannot have `%s`", other)
				in.bad = true
			}
		}
	}
	if in.Options != nil && in.Type == "boolean" {
		key, _ := v.Entry("options")
		r.report(key, "delete it: a boolean is true or false", "`options` do not go with the type boolean")
		in.bad = true
	}
	if !in.regex.Exists() {
		return
	}
	key, _ := v.Entry("regex")
	if in.Type != "string" {
		r.report(key, "delete it, or make the input a string", "`regex` goes only with the type string")
		in.bad = true
		return
	}
	pattern, err := regexp.Compile(in.Regex)
	if in.regex.Kind() != yamlsource.String || err != nil {
		r.report(in.regex, "patterns are RE2: they have no look-around and no back references", "%q is not a regular expression", shorten(in.Regex))
		in.bad = true
		return
	}
	in.pattern = pattern
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
