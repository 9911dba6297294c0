package engine

import (
	"context"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Toolkit begins to speak a protocol (plan.Exec.Toolkit) with one process. The engine knows none: who runs it plugs them in.
type Toolkit func(ToolkitProcess) (ToolkitSession, error)

// ToolkitProcess is what a toolkit is told of the process that it will speak with, and what it can do with the run.
type ToolkitProcess struct {
	Toolkit   string       // the name that plan.Exec.Toolkit gives it
	TempDir   string       // a folder that all steps of the run share, removed when the run ends
	WorkDir   string       // the run's work directory
	ActionDir string       // where the definition stands that the process belongs to
	Step      string       // the name of the step, and of the steps that it stands in: "build/compile"
	Origin    *plan.Origin // where the definition in ActionDir was fetched; nil when it is local
	// Permissions are what the process may do with the tokens of the job, by scope (plan.Permits); nil is all that the job may.
	Permissions map[string]string
	State       map[string]string        // what the earlier processes of the same step left (plan.Hook)
	Context     value.Value              // what ${{ context }} reads: a struct
	Job         value.Value              // what ${{ job }} reads: the job's variables
	Getenv      func(name string) string // the environment of the process, without what the session adds; "" where it has no such variable
	HasEnv      func(name string) bool   // whether it has the variable, be it empty
	Mask        func(secret string)      // makes a text masked in all that leaves the engine from now on
	MadeUp      func(secret string)      // so does this, for a secret that the toolkit made up for this run: records of two runs do not differ by it
	// Live ends when the process is stopped or out of time: what End does must end then as well.
	Live context.Context
	// Emit tells of the step: event.Annotation, event.Summary, event.Subjects, event.Warning. Texts are masked on the way. Several
	// goroutines may call it at once, until End returns.
	Emit func(event.Body)
	// Once returns what make made the first time that it was asked for under the name in this run, and closes it when the run ends,
	// behind its last step. What fails is made again the next time. Several goroutines may call it at once.
	Once func(name string, make func() (io.Closer, error)) (io.Closer, error)
}

// ToolkitSession is a protocol at work with one process.
type ToolkitSession interface {
	// Env returns variables that are set over the process's environment.
	Env() map[string]string
	// Output returns what takes one of the two output streams of the process, before anything is masked in it. It passes on
	// what is not part of the protocol. The streams are written to at the same time.
	Output(next io.Writer) io.Writer
	// End passes on what is still held back of the output, and returns what came of the talk. An error is a mistake of the process.
	// It is called once, whether the process succeeded or not.
	End() (ToolkitResult, error)
}

// ToolkitResult is what a process gave through its toolkit.
type ToolkitResult struct {
	Outputs map[string]value.Value
	Exports map[string]string // variables for later steps
	State   map[string]string // for later processes of the same step (plan.Hook)
}

// SaidError is a mistake in a line that a process printed.
type SaidError struct {
	Said string // the beginning of the line, as a script may have it: "::set-env"
	Err  error
}

func (e *SaidError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong.
func (e *SaidError) Unwrap() error { return e.Err }

// Function is a function that expressions can call beyond those of the language: what frontends of other languages compile theirs to.
type Function = func(scope FunctionScope, args []value.Value) (value.Value, error)

// FunctionScope is what a function sees of the place that it is called at.
type FunctionScope interface {
	// Lookup finds top-level names, as an expression does; beyond those "secrets", the secrets of the list that it is called in, "temp_dir",
	// the folder that all steps of the run share, "step", the path of the step, and "origin", the url and rev that the definition around the
	// step was fetched from, and "permissions", where they are not all that the job has.
	Lookup(name string) (value.Value, bool)
	// Live ends when the steps of the list are stopped: a function that takes long must end then as well.
	Live() context.Context
	// Status says how the steps before in the list went.
	Status() (failed, cancelled bool)
	// MadeUp and Once are those of ToolkitProcess.
	MadeUp(secret string)
	Once(name string, make func() (io.Closer, error)) (io.Closer, error)
}

// functionScope is what a function sees of a place.
type functionScope struct{ *view }

// Lookup implements FunctionScope.
func (s functionScope) Lookup(name string) (value.Value, bool) {
	switch name {
	case "permissions":
		return permissionsValue(s.may), s.may != nil
	case "secrets":
	case "temp_dir":
		return value.OfString(s.run.dirs.tmp), true
	case "step":
		return value.OfString(s.path), true
	case "origin":
		if s.origin == nil {
			return value.Value{}, false
		}
		return value.OfStruct(map[string]value.Value{"url": value.OfString(s.origin.URL), "rev": value.OfString(s.origin.Rev)}), true
	default:
		return s.view.Lookup(name)
	}
	fields := make(map[string]value.Value, len(s.known))
	for name, secret := range s.known {
		fields[name] = value.OfString(secret).Mark(true)
	}
	return value.OfStruct(fields), true
}

// Live implements FunctionScope.
func (s functionScope) Live() context.Context {
	if s.list == nil || s.list.live == nil {
		return context.Background()
	}
	return s.list.live
}

// MadeUp implements FunctionScope.
func (s functionScope) MadeUp(secret string) { s.run.out.addMadeUp(secret) }

// Once implements FunctionScope.
func (s functionScope) Once(name string, make func() (io.Closer, error)) (io.Closer, error) {
	return s.run.services.once(name, make)
}

// conversation is what a process and its toolkit have to do with each other. A nil one is that of a process without.
type conversation struct {
	session ToolkitSession
	result  ToolkitResult
	step    func(event.Body) // emits an event of the step

	mu   sync.Mutex
	hold bool // not all is known yet that must be masked in what the process says
	held []event.Body
}

// converse begins what the exec's toolkit needs to, and sets the variables of it in the scope.
func (x *execution) converse(ctx context.Context) *event.Error {
	name := x.inv.def.Exec.Toolkit
	if name == "" {
		return nil
	}
	begin, ok := x.run.opts.Toolkits[name]
	if !ok {
		return definitionError("the step uses the toolkit %q, which this program does not support", name)
	}
	c := &conversation{step: func(body event.Body) { x.run.out.emit(x.inv.id, body) }, hold: holdsSecrets(x.inv.spec)}
	env := x.env
	job, _ := x.Lookup("job")
	var err error
	c.session, err = begin(ToolkitProcess{
		Toolkit: name,
		TempDir: x.inv.apart.tempFor(x.run), WorkDir: x.run.opts.WorkDir, ActionDir: x.dir,
		Permissions: x.may,
		Step:        x.path, Origin: x.origin, State: maps.Clone(x.inv.state), Context: x.around(), Job: job,
		Getenv: func(name string) string {
			if own, ok := x.own[name]; ok {
				return own.text
			}
			return env.vars[name].text
		},
		HasEnv: func(name string) bool {
			_, own := x.own[name]
			_, around := env.vars[name]
			return own || around
		},
		Live: ctx,
		Mask: x.run.out.addSecret, MadeUp: x.run.out.addMadeUp,
		Emit: c.emit,
		Once: x.run.services.once,
	})
	if err != nil {
		return systemError("starting the step's toolkit: %v", err)
	}
	vars := map[string]variable{}
	for name, text := range c.session.Env() {
		vars[name] = variable{text: text}
	}
	x.env = x.env.with(vars)
	x.talk = c
	return nil
}

// emit is ToolkitProcess.Emit.
func (c *conversation) emit(body event.Body) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hold {
		c.held = append(c.held, body)
		return
	}
	c.step(body)
}

// release emits what was held back, when all is known that must be masked in it.
func (c *conversation) release() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hold = false
	for _, body := range c.held {
		c.step(body)
	}
	c.held = nil
}

// output returns the writer for a stream of the process.
func (c *conversation) output(next io.Writer) io.Writer {
	if c == nil {
		return next
	}
	return c.session.Output(next)
}

// end takes in what the process said.
func (c *conversation) end(inv *invocation) error {
	if c == nil {
		return nil
	}
	var err error
	c.result, err = c.session.End()
	if len(c.result.State) > 0 {
		state := maps.Clone(c.result.State)
		for name, text := range inv.state {
			if _, newer := state[name]; !newer {
				state[name] = text
			}
		}
		inv.state = state
	}
	return err
}

// addTo adds the process's outputs and exports to those of its files.
func (c *conversation) addTo(outputs, exports map[string]value.Value) (allOutputs, allExports map[string]value.Value) {
	if c == nil {
		return outputs, exports
	}
	allOutputs, allExports = maps.Clone(c.result.Outputs), map[string]value.Value{}
	if allOutputs == nil {
		allOutputs = map[string]value.Value{}
	}
	maps.Copy(allOutputs, outputs)
	for _, name := range slices.Sorted(maps.Keys(c.result.Exports)) {
		allExports[name] = value.OfString(c.result.Exports[name])
	}
	maps.Copy(allExports, exports)
	return allOutputs, allExports
}

// actionInput returns a value as an action gets it: what they take is text. Null still selects the default.
func actionInput(v value.Value) value.Value {
	if v.IsNull() {
		return v
	}
	return value.OfString(v.Text()).Mark(v.Sensitive())
}
