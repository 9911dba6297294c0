package source

import (
	"context"
	"slices"
	"sync"

	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source/lock"
)

// Project is the project of a run that checks it out itself. Its lock file and its rules are read when the first component after the
// checkout is loaded, before that runs: those of an earlier checkout do not count, and neither does what a step writes over them later. Until
// then, only built-in components and those of steps that run can be loaded.
type Project struct {
	// Read returns the lock file of the project, nil for none, and the user's rules with those of the project.
	Read func() (*lock.File, Rules, error)

	mu    sync.Mutex
	begun bool // the checkout has
	read  bool
	err   error // of Read
}

// ChecksOut reports whether one of the steps brings the project, whatever the others do.
func ChecksOut(steps []plan.Step) bool {
	return slices.ContainsFunc(steps, func(s plan.Step) bool { return s.If == nil && s.Ref != nil && isCheckout(s.Ref) })
}

// isCheckout reports whether a reference is to the built-in component that checks a project out.
func isCheckout(ref *plan.Reference) bool {
	return ref.Kind == plan.RefBuiltin && slices.Equal(ref.Path, []string{"git", "checkout"})
}

// awaited reports whether the project has not been read; p may be nil.
func (p *Project) awaited() bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.read
}

// await lets r know what the project says once it is there; p may be nil. The error is a *NotFoundError where the component is loaded ahead of
// its step and has to wait for the project.
func (p *Project) await(ctx context.Context, r *Resolver, ref *plan.Reference) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.read:
		return p.err
	case ref.Kind == plan.RefBuiltin && (!p.begun || isCheckout(ref)): // a hook before the checkout is a built-in component, too
		p.begun = p.begun || isCheckout(ref)
		return nil
	case StepOf(ctx) == "":
		return &NotFoundError{Ref: ref.Text, Looked: []string{"the project, which is not checked out yet"}}
	}
	p.read = true
	r.Lock, r.Rules, p.err = p.Read()
	return p.err
}
