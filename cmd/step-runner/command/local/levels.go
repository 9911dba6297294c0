package local

import (
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/local"
)

// openEarly opens level none, and so starts the step-runner of its first job, while git is asked about the project and its definition is read.
// It does nothing where a job may need another level, or none runs. The function that it returns closes what nobody took.
func (o *localFlags) openEarly(file string) (unused func()) {
	if o.isolation != string(local.IsolateNone) || o.list || o.dryRun {
		return func() {}
	}
	o.early = levels.New(o.app.Program, &o.event.From, o.event.Root(file))
	_, _ = o.early.OpenNone() // who opens it again gets the error
	return o.closeEarly
}

// closeEarly closes what was opened early.
func (o *localFlags) closeEarly() {
	if o.early != nil {
		o.early.Close()
		o.early = nil
	}
}

// levels are those of the project with a root. The caller closes them.
func (o *localFlags) levels(root string) *levels.Levels {
	if early := o.early; early != nil && early.Root == root {
		o.early = nil
		return early
	}
	o.closeEarly()
	return levels.New(o.app.Program, &o.event.From, root)
}
