package github

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/plan"
)

// Planned is a leg as it would run.
type Planned struct {
	Name string
	// Runs says whether it would, when all that it needs succeeds, Why why.
	Runs bool
	Why  string
	// Calls is the workflow that it calls; Compiled its steps, nil where it calls one.
	Calls string
	*definition.Compiled
}

// Steps are its steps.
func (p *Planned) Steps() []plan.Step {
	if p.Compiled == nil {
		return nil
	}
	return p.Plan.Definition.Steps
}

// Notes are what its steps do in another way than on GitHub.
func (p *Planned) Notes() []string {
	if p.Compiled == nil {
		return nil
	}
	return p.Compiled.Notes
}

// Plan makes the steps of the legs that are chosen, each behind those that it needs, and runs nothing. What jobs give to each other is
// empty.
func (p *Project) Plan(ctx context.Context, chosen *Selection, realCheckout bool) ([]Planned, error) {
	r := p.runner(ctx, &RunOptions{Selection: chosen, RealCheckout: realCheckout})
	s := &scope{Workflow: p.Workflow, contexts: p.contexts(), lock: p.lock, depth: 1}
	project := filepath.Join(os.TempDir(), "rung-planned", p.Repository.Project.Name())
	layout := executor.Layout{Project: project, Temp: project + ".tmp", Shared: true}
	var out []Planned
	for _, j := range p.Workflow.Order() {
		if !chosen.has(j) {
			continue
		}
		n := &node{job: j, scope: s}
		runs, why, err := j.Runs(definition.Status{Results: n.before()}, n.contexts())
		var legs *legs
		if err == nil {
			legs, err = r.legs(n)
		}
		switch {
		case err != nil && len(j.Needs) > 0: // what they give is not known
			out = append(out, Planned{Name: j.ID, Why: "unknown yet: " + session.OneLine(err.Error())})
			continue
		case err != nil:
			return nil, err
		case !runs && j.AsksForOutputs():
			runs, why = true, notKnown
		}
		for _, l := range chosen.legs(j, legs.list) {
			l.node = n
			planned := Planned{Name: l.name, Runs: runs, Why: why}
			if j.Call != nil {
				planned.Calls = j.Call.Uses
			} else {
				a := &attempt{runner: r, leg: l, contexts: p.legContexts(l), planned: true}
				if planned.Compiled, err = a.compile(layout); err != nil {
					return nil, err
				}
			}
			out = append(out, planned)
		}
	}
	return out, nil
}
