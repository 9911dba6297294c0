package convert

import (
	"slices"
	"strconv"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
)

// workflow writes what concerns the whole pipeline.
func (c *converter) workflow(doc *mapping) {
	var w mapping
	s := c.newScope(nil)
	name := c.root.Get("run-name")
	if name == nil {
		name = c.root.Get("name")
	}
	if name != nil {
		if text, ok := s.dollars(name); ok {
			w.add("name", text)
		} else {
			w.remark(c.note(name.Span, "the name of runs cannot be expressed: %s", shorten(name.Text)))
		}
	}
	if n := c.root.Get("concurrency"); n != nil {
		if cancels(n) {
			if computed(n.Get("cancel-in-progress")) {
				c.note(n.Span, "cancel-in-progress is computed on GitHub: here every newer pipeline of a branch cancels the one before")
			}
			w.add("auto_cancel", mapping{{nil, "on_new_commit", "interruptible"}})
		} else {
			w.remark(c.note(n.Span, "concurrency of the workflow is left out: pipelines of GitLab do not wait for each other; jobs do, by resource_group"))
		}
	}
	if rules := c.events(); len(rules) > 0 {
		w.add("rules", rules)
	}
	if len(w) > 0 {
		doc.add("workflow", w)
	}
	if n := c.root.Get("concurrency"); cancels(n) {
		doc.add("default", mapping{{nil, "interruptible", raw("true")}})
	}
}

// cancels reports whether a concurrency ends what is under way.
func cancels(n *yamlsource.Node) bool {
	return n != nil && n.Get("cancel-in-progress") != nil && textOf(n.Get("cancel-in-progress")) != "false"
}

// events writes `on` as rules.
func (c *converter) events() list {
	on := c.root.Get("on")
	var rules list
	each := func(name string, key, filters *yamlsource.Node) {
		if filters == nil {
			filters = &yamlsource.Node{}
		}
		source := `$CI_PIPELINE_SOURCE == "` + sources[name] + `"`
		switch name {
		case "push":
			rules = append(rules, c.push(source, filters)...)
		case "pull_request", "pull_request_target":
			if types := filters.Get("types"); types != nil {
				c.note(types.Span, "on.%s.types is left out: GitLab starts a pipeline when a merge request is opened, and for each push to it", name)
			}
			rules = append(rules, c.rule(source, "$CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "branches", filters, true))
		case "schedule":
			rules = append(rules, mapping{{nil, "if", source}})
			for _, line := range c.w.On.Schedules() {
				c.note(key.Span, "create a schedule with the cron line %s in the project's settings", line.Cron)
			}
		case "workflow_dispatch":
			rules = append(rules, mapping{{nil, "if", source}})
		case "repository_dispatch":
			c.note(key.Span, "on.repository_dispatch becomes a pipeline trigger: create a token for it")
			rules = append(rules, mapping{{nil, "if", source}})
		case "workflow_call":
			c.note(key.Span, "on.workflow_call is left out: others include the file, or trigger it as a child pipeline")
		default:
			rules = append(rules, remark("on: "+c.note(key.Span, "GitLab starts no pipeline for the event %s", name)))
		}
	}
	switch on.Kind {
	case yamlsource.Mapping:
		for _, e := range on.Entries {
			each(e.Key.Text, e.Key, e.Value)
		}
	case yamlsource.Sequence:
		for _, item := range on.Items {
			each(item.Text, item, nil)
		}
	default:
		each(on.Text, on, nil)
	}
	if !slices.ContainsFunc(rules, func(item any) bool { _, is := item.(mapping); return is }) {
		return nil
	}
	return rules
}

// push writes the rules for branches and for tags.
func (c *converter) push(source string, filters *yamlsource.Node) list {
	branches := filters.Get("branches") != nil || filters.Get("branches-ignore") != nil
	tags := filters.Get("tags") != nil || filters.Get("tags-ignore") != nil
	var out list
	if branches || !tags {
		out = append(out, c.rule(source, "$CI_COMMIT_BRANCH", "branches", filters, true))
	}
	if tags {
		out = append(out, c.rule(source, "$CI_COMMIT_TAG", "tags", filters, false))
	}
	return out
}

// rule writes one rule: where the pipeline is from, the filters of a name, and of paths.
func (c *converter) rule(source, name, key string, filters *yamlsource.Node, paths bool) mapping {
	condition := source
	if n := filters.Get(key); n != nil {
		condition += " && " + c.named(n, name, key)
	}
	if n := filters.Get(key + "-ignore"); n != nil {
		condition += " && " + name
		for _, text := range texts(n) {
			condition += " && " + matches(name, text, true)
		}
	}
	rule := mapping{{nil, "if", condition}}
	if !paths {
		return rule
	}
	if n := filters.Get("paths-ignore"); n != nil {
		rule.remark(c.note(n.Span, "paths-ignore is left out: rules of GitLab say what must have changed (changes), not what must not"))
	}
	if n := filters.Get("paths"); n != nil {
		var changes list
		for _, text := range texts(n) {
			if strings.HasPrefix(text, "!") {
				rule.remark(c.note(n.Span, "the path %s is left out: `changes` cannot take paths away", text))
				continue
			}
			if rest, ok := strings.CutPrefix(text, "**"); ok && rest != "" && rest[0] != '/' {
				text = "**/*" + rest
			}
			changes = append(changes, text)
		}
		rule.add("changes", changes)
	}
	return rule
}

// named writes which names are meant. Of patterns with ! the order counts on GitHub.
func (c *converter) named(n *yamlsource.Node, name, key string) string {
	var are, areNot []string
	for _, text := range texts(n) {
		rest, minus := strings.CutPrefix(text, "!")
		switch {
		case minus:
			areNot = append(areNot, matches(name, rest, true))
		case len(areNot) > 0:
			c.note(n.Span, "%s: %s comes after a pattern with !, which now takes precedence", key, text)
			fallthrough
		default:
			are = append(are, matches(name, text, false))
		}
	}
	out := strings.Join(are, " || ")
	if len(are) > 1 {
		out = "(" + out + ")"
	}
	return strings.Join(append([]string{out}, areNot...), " && ")
}

// matches compares a variable with a pattern of a filter.
func matches(name, glob string, negate bool) string {
	if !strings.ContainsAny(glob, `*?+[]!\"$`) {
		return name + map[bool]string{false: " == ", true: " != "}[negate] + strconv.Quote(glob)
	}
	if glob == "**" && !negate {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		switch ch := glob[i]; {
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			i++
		case ch == '*':
			b.WriteString(`[^\/]*`)
		case ch == '\\' && i+1 < len(glob):
			i++
			b.WriteString(pattern(glob[i : i+1]))
		case strings.IndexByte("?+[]", ch) >= 0:
			b.WriteByte(ch)
		case ch == '-':
			b.WriteByte(ch)
		case ch < 0x80:
			b.WriteString(pattern(glob[i : i+1]))
		default:
			b.WriteByte(ch)
		}
	}
	return name + map[bool]string{false: " =~ ", true: " !~ "}[negate] + "/^" + b.String() + "$/"
}

// texts are the texts of a scalar or of a list.
func texts(n *yamlsource.Node) []string {
	switch {
	case n == nil || n.Kind == yamlsource.Null:
		return nil
	case n.Kind != yamlsource.Sequence:
		return []string{n.Text}
	}
	var out []string
	for _, item := range n.Items {
		out = append(out, item.Text)
	}
	return out
}

// dispatched writes the inputs of workflow_dispatch as variables that GitLab asks for.
func (c *converter) dispatched() mapping {
	var out mapping
	for _, in := range c.w.DispatchInputs() {
		v := mapping{{nil, "value", formatDefault(in.Default)}}
		if in.Description != "" {
			v.add("description", in.Description)
		}
		options := in.Options
		if in.Type == "boolean" {
			options = []string{"true", "false"}
			if formatDefault(in.Default) == "" {
				v[0].value = "false"
			}
		}
		if len(options) > 0 {
			var l list
			for _, o := range options {
				l = append(l, o)
			}
			if text, _ := v[0].value.(string); !slices.Contains(options, text) {
				v[0].value = options[0]
			}
			v.add("options", l)
		}
		out.add(identifier(in.Name), v)
	}
	return out
}
