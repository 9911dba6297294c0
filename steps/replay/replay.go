// Package replay re-runs a trace and shows the differences.
//
// New reads the run's steps, inputs, variables and secrets from the trace. A trace does not hold sensitive values: the caller passes them
// again, and they are checked against the digests in the trace. Components returns a source of the same components. Apply turns the result
// into engine.Options, and Compare compares the trace of the new run with the recorded one.
//
// A trace is input from elsewhere: nothing in it decides where files are written, and what it says about components is
// compared with what is found, never believed.
package replay

import (
	"fmt"
	"maps"
	"slices"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/trace"
	"github.com/rungci/rung/steps/value"
)

// Parser turns the text that a run was started with into what it means; name is that of the text, for diagnostics.
type Parser func(name string, text []byte) (*plan.Component, error)

// Options say what the trace does not hold, and how strict to be.
type Options struct {
	WorkDir string // where to run; absolute
	// Project, Programs and VariableFiles are what those folders of the recorded run's environment are now; absolute, "" leaves them as they were.
	Project, Programs, VariableFiles string
	OS                               string            // on this machine, as Go names it
	Arch                             string            // on this machine, as Go names it
	Env                              map[string]string // variables that are to have another value than in the recorded run
	// Given are sensitive values by name: of secrets, job variables, inputs, and variables that a step exported.
	Given map[string]string
	// Parsers are tried on the recorded source until one gives the recorded component.
	Parsers []Parser
	// Text, named TextName, is taken for the source where it is not nil: the recorded one may have holes where secrets were.
	Text     []byte
	TextName string

	From, Until  string // the first and the last step to run, by ID or path of names; "" is that of the recorded run
	AllSecrets   bool   // let every sensitive value be given, also where no step names it
	OtherSecrets bool   // take given values that are not the recorded ones
	Changed      bool   // use components as they are now
	AnyPlatform  bool   // run although the recorded run was on another kind of machine
}

// Replay is a recorded run that can be made to happen again.
type Replay struct {
	// Notes are what the user should know before: where this run cannot be like the recorded one.
	Notes []string
	// Placeholders are the names of the sensitive values that were not given and that no step names, in order: a placeholder stands for each.
	Placeholders []string

	recorded  *trace.Trace
	opts      Options
	component *plan.Component
	text      []byte
	inputs    map[string]value.Value
	env       map[string]string
	hostHome  bool
	job       map[string]engine.Variable
	secrets   map[string]string
	// placeholders are the texts of Placeholders.
	placeholders []string
	key          []byte // nil when digests are not to be compared
	part         *part
}

// New finds out what a recorded run was made of. The error is an *event.Error, whose kind says what is wrong: denied where
// something has to be given or is not what it was, not_found for a step that does not exist, definition for a trace that
// cannot be replayed.
func New(recorded *trace.Trace, o Options) (*Replay, error) {
	r := &Replay{recorded: recorded, opts: o}
	if err := r.platform(); err != nil {
		return nil, err
	}
	var err error
	if r.part, err = newPart(recorded, o.From, o.Until); err != nil {
		return nil, err
	}
	given, err := newGiven(recorded, &o, r.part)
	if err != nil {
		return nil, err
	}
	r.key = given.key
	if err := r.define(given); err != nil {
		return nil, err
	}
	r.secrets = given.secrets(recorded)
	r.variables(given)
	r.part.standIns(recorded, given)
	if err := given.finish(); err != nil {
		return nil, err
	}
	r.Placeholders, r.placeholders = sortedKeys(given.placeholders), slices.Collect(maps.Values(given.placeholders))
	if o.OtherSecrets {
		r.key = nil
	}
	if recorded.Incomplete {
		r.note("the recorded run was killed or still runs: it is replayed up to where its trace ends, and of the steps that had not ended only what they were given is compared")
	}
	return r, nil
}

func (r *Replay) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// platform refuses a run that was made on another kind of machine.
func (r *Replay) platform() error {
	was := r.recorded.Runtime
	if was.OS == r.opts.OS && was.Arch == r.opts.Arch || was.OS == "" {
		return nil
	}
	there, here := was.OS+"/"+was.Arch, r.opts.OS+"/"+r.opts.Arch
	if !r.opts.AnyPlatform {
		e := event.NewError(event.CodeDenied, "the recorded run was on %s, and this is %s: its steps may do something else here", there, here)
		e.Hint = "replay it on such a machine, or with --any-platform"
		return e
	}
	r.note("the recorded run was on %s, and this is %s", there, here)
	return nil
}

// Apply sets what the run is in opts. What else opts needs is the caller's: languages, toolkits, sink, source.
func (r *Replay) Apply(opts *engine.Options) {
	opts.Component, opts.Text, opts.Inputs = r.component, r.text, r.inputs
	opts.Dir, opts.WorkDir = r.opts.WorkDir, r.opts.WorkDir
	opts.HostEnv, opts.HostHome, opts.Env = nil, r.hostHome, r.env
	opts.InheritEnv = r.recorded.Run.InheritEnv
	opts.Confine = r.confine()
	opts.Job, opts.Secrets, opts.DigestKey = r.job, r.secrets, r.key
	opts.Placeholders = r.placeholders
	if r.part.partial() {
		opts.Recorded = r.part.recorded
	}
}

// confine is which steps are confined: those that were. What was confined only because it was fetched is not where the recorded machine, or
// this one, cannot do it.
func (r *Replay) confine() plan.Confinement {
	fetched := func(s *trace.Step) bool {
		return s.Resolved != nil && s.Resolved.Origin != nil && s.Resolved.Origin.Kind != plan.RefBuiltin
	}
	confined := func(s *trace.Step) bool {
		return slices.ContainsFunc(s.Attempts, func(a trace.Attempt) bool { return a.Confined })
	}
	if r.recorded.Run.Confine == plan.ConfineFetched && anyStep(r.recorded.Steps, fetched) && !anyStep(r.recorded.Steps, confined) {
		return plan.ConfineNone
	}
	if err := engine.CanConfine(); r.recorded.Run.Confine == plan.ConfineFetched && anyStep(r.recorded.Steps, confined) && err != nil {
		r.note("the recorded run confined fetched components; this machine cannot: it has %v", err)
		return plan.ConfineNone
	}
	return r.recorded.Run.Confine
}

// anyStep reports whether something holds for one of the steps, or one in them.
func anyStep(steps []*trace.Step, holds func(*trace.Step) bool) bool {
	return slices.ContainsFunc(steps, func(s *trace.Step) bool { return holds(s) || anyStep(s.Steps, holds) })
}

// wrong is the error of a trace that cannot be replayed.
func wrong(format string, args ...any) *event.Error {
	return event.NewError(event.CodeDefinitionInvalid, format, args...)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
