package keyword

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/lazyregexp"
	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/value"
)

// MaxJobInputs is how many inputs a job may have. The limits of one input are those of config.
const MaxJobInputs = 50

// inputName is what an input may be called.
var inputName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// inputReader reads `inputs:` of a job.
type inputReader struct {
	*values
}

// inputs reads `inputs:` of a job: values that a person may change when the job is started by hand.
func (r inputReader) inputs(n config.Node) []Input {
	if n.Len() > MaxJobInputs {
		r.report(n, "use fewer, or variables", "a job can have at most %d inputs, not %d", MaxJobInputs, n.Len())
		return nil
	}
	var out []Input
	for key, v := range r.named(n, "inputs", "write NAME: {default: …} under it") {
		if !inputName().MatchString(key.Text()) {
			r.report(key, "use letters, digits, - and _", "%q cannot be the name of an input", shorten(key.Text()))
		}
		out = append(out, r.input(key, v))
	}
	return out
}

func (r inputReader) input(key, n config.Node) Input {
	name := "inputs:" + shorten(key.Text())
	out := Input{Name: key.Text(), Type: "string"}
	if n.IsNull() {
		r.report(key, "add `default:`: a job can start without a person", "`%s` has no default", name)
		return out
	}
	var options, pattern config.Node
	for field, v := range r.fields(n, name, []string{"type", "default", "description", "options", "regex"}) {
		of := name + ":" + field
		switch field {
		case "type":
			out.Type = r.choice(v, of, config.InputTypes...)
		case "default":
			out.Default = v
		case "description":
			out.Description = r.text(v, of)
			if len([]rune(out.Description)) > config.MaxDescription {
				r.report(v, "shorten it", "`%s` is longer than %d characters, which is the limit", of, config.MaxDescription)
			}
		case "options":
			options = v
		case "regex":
			pattern = v
			out.Regex = r.filled(v, of)
		}
	}
	if n.Kind() == yamlsource.Mapping && !out.Default.Exists() {
		r.report(key, "add `default:`: a job can start without a person", "`%s` has no default", name)
	}
	if out.Type == "" {
		return out
	}
	if options.Exists() {
		out.Options = r.inputOptions(options, name, out.Type)
	}
	if out.Default.Exists() {
		r.inputDefault(&out, name)
	}
	if pattern.Exists() {
		r.inputPattern(&out, pattern, name)
	}
	return out
}

// isOf reports whether a value has the type of an input.
func isOf(n config.Node, typ string) bool {
	switch typ {
	case "string":
		return n.Kind() == yamlsource.String
	case "number":
		return n.Kind() == yamlsource.Number
	case "boolean":
		return isBoolean(n)
	default:
		return n.Kind() == yamlsource.Sequence
	}
}

func (r inputReader) inputOptions(n config.Node, name, typ string) []config.Node {
	if n.Kind() != yamlsource.Sequence || n.Len() == 0 {
		r.report(n, "list the values", "`%s:options` must be a list of values, not %s", name, listKind(n))
		return nil
	}
	if n.Len() > config.MaxOptions {
		r.report(n, "shorten the list", "`%s:options` has %d items, and the limit is %d", name, n.Len(), config.MaxOptions)
	}
	if typ == "boolean" || typ == "array" {
		r.report(n, "delete it", "`%s:options` is for strings and numbers, and the type is %s", name, typ)
		return nil
	}
	var out []config.Node
	for _, it := range n.Items() {
		if !isOf(it, typ) {
			r.report(it, "write a "+typ, "an option of `%s` must be a %s, not %s", name, typ, it.Kind())
			continue
		}
		out = append(out, it)
	}
	return out
}

func (r inputReader) inputDefault(in *Input, name string) {
	if !isOf(in.Default, in.Type) {
		hint := "write a value of that type, or another `type:`"
		if in.Type == "string" {
			hint = "put quotes around it, or set `type:`"
		}
		r.report(in.Default, hint, "`%s:default` must be of the type %s, not %s", name, in.Type, in.Default.Kind())
		return
	}
	same := func(n config.Node) bool { return value.Equal(n.Value(), in.Default.Value()) }
	if len(in.Options) > 0 && !slices.ContainsFunc(in.Options, same) {
		r.report(in.Default, "choose one of them, or add it to `options:`", "`%s:default` is %q, and that is not among the options", name, shorten(in.Default.Text()))
	}
}

func (r inputReader) inputPattern(in *Input, n config.Node, name string) {
	if in.Type != "string" {
		r.report(n, "delete it", "`%s:regex` is for strings, and the type is %s", name, in.Type)
		return
	}
	text := in.Regex
	if len(text) > 1 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/") {
		text = text[1 : len(text)-1]
	}
	pattern, err := regexp.Compile(text)
	switch {
	case err != nil:
		r.report(n, "write a pattern of RE2", "`%s:regex`: %v", name, err)
	case in.Default.Kind() == yamlsource.String && !pattern.MatchString(in.Default.Text()):
		r.report(in.Default, "change one of them", "`%s:default` does not match the regex %s", name, shorten(in.Regex))
	}
}
