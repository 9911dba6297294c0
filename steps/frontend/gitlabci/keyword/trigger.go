package keyword

import (
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// MaxTriggerIncludes is how many files `trigger:include` may name.
const MaxTriggerIncludes = 3

// triggerIncludes are the forms of trigger:include: the key that tells which one it is, then the keys it has, and those it needs.
var triggerIncludes = []struct{ keys, needed []string }{
	{[]string{"artifact", "job", "inputs"}, []string{"job"}},
	{[]string{"project", "file", "ref", "inputs"}, []string{"file"}},
	{[]string{"local", "inputs"}, nil},
	{[]string{"remote", "integrity", "inputs"}, nil},
	{[]string{"template", "inputs"}, nil},
	{[]string{"component", "inputs"}, nil},
}

// triggerReader reads `trigger:`.
type triggerReader struct {
	*values
}

// trigger reads `trigger:`.
func (r triggerReader) trigger(n config.Node) *Trigger {
	out := &Trigger{ForwardYAML: true, Node: n}
	switch n.Kind() {
	case yamlsource.String:
		out.Project = r.projectPath(n, "trigger")
		return out
	case yamlsource.Mapping:
	default:
		r.report(n, "write the path of a project, or `include:` under it", "`trigger` must be a string or a map, not %s", n.Kind())
		return out
	}
	child := !n.Get("include").IsNull()
	for key, v := range r.fields(n, "trigger", []string{"project", "branch", "include", "strategy", "forward", "inputs"}) {
		name := "trigger:" + key
		switch key {
		case "project":
			out.Project = r.projectPath(v, name)
		case "branch":
			out.Branch = r.filled(v, name)
		case "include":
			out.Includes = r.triggerIncludes(v)
		case "strategy":
			strategy := r.choice(v, name, "depend", "mirror")
			out.Depend, out.Mirror = strategy == "depend", strategy == "mirror"
		case "forward":
			for key, v := range r.fields(v, name, []string{"yaml_variables", "pipeline_variables"}) {
				if key == "yaml_variables" {
					out.ForwardYAML = r.boolean(v, name+":yaml_variables")
				} else {
					out.ForwardPipeline = r.boolean(v, name+":pipeline_variables")
				}
			}
		case "inputs":
			out.Inputs = v
			for range r.named(v, name, "write NAME: value under it") {
			}
		}
	}
	for _, name := range []string{"project", "branch", "inputs"} {
		if key, v := n.Entry(name); child && !v.IsNull() {
			hint := "delete it, or `include:`"
			if name == "inputs" {
				hint = "write it into the item of `include:`"
			}
			r.report(key, hint, "`trigger:include` and `trigger:%s` exclude each other", name)
		}
	}
	if !child && n.Get("project").IsNull() {
		r.report(n, "add `project:` or `include:`", "`trigger` has neither a project nor an include")
	}
	return out
}

// projectPath is the path of a project: at least a group and a name, or variables.
func (r triggerReader) projectPath(n config.Node, name string) string {
	text := r.filled(n, name)
	if strings.TrimSpace(text) != "" && !strings.Contains(strings.Trim(text, "/"), "/") && !strings.Contains(text, "$") {
		r.report(n, "write it with its group: group/"+shorten(text), "%q is not the path of a project", shorten(text))
	}
	return text
}

// triggerIncludes reads trigger:include.
func (r triggerReader) triggerIncludes(n config.Node) []config.Node {
	const name = "trigger:include"
	switch n.Kind() {
	case yamlsource.String:
		if r.filled(n, name) == "" {
			return nil
		}
		return []config.Node{n}
	case yamlsource.Mapping:
		r.triggerInclude(n)
		return []config.Node{n}
	case yamlsource.Sequence:
	default:
		r.report(n, "write the path of a file", "`%s` must be a string, a map or a list of them, not %s", name, n.Kind())
		return nil
	}
	if n.Len() == 0 {
		r.report(n, "name a file", "`%s` is empty", name)
	}
	if n.Len() > MaxTriggerIncludes {
		r.report(n, "include some of them from another one", "`%s` names %d files, and the limit is %d", name, n.Len(), MaxTriggerIncludes)
	}
	var out []config.Node
	for _, it := range n.Items() {
		switch it.Kind() {
		case yamlsource.String:
			r.filled(it, name)
		case yamlsource.Mapping:
			r.triggerInclude(it)
		default:
			r.report(it, "write the path of a file", "an item of `%s` must be a string or a map, not %s", name, it.Kind())
			continue
		}
		out = append(out, it)
	}
	return out
}

func (r triggerReader) triggerInclude(n config.Node) {
	const name = "trigger:include"
	for _, form := range triggerIncludes {
		if n.Get(form.keys[0]).IsNull() {
			continue
		}
		for key, v := range r.fields(n, name, form.keys) {
			switch key {
			case "inputs":
				for range r.named(v, name+":inputs", "write NAME: value under it") {
				}
			case "file":
				r.textOrTexts(v, name+":file")
			case "project":
				r.projectPath(v, name+":project")
			default:
				r.filled(v, name+":"+key)
			}
		}
		for _, key := range form.needed {
			if n.Get(key).IsNull() {
				r.report(n, "add `"+key+":`", "an item of `%s` with %s has no %s", name, form.keys[0], key)
			}
		}
		return
	}
	var forms []string
	for _, form := range triggerIncludes {
		forms = append(forms, form.keys[0])
	}
	slices.Sort(forms)
	hint := "write one of " + strings.Join(forms, ", ")
	for key := range n.Entries() {
		hint = r.suggest(key.Text(), forms, hint)
		break
	}
	r.report(n, hint, "an item of `%s` does not name a place for the file", name)
}
