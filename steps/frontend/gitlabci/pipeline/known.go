package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

// origin is where the variables of all jobs are from. Jobs share it.
type origin struct {
	facts Facts
	// global and workflow are those of the file; both are what a job inherits.
	global, workflow []variable.Variable

	globalIndex, workflowIndex map[string]*variable.Variable
	outside                    map[string]outsider
}

// outsider is the definition from outside of the file that counts.
type outsider struct {
	level    variable.Level
	variable *variable.Variable
}

func newOrigin(d *keyword.Definition, facts Facts) *origin {
	o := &origin{facts: facts, global: plain(d.Variables), outside: map[string]outsider{}}
	o.globalIndex = indexed(o.global)
	for _, layer := range facts.Variables {
		for i := range layer.Variables {
			v := &layer.Variables[i]
			if old, ok := o.outside[v.Name]; !ok || layer.Level >= old.level {
				o.outside[v.Name] = outsider{layer.Level, v}
			}
		}
	}
	return o
}

func (o *origin) setWorkflow(variables []variable.Variable) {
	o.workflow, o.workflowIndex = variables, indexed(variables)
}

func indexed(variables []variable.Variable) map[string]*variable.Variable {
	index := make(map[string]*variable.Variable, len(variables))
	for i := range variables {
		index[variables[i].Name] = &variables[i]
	}
	return index
}

// plain returns variables of the file as such.
func plain(variables []keyword.Variable) []variable.Variable {
	if len(variables) == 0 {
		return nil
	}
	out := make([]variable.Variable, len(variables))
	for i, v := range variables {
		out[i] = v.Variable
	}
	return out
}

// known is what is known when rules are decided: the when.Facts of one job, or of the workflow. It looks variables up where they
// are, because most jobs ask for one or two of a hundred.
type known struct {
	*origin
	job *Job // nil for the workflow

	predefined []variable.Variable // the job's, when they were asked for
	asked      bool
}

// forget drops what can be asked for again, since a verdict keeps the facts that it was made from.
func (k *known) forget() { k.predefined, k.asked = nil, false }

// find returns the definition of a variable that counts, from the highest level down. At one level, what the file says is above
// what comes from outside.
func (k *known) find(name string) *variable.Variable {
	out, found := k.outside[name]
	above := func(level variable.Level) bool { return found && out.level > level }
	if above(variable.Job) {
		return out.variable
	}
	if k.job != nil {
		if v := k.job.own(name); v != nil {
			return v
		}
	}
	inherits := k.job == nil || k.job.Keywords.Inherits.Has(name)
	if above(variable.Workflow) {
		return out.variable
	}
	if v := k.workflowIndex[name]; v != nil && inherits {
		return v
	}
	if above(variable.Global) {
		return out.variable
	}
	if v := k.globalIndex[name]; v != nil && inherits {
		return v
	}
	if above(variable.Predefined) {
		return out.variable
	}
	if k.job != nil {
		if !k.asked {
			k.predefined, k.asked = k.job.asked(), true
		}
		if v := last(k.predefined, name); v != nil {
			return v
		}
		if v := k.job.node(name); v != nil {
			return v
		}
	}
	return out.variable
}

// own returns a variable that the job itself defines.
func (j *Job) own(name string) *variable.Variable {
	if v := last(j.Matrix, name); v != nil {
		return v
	}
	variables := j.Keywords.Variables
	for i := len(variables) - 1; i >= 0; i-- {
		if variables[i].Name == name {
			return &variables[i].Variable
		}
	}
	return nil
}

func last(variables []variable.Variable, name string) *variable.Variable {
	for i := len(variables) - 1; i >= 0; i-- {
		if variables[i].Name == name {
			return &variables[i]
		}
	}
	return nil
}

// Lookup implements when.Facts.
func (k *known) Lookup(name string) (string, bool) {
	if v := k.find(name); v != nil {
		return v.Value, true
	}
	return "", false
}

// IsMasked implements when.Facts.
func (k *known) IsMasked(name string) bool {
	v := k.find(name)
	return v != nil && v.Masked
}

// Pipeline implements when.Facts.
func (k *known) Pipeline() when.Pipeline { return k.facts.Ref }

// Changed implements when.Facts.
func (k *known) Changed(c when.Changes) (when.Answer, error) {
	if k.facts.Changed == nil {
		return when.Answer{Yes: true}, nil
	}
	var err error
	if c.Paths, err = k.patterns(c.Paths); err != nil {
		return when.Answer{}, err
	}
	if c.Regexp, err = k.pattern(c.Regexp); err != nil {
		return when.Answer{}, err
	}
	if c.CompareTo, err = k.text(c.CompareTo); err != nil {
		return when.Answer{}, err
	}
	return k.facts.Changed(c)
}

// Exists implements when.Facts.
func (k *known) Exists(e when.Exists) (when.Answer, error) {
	if k.facts.Exists == nil {
		return when.Answer{Yes: true}, nil
	}
	var err error
	if e.Paths, err = k.patterns(e.Paths); err != nil {
		return when.Answer{}, err
	}
	if e.Regexp, err = k.pattern(e.Regexp); err != nil {
		return when.Answer{}, err
	}
	if e.Project, err = k.text(e.Project); err != nil {
		return when.Answer{}, err
	}
	if e.Ref, err = k.text(e.Ref); err != nil {
		return when.Answer{}, err
	}
	return k.facts.Exists(e)
}

// mayRefer reports whether a text can hold references to variables.
func mayRefer(text string) bool { return strings.ContainsAny(text, "$%") }

// patterns expands patterns of files; references to variables that are not set stay.
func (k *known) patterns(paths []string) ([]string, error) {
	if !slices.ContainsFunc(paths, mayRefer) {
		return paths, nil
	}
	variables, err := k.expanded(paths...)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(paths))
	for i, path := range paths {
		if out[i], err = variable.ExpandKnown(path, variables.Lookup); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return out, nil
}

// pattern expands a pattern of `regexp:` in the same way.
func (k *known) pattern(text string) (string, error) {
	out, err := k.patterns([]string{text})
	if err != nil {
		return "", err
	}
	return out[0], nil
}

// text expands a text; references to variables that are not set are removed.
func (k *known) text(text string) (string, error) {
	if !mayRefer(text) {
		return text, nil
	}
	variables, err := k.expanded(text)
	if err != nil {
		return "", err
	}
	expanded, err := variable.ExpandText(text, variables.Lookup)
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	return expanded, nil
}

// maxRounds is how long chains of variables may be that are followed one by one. For longer ones, all variables are expanded.
const maxRounds = 4

// expanded returns the variables that texts refer to, and those that these refer to, with their values expanded. There may be
// others among them.
func (k *known) expanded(texts ...string) (*variable.Collection, error) {
	layers := k.layers(k.job)
	wanted := map[string]bool{}
	for _, text := range texts {
		for _, name := range variable.References(text) {
			wanted[name] = true
		}
	}
	for range maxRounds {
		some, grown := make([]variable.Layer, 0, len(layers)), false
		for _, layer := range layers {
			picked := variable.Layer{Level: layer.Level}
			for _, v := range layer.Variables {
				if !wanted[v.Name] {
					continue
				}
				picked.Variables = append(picked.Variables, v)
				if v.Raw || !mayRefer(v.Value) {
					continue
				}
				for _, name := range variable.References(v.Value) {
					grown = grown || !wanted[name]
					wanted[name] = true
				}
			}
			some = append(some, picked)
		}
		if !grown {
			return variable.Merge(some...).Expand(variable.ForRules)
		}
	}
	return variable.Merge(layers...).Expand(variable.ForRules)
}
