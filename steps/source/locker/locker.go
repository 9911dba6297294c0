// Package locker creates lock files: it follows every reference in a set of definitions and records what each one resolves to.
package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
	"github.com/rungci/rung/steps/source/walk"
)

// Locker collects what references lead to.
type Locker struct {
	// Source follows references. It decides what a name points to: one with a lock file keeps what is in that, one that is fresh
	// asks servers.
	Source source.Source
	// Old is the lock file whose packages stay as they are where the same pin was found again; nil has none.
	Old *lock.File
	// Variant says on what platform the content of a kind of package depends: "" on none.
	Variant func(plan.RefKind) string
	// Images asks what the name of an image points to; nil locks no images.
	Images func(ctx context.Context, name string) (digest string, err error)
	// KeepGoing notes references to packages that cannot be followed in Failures, where they would end the walk.
	KeepGoing bool

	// New is what was found.
	New lock.File
	// Warnings are about references that cannot be locked.
	Warnings diag.List
	// Failures are the errors that did not end the walk.
	Failures []Failure

	walker *walk.Walker
}

// Failure is a reference that could not be followed.
type Failure struct {
	Reference string
	Err       error
}

// Definition locks what a definition refers to. Text is that of its file, for warnings; relative references start at dir.
func (l *Locker) Definition(ctx context.Context, c *plan.Component, text []byte, dir string) error {
	return l.walk(ctx, text).Definition(ctx, c, dir)
}

// Reference locks one reference, and what it leads to.
func (l *Locker) Reference(ctx context.Context, ref *plan.Reference, dir string) error {
	return l.walk(ctx, nil).Reference(ctx, ref, dir)
}

func (l *Locker) walk(ctx context.Context, text []byte) *walk.Walker {
	if l.walker == nil {
		l.walker = &walk.Walker{Source: l.Source}
	}
	l.walker.Found = func(f walk.Found) error {
		l.found(f)
		return l.Image(ctx, source.ImageOf(f.Component.Plan))
	}
	l.walker.Step = func(step *plan.Step, in *source.Component) error { return l.step(ctx, step, in, text) }
	l.walker.Dynamic = func(p walk.Place) error {
		l.warn(p, text, "this reference is known only when it runs, and cannot be locked", "give what it will be to step-runner lock as one more argument")
		return nil
	}
	l.walker.Failed = func(p walk.Place, err error) error { return l.failed(p, text, err) }
	return l.walker
}

// found notes a component that was fetched. What is built in is a part of the program.
func (l *Locker) found(f walk.Found) {
	o := f.Component.Origin
	if o == nil || o.Kind == plan.RefBuiltin || f.Package == nil {
		return
	}
	p := lock.Package{Kind: o.Kind, URL: o.URL, Rev: o.Rev, Pin: o.Pin, Content: o.Package, Platform: l.Variant(o.Kind)}
	if o.Kind == plan.RefArchive && f.Package.SHA256 != "" {
		p.Rev = "sha256:" + f.Package.SHA256
	}
	c := lock.Component{Reference: textOf(f.Ref), Path: o.Path, File: f.Component.File, Digest: f.Component.Digest}
	if f.Ref != f.Package {
		c.Reference = textOf(f.Package) // "../x" says nothing outside of the package
	}
	old := l.Old.Find(p.Kind, p.URL, p.Rev)
	if old == nil || old.Pin != p.Pin || old.Platform == p.Platform {
		l.New.Add(p, c)
		return
	}
	// The package was locked on another platform, and there it stays as it is: what is the same here and there is the pin.
	if i := slices.IndexFunc(old.Components, func(have lock.Component) bool { return have.Path == c.Path && have.File == c.File }); i >= 0 {
		l.New.Add(*old, old.Components[i])
	} else if l.New.Find(p.Kind, p.URL, p.Rev) == nil {
		kept := *old
		kept.Components = nil
		l.New.Packages = append(l.New.Packages, kept)
	}
}

// textOf is a reference as it was written, without a password that may be in it: a lock file is for others to read.
func textOf(ref *plan.Reference) string {
	_, rest, _ := strings.Cut(ref.URL, "://")
	host, _, _ := strings.Cut(rest, "/")
	i := strings.LastIndexByte(host, '@')
	if i < 0 || !strings.Contains(host[:i], ":") && strings.HasPrefix(ref.URL, "ssh://") {
		return ref.Text
	}
	return strings.Replace(ref.Text, host[:i+1], "", 1)
}

// failed decides whether a reference that leads nowhere matters. A file of the project may be made by a step before it.
func (l *Locker) failed(p walk.Place, text []byte, err error) error {
	var unsupported *source.UnsupportedError
	var missing *source.NotFoundError
	fetched := p.In != nil && p.In.Origin != nil
	switch {
	case errors.As(err, &unsupported):
		l.warn(p, text, err.Error(), "it cannot be locked, as it cannot be run")
	case p.Ref.Kind == plan.RefLocal && !fetched && errors.As(err, &missing):
		l.warn(p, text, err.Error(), "if a step makes it, what that refers to is not locked")
	case l.KeepGoing:
		l.Failures = append(l.Failures, Failure{textOf(p.Ref), err})
	case diag.Of(err) != nil:
		return err
	default:
		return fmt.Errorf("locking %s: %w", textOf(p.Ref), err)
	}
	return nil
}

// warn notes a reference that cannot be locked.
func (l *Locker) warn(p walk.Place, text []byte, message, hint string) {
	l.warnAt(p.Ref.Span, p.In, text, message, hint)
}

// warnAt notes what cannot be locked at a place of a component, or where the walk began.
func (l *Locker) warnAt(at diag.Span, in *source.Component, text []byte, message, hint string) {
	d := diag.Diagnostic{Span: at, Message: message, Hint: hint}
	if in != nil {
		text = in.Text
		if in.Origin != nil { // the file is in a folder that is gone soon
			d.File = in.Ref + " (" + in.File + ")"
		}
	}
	if lines := strings.Split(string(text), "\n"); d.Line >= 1 && d.Line <= len(lines) {
		d.Source = strings.TrimSuffix(lines[d.Line-1], "\r")
	}
	l.Warnings = append(l.Warnings, d)
}
