// Package walk follows every reference of a definition, transitively: in lists, in parallel groups and under conditions. It evaluates and
// runs nothing, so it does not follow references that contain expressions.
package walk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// MaxComponents bounds how many components one walk visits: each may be from anywhere, and lead to others.
const MaxComponents = 10_000

// Place is a reference, and where it was written.
type Place struct {
	Ref *plan.Reference
	// In is the component that it is in; nil where the walk began.
	In *source.Component
}

// Found is a reference and the component that it leads to.
type Found struct {
	Place
	Component *source.Component
	// Package is the reference that led to the package that the component is in: Ref itself, or for a relative reference in a
	// package the one that led there. It is nil for a component that was not fetched.
	Package *plan.Reference
}

// Walker follows references. The zero value needs a Source.
type Walker struct {
	Source source.Source
	// Step is called for every step, with the component that it is in, before what it refers to. Nil does nothing; an error ends the walk.
	Step func(step *plan.Step, in *source.Component) error
	// Found is called once for every reference, before what its component refers to. Nil does nothing; an error ends the walk.
	Found func(Found) error
	// Dynamic is called for every reference that only a run can resolve. Nil does nothing; an error ends the walk.
	Dynamic func(Place) error
	// Failed is called when a reference cannot be followed, and decides whether that ends the walk. Nil ends it.
	Failed func(Place, error) error

	seen    map[string]bool // references
	entered map[string]bool // components
}

// Definition follows what a definition refers to. Relative references start at dir.
func (w *Walker) Definition(ctx context.Context, c *plan.Component, dir string) error {
	return w.steps(ctx, c.Definition.Steps, scope{from: dir})
}

// Reference follows one reference, as if it was in a definition in dir.
func (w *Walker) Reference(ctx context.Context, ref *plan.Reference, dir string) error {
	return w.follow(ctx, ref, scope{from: dir})
}

// scope is where references stand.
type scope struct {
	from string
	in   *source.Component
	pkg  *plan.Reference
}

func (w *Walker) steps(ctx context.Context, steps []plan.Step, s scope) error {
	for i := range steps {
		var err error
		step := &steps[i]
		if w.Step != nil {
			if err := w.Step(step, s.in); err != nil {
				return err
			}
		}
		switch {
		case step.Ref != nil:
			err = w.follow(ctx, step.Ref, s)
		case step.Inline != nil:
			err = w.steps(ctx, step.Inline.Definition.Steps, s)
		default:
			err = w.steps(ctx, step.Parallel, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Walker) follow(ctx context.Context, ref *plan.Reference, s scope) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	place := Place{ref, s.in}
	if !w.first(&w.seen, referenceKey(ref, s.from)) {
		return nil
	}
	if IsDynamic(ref) {
		return call(w.Dynamic, place)
	}
	if len(w.seen) > MaxComponents {
		return fmt.Errorf("following %s: there are more than %d references, the limit", ref.Text, MaxComponents)
	}
	component, err := w.Source.Load(ctx, ref, s.from)
	if err != nil {
		if w.Failed == nil || errors.Is(err, context.Canceled) {
			return err
		}
		return w.Failed(place, err)
	}
	inner := scope{from: component.Dir, in: component}
	if component.Origin != nil {
		if inner.pkg = ref; ref.IsLocal() {
			inner.pkg = s.pkg
		}
	}
	if err := call(w.Found, Found{place, component, inner.pkg}); err != nil {
		return err
	}
	if !w.first(&w.entered, component.Dir+"\x00"+component.File) {
		return nil
	}
	return w.steps(ctx, component.Plan.Definition.Steps, inner)
}

func call[T any](f func(T) error, v T) error {
	if f == nil {
		return nil
	}
	return f(v)
}

// first notes a key and reports whether it is new.
func (w *Walker) first(set *map[string]bool, key string) bool {
	if *set == nil {
		*set = map[string]bool{}
	}
	if (*set)[key] {
		return false
	}
	(*set)[key] = true
	return true
}

// referenceKey tells references apart. Those that are seen from their definition are not the same in two folders.
func referenceKey(ref *plan.Reference, from string) string {
	if !ref.IsLocal() && (ref.Kind != plan.RefArchive || strings.Contains(ref.URL, "://")) {
		from = ""
	}
	return strings.Join([]string{from, string(ref.Kind), ref.Text, ref.URL, ref.Rev, ref.Registry, ref.Repository, ref.Tag, ref.Action, ref.SHA256,
		strings.Join(ref.Path, "/"), ref.File, fmt.Sprint(ref.OrRoot), fmt.Sprint(ref.Expr != nil)}, "\x00")
}

// IsDynamic reports whether a reference has expressions, so that only a run can say where it leads.
func IsDynamic(ref *plan.Reference) bool {
	if ref.Kind == plan.RefDynamic {
		return true
	}
	for _, part := range append([]string{ref.URL, ref.Rev, ref.Registry, ref.Repository, ref.Tag, strings.TrimPrefix(ref.Action, plan.WorkDirPrefix), ref.SHA256, ref.File}, ref.Path...) {
		if expr.Has(part) {
			return true
		}
	}
	return false
}
