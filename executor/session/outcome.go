package session

import (
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/value"
)

// BuiltinPrefix begins the references of built-in steps.
const BuiltinPrefix = "builtin://"

// Outcome is how a run of a job's steps ended and what they produced.
type Outcome struct {
	// Started says that the run has begun: what went wrong is in its events.
	Started bool
	// End is nil until the run has ended.
	End *event.RunFinished
	// Titles are what people call the steps of the job's own list, by their names.
	Titles map[string]string
	// Builtin are the names of steps that are built in, by their paths.
	Builtin map[string]string
	// Produced are the results of steps that refer to a component, in the order in which they ended.
	Produced []Produced

	running map[string]*Produced
}

// Produced is what a step that succeeded was given and gave.
type Produced struct {
	Step    string // the step's name in the job's own list; empty for a step inside another one
	Ref     string // builtin://artifacts/upload
	Inputs  map[string]value.Value
	Outputs map[string]value.Value
}

// Event implements event.Sink.
func (o *Outcome) Event(e event.Event) {
	switch b := e.Body.(type) {
	case event.RunStarted:
		*o = Outcome{Started: true, Titles: map[string]string{}, Builtin: map[string]string{}, running: map[string]*Produced{}}
	case event.StepStarted:
		if b.Title != "" && !strings.Contains(e.Step, ".") {
			o.Titles[b.Name] = b.Title
		}
		if b.Ref != "" {
			if strings.HasPrefix(b.Ref, BuiltinPrefix) {
				o.Builtin[e.Step] = b.Name
			}
			p := &Produced{Ref: b.Ref}
			if !strings.Contains(e.Step, ".") {
				p.Step = b.Name
			}
			o.running[e.Step] = p
		}
	case event.StepInputs:
		if p := o.running[e.Step]; p != nil {
			p.Inputs = b.Inputs
		}
	case event.StepFinished:
		if p := o.running[e.Step]; p != nil && b.Status == event.Success {
			p.Outputs = b.Outputs
			o.Produced = append(o.Produced, *p)
		}
		delete(o.running, e.Step)
	case event.RunFinished:
		o.End = &b
	}
}

// Of returns what the step of the job's own list with this name gave; nil if the environment does not say that it succeeded. What it
// gave is what an environment says: it decides at most that there is nothing.
func (o *Outcome) Of(step string) *Produced {
	for i := range o.Produced {
		if o.Produced[i].Step == step && step != "" {
			return &o.Produced[i]
		}
	}
	return nil
}
