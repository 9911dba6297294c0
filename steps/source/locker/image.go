package locker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/expr"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/value"
)

// What to say of an image whose name is not known yet.
const (
	DynamicImage = "this image is known only when it runs, and cannot be locked"
	DynamicHint  = "give what it will be to step-runner lock as one more argument: docker://NAME"
)

// errEmptyTag is of a name whose tag was to be computed, and came to nothing: it does not stand for "latest".
var errEmptyTag = errors.New("nothing follows the colon of its tag; write a tag, or check what the expression or variable in it comes to")

// Image locks an image by its name. One with a digest needs no lock; "" is none.
func (l *Locker) Image(ctx context.Context, name string) error {
	if name == "" || l.Images == nil || containers.HasDigest(name) || l.New.Image(name) != "" {
		return nil
	}
	digest, err := "", errEmptyTag
	if n := containers.ParseName(name); n.Tag != "" || n.Digest != "" {
		digest, err = l.Images(ctx, name)
	}
	switch {
	case err == nil:
		l.New.AddImage(name, digest)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case l.KeepGoing:
		l.Failures = append(l.Failures, Failure{"the image " + name, err})
	default:
		return fmt.Errorf("locking the image %s: %w", name, err)
	}
	return nil
}

// step locks the image of a step that runs a container.
func (l *Locker) step(ctx context.Context, step *plan.Step, in *source.Component, text []byte) error {
	if step.Ref == nil || !source.RunsContainer(step.Ref) {
		return nil
	}
	image, ok := step.Inputs[source.ImageInput]
	if !ok || image.Value.Kind() != value.String {
		return nil // the step is refused, or its inputs are computed as a whole
	}
	if expr.Has(image.Value.Str()) {
		l.warnAt(image.Span, in, text, DynamicImage, DynamicHint)
		return nil
	}
	return l.Image(ctx, image.Value.Str())
}
