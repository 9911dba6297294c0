package keyword

import (
	"fmt"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
)

// Read reads the definition of a configuration. The list is all that is wrong with it, in the order of its files and lines, at most
// config.MaxProblems and a last one that counts the rest; the definition is what could be made of what is right.
//
// What config.Resolve reports is not reported again. A configuration that lacks files (config.Config.Partial) is not told of the
// jobs and stages that it names without having them: they may be in what is missing.
func Read(c *config.Config) (*Definition, diag.List) {
	d := &Definition{}
	values := &values{reporter: &reporter{config: c}}
	stages := &stageReader{values: values}
	d.Stages = stages.stages(c.Stages)
	stages.unsure = c.Partial || len(values.found) > 0
	jobs := newJobReader(values, stages)
	d.Workflow = jobs.workflow(c.Workflow)
	d.Variables = jobs.variables(c.Variables, "variables", globalVariable)
	d.Jobs = make([]*Job, 0, len(c.Jobs))
	byName := make(map[string]*Job, len(c.Jobs))
	for i := range c.Jobs {
		job := jobs.job(&c.Jobs[i], d.Workflow.hasRules())
		d.Jobs = append(d.Jobs, job)
		byName[job.Name] = job
	}
	jobs.defaults(c)
	links := linker{reporter: values.reporter, definition: d, stages: stages.index, jobs: byName}
	links.links()
	return d, values.problems()
}

// reporter collects what is wrong with a configuration.
type reporter struct {
	config *config.Config
	found  []diag.Diagnostic
	seen   map[problem]bool
	more   int // problems that are not kept
}

type problem struct {
	place   diag.Span
	message string
}

// report collects what is wrong with a node. A mistake that many jobs inherit is reported once, with the first one's history.
func (r *reporter) report(n config.Node, hint, format string, args ...any) {
	r.reportAt(n, n.Span(), hint, format, args...)
}

func (r *reporter) reportAt(n config.Node, place diag.Span, hint, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	key := problem{place, message}
	if r.seen[key] {
		return
	}
	if r.seen == nil {
		r.seen = map[problem]bool{}
	}
	r.seen[key] = true
	if r.full() {
		r.more++
		return
	}
	r.found = append(r.found, n.DiagnosticAt(place, hint, message))
}

// full reports whether there are as many problems as are reported: suggestions for further ones are not worth their making.
func (r *reporter) full() bool { return len(r.found) >= config.MaxProblems }

// problems are what was reported: those of the first file first, then those of the others as they were read.
func (r *reporter) problems() diag.List {
	list := inOrder(r.config, r.found)
	if r.more > 0 {
		list = append(list, diag.Diagnostic{Message: fmt.Sprintf("%d more problems are not shown", r.more)})
	}
	return list
}

// inOrder sorts diagnostics by the files of a configuration and the places in them.
func inOrder(c *config.Config, found []diag.Diagnostic) diag.List {
	if len(found) == 0 {
		return nil
	}
	byFile := map[string]diag.List{}
	var order []string
	add := func(name string) {
		if _, known := byFile[name]; !known {
			byFile[name] = nil
			order = append(order, name)
		}
	}
	for _, s := range c.Sources {
		add(s.Name)
	}
	for _, d := range found {
		add(d.File)
		byFile[d.File] = append(byFile[d.File], d)
	}
	list := make(diag.List, 0, len(found))
	for _, name := range order {
		byFile[name].Sort()
		list = append(list, byFile[name]...)
	}
	return list
}

// suggest is a hint with the candidate that is meant, or else the one given.
func (r *reporter) suggest(name string, candidates []string, otherwise string) string {
	if r.full() {
		return otherwise
	}
	if like := diag.Suggest(name, candidates); like != "" {
		return fmt.Sprintf("did you mean %q?", like)
	}
	return otherwise
}

// shorten keeps a text of the configuration short enough for a message.
func shorten(text string) string {
	const limit = 80
	if len(text) <= limit {
		return text
	}
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return text
}
