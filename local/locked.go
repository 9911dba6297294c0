package local

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/lock"
)

// PinHint is what to do about an image that --locked refuses.
const PinHint = source.PinHint

// Image is an image that the jobs of a definition name.
type Image struct {
	// Written is its name in the definition, Name what that comes to before the jobs run.
	Written, Name string
	// Varies says that only a run knows the name: it depends on what a job gives, or on a commit or a pipeline.
	Varies bool
	// At is the place of the name, without a message.
	At diag.Diagnostic
}

// Unlocked says why --locked refuses an image; "" is that it does not. The message names it as the definition does: the value of a variable
// may be masked.
func (i *Image) Unlocked(l *lock.File) string {
	switch {
	case !i.Varies && l.Image(i.Name) != "":
		return ""
	case i.Varies || strings.Contains(i.Written, "$"):
		return fmt.Sprintf("the image %s has no digest that is known before the jobs run, and --locked requires one", i.Written)
	}
	return fmt.Sprintf("the image %s has no digest, and --locked requires one", i.Written)
}

// Denied is the error of a job, or a pipeline, whose images are refused.
func Denied(found diag.List) *event.Error {
	err := session.Problem(event.ErrorDenied, PinHint, "%s", found[0].Message)
	err.Diagnostics = found
	return err
}

// lockImages gives the images of the job the digests that the lock file has: what their names came to is known now. It refuses the others
// if everything has to be locked, as they may be other ones tomorrow.
func (a *attempt) lockImages() error {
	for _, job := range []*executor.Job{a.place.Job, a.place.Services} {
		for _, image := range imagesOf(job) {
			switch digest := a.place.Lock.Image(image.Name); {
			case containers.HasDigest(image.Name):
			case digest != "":
				image.Name = containers.WithDigest(image.Name, digest)
			case a.Locked:
				return session.Problem(event.ErrorDenied, PinHint, "the image %s has no digest, and --locked requires one", a.Hide(image.Name))
			}
		}
	}
	return nil
}

// imagesOf are the images that a level is asked for.
func imagesOf(job *executor.Job) (all []*containers.Image) {
	if job == nil {
		return nil
	}
	if job.Image != nil {
		all = append(all, job.Image)
	}
	for i := range job.Services {
		all = append(all, &job.Services[i].Image)
	}
	return all
}
