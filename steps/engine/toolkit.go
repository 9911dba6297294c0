package engine

import (
	"io"
	"maps"
	"slices"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// Toolkit begins to speak a protocol (plan.Exec.Toolkit) with one process. The engine knows none: who runs it plugs them in.
type Toolkit func(ToolkitProcess) (ToolkitSession, error)

// ToolkitProcess is what a toolkit is told of the process that it will speak with.
type ToolkitProcess struct {
	Dir       string                   // an empty folder for the files of the protocol, removed when the process has ended
	TempDir   string                   // a folder that all steps of the run share, removed when the run ends
	WorkDir   string                   // the run's work directory
	ActionDir string                   // where the definition stands that the process belongs to
	Getenv    func(name string) string // the environment of the process, without what the session adds; "" where it has no such variable
	Mask      func(secret string)      // makes a text masked in all that leaves the engine from now on
}

// ToolkitSession is a protocol at work with one process.
type ToolkitSession interface {
	// Env returns variables that are set over the process's environment.
	Env() map[string]string
	// Output returns what takes one of the two output streams of the process, before anything is masked in it. It passes on
	// what is no part of the protocol. The streams are written to at the same time.
	Output(next io.Writer) io.Writer
	// End passes on what is still held back of the output, and returns the outputs and the variables for later steps. An error
	// is a mistake of the process. It is called once, whether the process succeeded or not.
	End() (outputs map[string]value.Value, exports map[string]string, err error)
}

// Function is a function that expressions can call beyond those of the language: what frontends of other languages compile
// theirs to. lookup finds top-level names, as an expression does.
type Function = func(lookup func(name string) (value.Value, bool), args []value.Value) (value.Value, error)

// conversation is what a process and its toolkit have to do with each other. A nil one is that of a process without.
type conversation struct {
	session ToolkitSession
	outputs map[string]value.Value
	exports map[string]string
}

// converse begins what the exec's toolkit needs to, and sets the variables of it in the scope.
func (s *scope) converse(exec *plan.Exec) (*conversation, *event.Error) {
	if exec.Toolkit == "" {
		return nil, nil
	}
	begin, ok := s.run.opts.Toolkits[exec.Toolkit]
	if !ok {
		return nil, definitionError("the step speaks the toolkit %q, which this program does not know", exec.Toolkit)
	}
	dir, err := s.files.folder("toolkit")
	if err != nil {
		return nil, systemError("making a folder for the step's toolkit: %v", err)
	}
	session, err := begin(ToolkitProcess{
		Dir: dir, TempDir: s.run.dirs.tmp, WorkDir: s.run.opts.WorkDir, ActionDir: s.dir,
		Getenv: func(name string) string { return s.env.vars[name].text },
		Mask:   s.run.out.addSecret,
	})
	if err != nil {
		return nil, systemError("beginning the step's toolkit: %v", err)
	}
	vars := map[string]variable{}
	for name, text := range session.Env() {
		vars[name] = variable{text: text}
	}
	s.env = s.env.with(vars)
	return &conversation{session: session}, nil
}

// output returns the writer for a stream of the process.
func (c *conversation) output(next io.Writer) io.Writer {
	if c == nil {
		return next
	}
	return c.session.Output(next)
}

// end takes in what the process said.
func (c *conversation) end() error {
	if c == nil {
		return nil
	}
	var err error
	c.outputs, c.exports, err = c.session.End()
	return err
}

// addTo adds the process's outputs and exports to those of its files.
func (c *conversation) addTo(outputs, exports map[string]value.Value) (allOutputs, allExports map[string]value.Value) {
	if c == nil {
		return outputs, exports
	}
	allOutputs, allExports = maps.Clone(c.outputs), map[string]value.Value{}
	if allOutputs == nil {
		allOutputs = map[string]value.Value{}
	}
	maps.Copy(allOutputs, outputs)
	for _, name := range slices.Sorted(maps.Keys(c.exports)) {
		allExports[name] = value.OfString(c.exports[name])
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
