package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

var _ ImageLocker = (*Resolver)(nil)

// ImageDigest returns the digest that the name of an image points to: that of the lock file of r, else what its registry says now.
func ImageDigest(ctx context.Context, r *Resolver, name string) (digest string, err error) {
	if digest := r.Lock.Image(name); digest != "" {
		return digest, nil
	}
	n := containers.ParseName(name)
	at := &Location{Kind: plan.RefOCI, URL: n.Registry + "/" + n.Repository, Rev: n.Tag}
	at.Name = "oci://" + at.URL
	if r.Fetchers[at.Kind] == nil {
		return "", &UnsupportedError{Ref: name, Kind: at.Kind}
	}
	var trust Trust
	if r.Rules != nil {
		if trust, err = r.Rules.Apply(at); err != nil {
			return "", err
		}
	}
	digest, err = r.pin(ctx, at, trust)
	var missing *NotFoundError
	if errors.As(err, &missing) {
		return "", &NotFoundError{What: "image", Ref: name, Looked: missing.Looked, Err: missing.Err}
	}
	return digest, err
}

// LockedImage returns the name under which an image is to be pulled: with the digest that the lock file has for it. Where that has none it is
// the name as it is, unless everything has to be locked: then the error is a *DeniedError, which names what asks for the image. A replay
// runs what the trace names.
func (r *Resolver) LockedImage(what, name string) (string, error) {
	if name == "" || containers.HasDigest(name) {
		return name, nil
	}
	if digest := r.Lock.Image(name); digest != "" {
		return containers.WithDigest(name, digest), nil
	}
	by := "--locked requires it"
	if closed := r.Lock.Closes(plan.ImagePrefix + name); closed != nil {
		by = closed.By
	} else if !r.Locked {
		return name, nil
	}
	if r.Recorded {
		return name, nil
	}
	return "", &DeniedError{What: what, Why: fmt.Sprintf("its image %s has no digest, and %s", name, by), Hint: PinHint}
}

// ImageInput is the input of the built-in step that runs a container, builtin://docker/run, which names the image.
const ImageInput = "image"

// RunsContainer reports whether a reference is to that step.
func RunsContainer(ref *plan.Reference) bool {
	return ref.Kind == plan.RefBuiltin && strings.Join(ref.Path, "/") == dockerRun
}

// ContainerCommand reports whether a command is a built-in program that runs a container, with which image, and what people call it. The image is
// "" for one that is built, or that the program refuses to start.
func ContainerCommand(command []string, inputs value.Value) (image, what string, is bool) {
	if len(command) < 3 || command[0] != "step-runner" || command[1] != "builtin" {
		return "", "", false
	}
	switch command[2] {
	case containers.ActionProgram:
		if a, err := containers.ParseAction(command[3:]); err == nil && a.Image != "" {
			return a.Image, plan.ImagePrefix + a.Image, true
		}
		return "", "", true // the program itself says what is wrong with its arguments
	case dockerRun:
		return inputs.Fields()[ImageInput].Str(), "builtin://" + dockerRun, true
	}
	return "", "", false
}

// dockerRun is the built-in program, and the step, that runs a container.
const dockerRun = "docker/run"

// PinHint is what to do about an image that is not locked.
const PinHint = "step-runner lock adds the digest to the lock file; or name the image by it, as in NAME@sha256:…"
