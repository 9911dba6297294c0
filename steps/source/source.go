// Package source finds the component that a reference names: its plan, the directory it is in, and its digest.
package source

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rungci/rung/internal/mask"
	"github.com/rungci/rung/steps/plan"
)

// Component is a component on disk.
type Component struct {
	Plan *plan.Component
	// Ref is the reference as resolved, for people: "./hello", with every expression evaluated.
	Ref string
	// Dir is the absolute directory of the definition file: relative references in it start there.
	Dir string
	// File is the name of the definition file in Dir.
	File string
	// Digest is the content digest of the directory (package tree), "sha256:" and 64 hexadecimal digits. Of a local component in
	// a directory that contains the work directory it is that of the definition file alone.
	Digest string
	// Origin is where it was fetched; nil when it is local.
	Origin *plan.Origin
	// Text is the definition file, for showing the line an error is about.
	Text []byte
}

// Source finds components. Implementations are safe for concurrent use.
type Source interface {
	// Load returns the component that ref names, for a definition that is in the directory from. Expressions in ref have
	// been evaluated. The error is a *NotFoundError where there is no such component, an *UnsupportedError where the source
	// does not know the kind of reference, and a diag.List where the component's text is wrong.
	Load(ctx context.Context, ref *plan.Reference, from string) (*Component, error)
}

// NotFoundError says that a reference names nothing.
type NotFoundError struct {
	What   string // what there is none of; "" is a step
	Ref    string
	Looked []string // the places looked at, in order
	Err    error    // why the last of them would not do; may be nil
}

func (e *NotFoundError) Error() string {
	msg := fmt.Sprintf("there is no %s %q", cmp.Or(e.What, "step"), e.Ref)
	for i, place := range e.Looked {
		if i == 0 {
			msg += ": looked for " + place
		} else {
			msg += " and " + place
		}
	}
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return mask.Queries(msg)
}

func (e *NotFoundError) Unwrap() error { return e.Err }

// UnsupportedError says that this program cannot follow a kind of reference.
type UnsupportedError struct {
	Ref  string
	Kind plan.RefKind
}

func (e *UnsupportedError) Error() string {
	if e.Kind == plan.RefAction {
		return fmt.Sprintf("cannot load %q: this program has no source for GitHub Actions from repositories", e.Ref)
	}
	return fmt.Sprintf("cannot load %q: this program has no source for %q references", e.Ref, e.Kind)
}

// DeniedError says that something must not be used, or that a server does not let us in.
type DeniedError struct {
	What string // the location, or the reference
	Why  string
	Hint string // what to do; may be empty
}

func (e *DeniedError) Error() string { return mask.Queries(e.What + ": " + e.Why) }

// FetchError says that fetching did not work although it may work another time: a network, a server or a disk failed.
type FetchError struct {
	What string // the location
	Err  error
	Hint string // what to do; may be empty
}

func (e *FetchError) Error() string {
	return mask.Queries(fmt.Sprintf("cannot fetch %s: %v", e.What, e.Err))
}

func (e *FetchError) Unwrap() error { return e.Err }

// ImageLocker is a Source that knows under which name an image is to be pulled: one with a digest, where that is locked.
type ImageLocker interface {
	// LockedImage returns that name. The error is a *DeniedError, which names what asks for the image, where it must not be used.
	LockedImage(what, name string) (string, error)
}

// Checker is a Source that can say, without fetching anything, that it would refuse a reference.
type Checker interface {
	// Check returns the error that Load would give for a reference whatever is at its place, nil where that is not known.
	Check(ref *plan.Reference, from string) error
}
