package engine

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Recorded stands in for running a step: it says how the step ended in another run. What refers to the step sees that.
type Recorded struct {
	// Reason says why the step is not run, for people.
	Reason string
	// LeftOut says that nothing of the step is wanted. The lists around it then end without outputs, because those may be made
	// from the step's; the fields below are not used.
	LeftOut bool

	Status   event.Status
	Allowed  bool
	Outputs  map[string]value.Value
	Exports  map[string]Variable
	ExitCode *int
	Error    *event.Error
	// Withheld are the names of outputs that the step gave and that are not known now, because they are sensitive.
	Withheld []string
}

// recording is what is known of another run, in which its steps stand in for those of this one.
type recording struct {
	ask func(id string, st *plan.Step) *Recorded // nil where every step runs
	report
}

// of returns what stands in for the step; nil when it is to be run.
func (r *recording) of(id string, st *plan.Step) *Recorded {
	if r.ask == nil {
		return nil
	}
	return r.ask(id, st)
}

// standIn lets a recorded step have its effect on the list in s. Its only event says that it did not run.
func (r *recording) standIn(s *scope, id string, st *plan.Step, rec *Recorded) *outcome {
	r.out.emit(id, event.StepSkipped{Name: st.Name, Title: st.Title, Reason: rec.Reason, Span: r.places.shown(st.Span)})
	o := r.outcomeOf(s, st, rec)
	if o.err != nil {
		o.err = r.places.in(o.err, id, joined(s.path, st.Name), st)
	}
	o.counts = event.Counts{Skipped: 1}
	return o
}

func (r *recording) outcomeOf(s *scope, st *plan.Step, rec *Recorded) *outcome {
	if rec.LeftOut {
		return &outcome{status: event.Skipped, cut: true}
	}
	exports := make(map[string]variable, len(rec.Exports))
	for name, v := range rec.Exports {
		exports[name] = variable{v.Value, v.Sensitive}
		if v.Sensitive {
			r.out.addSecret(v.Value)
		}
	}
	s.export(exports)
	r.places.withhold(st.Name, rec.Withheld)
	o := &outcome{status: rec.Status, allowed: rec.Allowed, outputs: rec.Outputs, exitCode: rec.ExitCode, err: rec.Error}
	if o.err == nil && (o.status == event.Failure || o.status == event.Cancelled) {
		o.err = event.NewError(event.CodeRecordedFailure, "it failed in the recorded run")
	}
	return o
}

// group does so for a parallel group and its members.
func (r *recording) group(s *scope, id string, st *plan.Step, rec *Recorded) *outcome {
	r.out.emit(id, event.StepSkipped{Name: st.Name, Title: st.Title, Reason: rec.Reason, Span: r.places.shown(st.Span)})
	for i := range st.Parallel {
		member := &st.Parallel[i]
		o := &outcome{status: event.Skipped}
		if known := r.of(childID(id, i+1), member); known != nil {
			o = r.outcomeOf(s, member, known)
		}
		s.steps[member.Name] = resultValue(o)
	}
	o := r.outcomeOf(s, st, rec)
	o.counts = event.Counts{Skipped: len(st.Parallel)}
	return o
}

// withheld is an output of a recorded step that is not known.
type withheld struct{ step, output string }

func (p *places) withhold(step string, outputs []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range outputs {
		p.withheld = append(p.withheld, withheld{step, name})
	}
}

// explainWithheld says in an error about a name that was not found that the name is that of a withheld output.
func (p *places) explainWithheld(e *event.Error, detail *expr.Error, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.withheld {
		if detail.Missing == w.output && strings.Contains(text, w.step) {
			e.Message = fmt.Sprintf("expression: the output %s of the step %s is needed here, but it is sensitive and not in the recorded run", w.output, w.step)
			e.Hint = "start with the step " + w.step + " so that it runs"
			return
		}
	}
}

// Digest returns the keyed digest that stands in events for a sensitive text: enough to tell whether another run with the same
// key had the same one. Computing it takes about a millisecond, so that guessing is slow.
func Digest(key []byte, text string) string {
	sum, err := pbkdf2.Key(sha256.New, text, key, digestRounds, sha256.Size)
	if err != nil {
		panic(err) // only for absurd sizes
	}
	return "pbkdf2-sha256:" + hex.EncodeToString(sum)
}
