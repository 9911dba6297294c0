package local

import (
	"fmt"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
)

// PinHint is what to do about an image that --locked refuses.
const PinHint = "name the image by its digest, as in NAME@sha256:…"

// Unlocked says why --locked refuses an image: what it is called in the definition, and what that comes to before the jobs run. "" is that
// it does not. The message names it as the definition does: the value of a variable may be masked.
func Unlocked(written, name string) string {
	switch {
	case containers.HasDigest(name):
		return ""
	case strings.Contains(written, "$"):
		return fmt.Sprintf("the image %s has no digest, as far as it is known before the jobs run, and --locked demands one", written)
	}
	return fmt.Sprintf("the image %s has no digest, and --locked demands one", written)
}

// Denied is the error of a job, or a pipeline, whose images are refused.
func Denied(found diag.List) *event.Error {
	err := session.Problem(event.ErrorDenied, PinHint, "%s", found[0].Message)
	err.Diagnostics = found
	return err
}

// lockedPlace refuses images that may be other ones tomorrow, if everything has to be locked: what their names came to is known now.
func (a *attempt) lockedPlace() error {
	if !a.Locked {
		return nil
	}
	for _, job := range []*executor.Job{a.place.Job, a.place.Services} {
		for _, name := range namesOf(job) {
			if name = a.Hide(name); !containers.HasDigest(name) {
				return session.Problem(event.ErrorDenied, PinHint, "the image %s has no digest, and --locked demands one", name)
			}
		}
	}
	return nil
}

// namesOf are the names of the images that a job is asked for with.
func namesOf(job *executor.Job) (names []string) {
	if job == nil {
		return nil
	}
	if job.Image != nil {
		names = append(names, job.Image.Name)
	}
	for i := range job.Services {
		names = append(names, job.Services[i].Name)
	}
	return names
}
