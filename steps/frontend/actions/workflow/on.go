package workflow

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/yamlsource"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/diag/rules"
)

// On says which events start the workflow.
type On struct {
	events    []eventFilter
	schedules []Schedule
	dispatch  []Input
	inputs    []Input
	secrets   []Secret
	outputs   []callOutput
}

// eventFilter is one event, and what narrows it down.
type eventFilter struct {
	name      string
	types     []string // empty is the usual ones
	workflows []string
	filters   map[string][]pattern // by key: "branches", "paths-ignore", …
}

// Schedule is a line of on.schedule.
type Schedule struct {
	Cron     string
	Timezone string // an IANA name; empty is UTC
}

// Names returns the events in the order of the text.
func (o *On) Names() []string {
	names := make([]string, len(o.events))
	for i, e := range o.events {
		names[i] = e.name
	}
	return names
}

// Has reports whether the workflow names the event at all.
func (o *On) Has(event string) bool {
	return slices.ContainsFunc(o.events, func(e eventFilter) bool { return e.name == event })
}

// Schedules are the cron lines of on.schedule.
func (o *On) Schedules() []Schedule { return o.schedules }

// triggers reads what is below `on`.
type triggers struct {
	*nodes
	on *On
}

// read reads the events: a name, a list of names, or a map.
func (r *triggers) read(n *yamlsource.Node) {
	switch n.Kind {
	case yamlsource.Mapping:
		for _, e := range n.Entries {
			if r.eventName(e.Key) {
				r.event(e.Key.Text, e.Value)
			}
		}
	case yamlsource.Sequence:
		for _, item := range n.Items {
			if r.eventName(item) {
				r.event(item.Text, nil)
			}
		}
	default:
		if r.eventName(n) {
			r.event(n.Text, nil)
		}
	}
	if len(r.on.events) == 0 && !r.source.Failed() {
		r.report(n.Span, "write `on: push`, say", "no event starts the workflow")
	}
}

func (r *triggers) eventName(n *yamlsource.Node) bool {
	name, ok := r.filled(n, "an event")
	if !ok {
		return false
	}
	if _, known := eventKinds[name]; !known {
		r.report(n.Span, r.suggest(name, slices.Sorted(maps.Keys(eventKinds)), "the events are "), "no event %q starts workflows", shorten(name))
		return false
	}
	if r.on.Has(name) {
		r.report(n.Span, "", "the event %q is named twice", name)
		return false
	}
	return true
}

func (r *triggers) event(name string, n *yamlsource.Node) {
	kind, event := eventKinds[name], eventFilter{name: name, filters: map[string][]pattern{}}
	defer func() { r.on.events = append(r.on.events, event) }()
	if name == "schedule" {
		r.schedule(n)
		return
	}
	if !isSet(n) {
		return
	}
	keys := kind.keys()
	if len(keys) == 0 {
		r.note(rules.IgnoredKey, n.Span, "write `"+name+":` and nothing below it", "the event %s takes no filters: GitHub ignores what is below it", name)
		return
	}
	if n.Kind == yamlsource.Sequence && len(n.Items) == 0 {
		r.note(rules.IgnoredKey, n.Span, "write `"+name+":` and nothing below it", "the event %s has an empty list, which GitHub ignores", name)
		return
	}
	if name != "workflow_call" && n.Kind == yamlsource.Mapping { // GitHub's schema of a run takes anything else
		r.ignored(n, "the event "+name, keys)
	} else if !r.keys(n, "the event "+name, keys...) {
		return
	}
	for _, e := range n.Entries {
		switch key := e.Key.Text; {
		case !slices.Contains(keys, key):
		case name != "workflow_call" && key != "inputs" && e.Value.Kind == yamlsource.Null:
			r.note(rules.IgnoredKey, e.Key.Span, "delete it, or name what starts the workflow", "%q of the event %s is empty and filters nothing", key, name)
		case key == "types":
			event.types = r.types(name, kind, e.Value)
		case key == "workflows":
			event.workflows = r.strings(e.Value, "a workflow")
		case key == "inputs" && name == "workflow_dispatch":
			r.on.dispatch = r.inputs(e.Value, true)
		case key == "inputs":
			r.on.inputs = r.inputs(e.Value, false)
		case key == "secrets":
			r.callSecrets(e.Value)
		case key == "outputs":
			r.callOutputs(e.Value)
		default:
			event.filters[key] = r.patterns(key, e.Value)
		}
	}
	r.onlyExcludes(n, event.filters)
	for _, key := range []string{"branches", "tags", "paths"} {
		if ignore := n.Get(key + "-ignore"); isSet(ignore) && isSet(n.Get(key)) {
			r.report(ignore.Span, `write "`+key+`", and patterns that begin with ! in it`, `%q and %q exclude each other`, key, key+"-ignore")
		}
	}
	if name == "workflow_run" && len(event.workflows) == 0 {
		r.report(n.Span, "add `workflows: [NAME]`", "workflow_run must name the workflows that it waits for")
	}
}

// isSet reports whether a filter says something: one that is empty is none.
func isSet(n *yamlsource.Node) bool { return n != nil && n.Kind != yamlsource.Null }

// types reads the types of activity.
func (r *triggers) types(name string, kind eventKind, n *yamlsource.Node) []string {
	known := strings.Fields(kind.types)
	types := r.strings(n, "a type")
	for i, text := range types {
		if kind.types == "*" || slices.Contains(known, text) {
			continue
		}
		place := n
		if n.Kind == yamlsource.Sequence && len(n.Items) == len(types) {
			place = n.Items[i]
		}
		r.report(place.Span, r.suggest(text, known, "the types are "), "%s has no activity %q", name, shorten(text))
	}
	return types
}

// patterns reads the patterns of a filter.
func (r *triggers) patterns(key string, n *yamlsource.Node) []pattern {
	items := []*yamlsource.Node{n}
	if n.Kind == yamlsource.Sequence {
		items = n.Items
	}
	var out []pattern
	for _, item := range items {
		text, ok := r.filled(item, `a pattern of "`+key+`"`)
		if !ok {
			continue
		}
		p, err := parsePattern(text)
		if err != nil {
			r.report(item.Span, `take characters as they are with a \ before them`, "%s", err)
			continue
		}
		out = append(out, p)
	}
	if len(items) == 0 {
		r.report(n.Span, "", "%q has no patterns", key)
	}
	return out
}

// onlyExcludes reports a filter that nothing matches. That of tags may be so beside one of branches, and the other way around: pushes of the others
// start the workflow.
func (r *triggers) onlyExcludes(n *yamlsource.Node, filters map[string][]pattern) {
	other := map[string]string{"branches": "tags", "tags": "branches"}
	for _, key := range slices.Sorted(maps.Keys(filters)) {
		patterns := filters[key]
		matches := func(p pattern) bool { return !p.minus }
		if strings.HasSuffix(key, "-ignore") || len(patterns) == 0 || slices.ContainsFunc(patterns, matches) || slices.ContainsFunc(filters[other[key]], matches) {
			continue
		}
		r.report(n.Get(key).Span, `use "`+key+`-ignore", or add a pattern without !`, "%q only excludes, so nothing matches", key)
	}
}

// schedule reads the cron lines.
func (r *triggers) schedule(n *yamlsource.Node) {
	if n == nil || n.Kind != yamlsource.Sequence || len(n.Items) == 0 {
		place := diag.Span{}
		if n != nil {
			place = n.Span
		}
		r.report(place, "write a list: - cron: '0 5 * * *'", "a schedule needs cron lines")
		return
	}
	for _, item := range n.Items {
		if !r.keys(item, "a line of the schedule", "cron", "timezone") {
			continue
		}
		line := Schedule{}
		if cron := item.Get("cron"); cron == nil {
			r.report(item.Span, "add `cron: '0 5 * * *'`", "the schedule has no time")
		} else if text, ok := r.filled(cron, "the cron line"); ok {
			if err := checkCron(text); err != nil {
				r.report(cron.Span, "", "%s", err)
			}
			line.Cron = text
		}
		if zone := item.Get("timezone"); zone != nil {
			if line.Timezone, _ = r.filled(zone, "the time zone"); strings.ContainsAny(line.Timezone, " \t:\\") {
				r.report(zone.Span, "use a name such as Europe/London", "%q is not a time zone", shorten(line.Timezone))
			}
		}
		r.on.schedules = append(r.on.schedules, line)
	}
}
