package config

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
)

// assembler makes the jobs of what all files hold together.
type assembler struct {
	*problems
	lacking map[string]bool // jobs that miss what they should take over, which has been reported
}

// broken notes that a job has not got all that its author gave it, so that it is not blamed for what it lacks.
func (r *assembler) broken(job string) {
	if r.lacking == nil {
		r.lacking = map[string]bool{}
	}
	r.lacking[job] = true
}

// jobs sorts the top level into keywords and jobs, and gives every job its defaults.
func (r *assembler) jobs(c *Config) {
	c.Stages, c.Workflow, c.Variables = c.Root.Get("stages"), c.Root.Get("workflow"), c.Root.Get("variables")
	c.Default = c.Root.Get("default")
	c.index = map[string]int{}
	d := r.defaults(c.Root)
	for _, e := range c.Root.tree.entries {
		name := e.key.text
		if globalKeywords[name] || strings.HasPrefix(name, ".") {
			continue
		}
		key, body := Node{e.key, e.via}, Node{e.value, e.via}
		if !r.checkJob(key, body) {
			continue
		}
		job := Job{Name: name, Key: key, Body: body, Lacking: r.lacking[name], Trigger: !body.Get("trigger").IsNull(), Variables: Inherit{All: true}, Defaults: Inherit{All: true}}
		r.inherit(&job)
		job.Body = d.apply(&job)
		c.index[name] = len(c.Jobs)
		c.Jobs = append(c.Jobs, job)
	}
	if len(c.Jobs) == 0 && len(r.found) == 0 {
		r.report(c.Root, "add a job: a name, and under it `script:`", "the configuration has no visible jobs")
	}
}

// checkJob reports what makes a top-level entry no job.
func (r *assembler) checkJob(key, body Node) bool {
	name := shorten(key.Text())
	switch {
	case body.Kind() != yamlsource.Mapping:
		if r.lacking[key.Text()] {
			return false
		}
		hint := "give it a `script:`, or begin its name with a dot to hide it"
		if like := diag.Suggest(key.Text(), globalNames()); like != "" {
			hint = "did you mean \"" + like + "\"?"
		}
		r.report(key, hint, "%q is neither a keyword nor a job: a job must be a map, not %s", name, body.Kind())
		return false
	case key.Text() == "":
		r.report(key, "give it a name", "the name of a job is empty")
		return false
	case utf8.RuneCountInString(key.Text()) > MaxJobName:
		r.report(key, "shorten it", "the name of the job is longer than %d characters, which is the limit", MaxJobName)
	case reservedNames[key.Text()]:
		r.report(key, "choose another one", "%q is a reserved name: no job can have it", name)
	}
	if r.checkPurpose(key, body) {
		r.checkKeywords(body)
	}
	return true
}

// checkPurpose reports a job that does nothing. It reports false for what is rather a misspelt keyword.
func (r *assembler) checkPurpose(key, body Node) bool {
	if r.partial || r.lacking[key.Text()] {
		return true // what it would do may be in what is missing, and that is reported already
	}
	for _, purpose := range []string{"script", "run", "trigger"} {
		if !body.Get(purpose).IsNull() {
			return true
		}
	}
	for _, need := range body.Get("needs").Flat() {
		if need.Get("pipeline").Exists() && !need.Get("job").Exists() {
			return true // it takes over the status of another pipeline
		}
	}
	hint := "give it one of them, or begin its name with a dot to hide it"
	if like := diag.Suggest(key.Text(), globalNames()); like != "" {
		hint = "did you mean \"" + like + "\"?"
	}
	r.report(key, hint, "the job %q has neither script, run nor trigger", shorten(key.Text()))
	return diag.Suggest(key.Text(), globalNames()) == ""
}

// checkKeywords reports keys that no job has.
func (r *assembler) checkKeywords(body Node) {
	for _, e := range body.tree.entries {
		if !jobKeywordSet[e.key.text] {
			key := Node{e.key, e.via.then(body.via)}
			r.report(key, r.suggest(key.Text(), jobKeywords, "delete it; `step-runner explain` lists the keywords"), "a job has no keyword %q", shorten(key.Text()))
		}
	}
}

func globalNames() []string {
	names := make([]string, 0, len(globalKeywords))
	for name := range globalKeywords {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// inherit reads the job's `inherit:`.
func (r *assembler) inherit(job *Job) {
	inherit := job.Body.Get("inherit")
	if inherit.IsNull() {
		return
	}
	if inherit.Kind() != yamlsource.Mapping {
		r.report(inherit, "write `default:` and `variables:` under it", "`inherit` must be a map, not %s", inherit.Kind())
		return
	}
	for key, v := range inherit.Entries() {
		switch key.Text() {
		case "default":
			job.Defaults = r.inherited(v, job.Defaults)
			for _, name := range v.Items() {
				if name.Kind() == yamlsource.String && !slices.Contains(defaultKeywords, name.Text()) {
					r.report(name, r.suggest(name.Text(), defaultKeywords, "delete it"), "`default:` has no keyword %q", shorten(name.Text()))
				}
			}
		case "variables":
			job.Variables = r.inherited(v, job.Variables)
		default:
			r.report(key, r.suggest(key.Text(), []string{"default", "variables"}, "delete it"), "`inherit` has no key %q", shorten(key.Text()))
		}
	}
}

func (r *assembler) inherited(v Node, otherwise Inherit) Inherit {
	switch {
	case v.Kind() == yamlsource.Boolean || v.IsBare() && (v.Text() == "true" || v.Text() == "false"):
		return Inherit{All: v.Text() == "true"}
	case v.Kind() == yamlsource.Sequence:
		out := Inherit{}
		for _, name := range v.Items() {
			if name.Kind() != yamlsource.String {
				r.report(name, "write the names of what is inherited", "`inherit` lists %s", name.Kind())
				continue
			}
			out.Names = append(out.Names, name.Text())
		}
		return out
	case v.IsNull():
		return otherwise
	default:
		r.report(v, "write true, false or a list of names", "`inherit` must be a boolean or a list, not %s", v.Kind())
		return otherwise
	}
}

// defaults are what jobs take over when they have not got it.
type defaults struct {
	entries []entry // in the order of defaultKeywords, each with its hop
}

// defaults reads `default:` and the global keywords that do the same.
func (r *assembler) defaults(root Node) defaults {
	key, body := root.Entry("default")
	if body.Exists() && !body.IsNull() && body.Kind() != yamlsource.Mapping {
		r.report(body, "write keywords of jobs under it", "`default` must be a map, not %s", body.Kind())
		body = Node{}
	}
	for k := range body.Entries() {
		if !slices.Contains(defaultKeywords, k.Text()) {
			r.report(k, r.suggest(k.Text(), defaultKeywords, "set it in the jobs, or in a hidden job that they extend"), "`default:` has no keyword %q", shorten(k.Text()))
		}
	}
	var d defaults
	for _, name := range defaultKeywords {
		globalKey, global := Node{}, Node{}
		if slices.Contains(globalDefaults, name) {
			globalKey, global = root.Entry(name)
		}
		k, v := body.Entry(name)
		switch {
		case !v.IsNull() && !global.IsNull():
			r.report(globalKey, "keep the one in `default:`", "%q is set at the top level and in `default:`", name)
			fallthrough
		case !v.IsNull():
			via := k.via.then(&hop{step: Step{By: ByDefault, Name: name, At: key.Span(), Source: key.Source()}})
			d.entries = append(d.entries, entry{k.tree, v.tree, via})
		case !global.IsNull():
			via := globalKey.via.then(&hop{step: Step{By: ByGlobal, Name: name, At: globalKey.Span(), Source: globalKey.Source()}})
			d.entries = append(d.entries, entry{globalKey.tree, global.tree, via})
		}
	}
	return d
}

// apply gives a job the defaults that it inherits and has not got itself. What it has is not merged with the default, and what
// it has as null it has not got.
func (d defaults) apply(job *Job) Node {
	var more []entry
	for _, e := range d.entries {
		name := e.key.text
		if job.Trigger && !slices.Contains(triggerDefaults, name) || !job.Defaults.Has(name) || !job.Body.Get(name).IsNull() {
			continue
		}
		more = append(more, e)
	}
	if more == nil {
		return job.Body
	}
	t := *job.Body.tree
	t.entries = slices.Concat(t.entries, nil)
	for _, e := range more {
		if own := t.get(e.key.text); own != nil {
			*own = e
		} else {
			t.entries = append(t.entries, e)
		}
	}
	t.weigh()
	return Node{&t, job.Body.via}
}
