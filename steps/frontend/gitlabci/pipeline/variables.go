package pipeline

import (
	"fmt"
	"strconv"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// Variables returns the job's variables as GitLab sends them to a runner: merged by their levels and expanded, with what only the
// runner knows still in them. They are made again by every call, because most commands never ask for them.
//
// Variables that refer to each other in a circle are a diagnostic with the *variable.CycleError in its text: GitLab makes no
// pipeline then.
func (j *Job) Variables() (*variable.Collection, error) { return j.VariablesWith() }

// VariablesWith is Variables with more layers, for what is known only when the job starts, such as the dotenv reports of jobs that
// it needs. Of layers with one level these come last.
func (j *Job) VariablesWith(more ...variable.Layer) (*variable.Collection, error) {
	layers := append(j.origin.layers(j), more...)
	expanded, err := variable.Merge(layers...).Expand(variable.ForRunner)
	if err != nil {
		place := j.Keywords.Key
		if n, _ := j.Keywords.Node.Entry("variables"); n.Exists() {
			place = n
		}
		return nil, place.Diagnostic("", fmt.Sprintf("the job %q: %v", j.Name, err))
	}
	return expanded, nil
}

// layers returns where a job's variables are from. Without a job they are those of the workflow's rules.
func (o *origin) layers(j *Job) []variable.Layer {
	layers := make([]variable.Layer, 0, len(o.facts.Variables)+6)
	layers = append(layers, o.facts.Variables...)
	if j == nil {
		return append(layers, variable.Layer{Level: variable.Global, Variables: o.global}, variable.Layer{Level: variable.Workflow, Variables: o.workflow})
	}
	inherits := j.Keywords.Inherits
	return append(layers,
		variable.Layer{Level: variable.Predefined, Variables: j.predefined()},
		variable.Layer{Level: variable.Global, Variables: inherited(inherits, o.global)},
		variable.Layer{Level: variable.Workflow, Variables: inherited(inherits, o.workflow)},
		variable.Layer{Level: variable.Job, Variables: plain(j.Keywords.Variables)},
		variable.Layer{Level: variable.Job, Variables: j.Matrix},
		variable.Layer{Level: variable.Rules, Variables: j.Verdict.Variables},
	)
}

// inherited returns the variables that a job takes over. GitLab holds those of the workflow's rules for global ones.
func inherited(i config.Inherit, variables []variable.Variable) []variable.Variable {
	if i.All {
		return variables
	}
	var out []variable.Variable
	for _, v := range variables {
		if i.Has(v.Name) {
			out = append(out, v)
		}
	}
	return out
}

// predefined returns what is predefined for the job.
func (j *Job) predefined() []variable.Variable {
	own := j.asked()
	out := make([]variable.Variable, 0, len(own)+2)
	for _, name := range []string{nodeIndex, nodeTotal} {
		if v := j.node(name); v != nil {
			out = append(out, *v)
		}
	}
	return append(out, own...)
}

// asked returns what the facts say is predefined for the job.
func (j *Job) asked() []variable.Variable {
	if f := j.origin.facts.JobVariables; f != nil {
		return f(j)
	}
	return nil
}

// The variables of copies. GitLab sets the total for every job, and the index for copies.
const nodeIndex, nodeTotal = "CI_NODE_INDEX", "CI_NODE_TOTAL"

// node returns one of the variables of copies, nil for other names.
func (j *Job) node(name string) *variable.Variable {
	switch {
	case name == nodeTotal:
		return &variable.Variable{Name: nodeTotal, Value: strconv.Itoa(j.NodeTotal)}
	case name == nodeIndex && j.NodeIndex > 0:
		return &variable.Variable{Name: nodeIndex, Value: strconv.Itoa(j.NodeIndex)}
	default:
		return nil
	}
}
