package local

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// placed is an attempt of which only the place is known.
type placed struct {
	Work
	place *Place
}

func (p placed) Name() string            { return "job" }
func (p placed) Place() (*Place, error)  { return p.place, nil }
func (p placed) Hide(text string) string { return strings.ReplaceAll(text, "s3cret", "[MASKED]") }

// silent is an Observer that tells nobody.
type silent struct{ Observer }

func (silent) Warn(string, string, string) {}

// unprepared is a level that prepares nothing.
type unprepared struct{ executor.Executor }

func (unprepared) Prepare(context.Context, *executor.Job, executor.Reporter) (executor.Environment, error) {
	return nil, errPrepared
}

var errPrepared = errors.New("the place is prepared")

// TestB3LockedJobsHaveImagesWithDigests checks the names that images have when the job starts: a report of another job may have changed them.
func TestB3LockedJobsHaveImagesWithDigests(t *testing.T) {
	digest := "alpine@sha256:" + strings.Repeat("01", 32)
	image := func(name string) *executor.Job { return &executor.Job{Image: &containers.Image{Name: name}} }
	service := func(name string) *executor.Job {
		return &executor.Job{Image: &containers.Image{Name: digest}, Services: []containers.Service{{Image: containers.Image{Name: name}}}}
	}
	for _, c := range []struct {
		name    string
		place   Place
		locked  bool
		refused string
	}{
		{"an image", Place{Job: image("alpine:3")}, true, "the image alpine:3 has no digest"},
		{"an image with another digest", Place{Job: image("alpine@md5:00")}, true, "the image alpine@md5:00 has no digest"},
		{"a service", Place{Job: service("s3cret/db:1")}, true, "the image [MASKED]/db:1 has no digest"},
		{"services beside a job on this machine", Place{Job: &executor.Job{}, Services: service("db")}, true, "the image db has no digest"},
		{"digests", Place{Job: service(digest)}, true, ""},
		{"no image", Place{Job: &executor.Job{}}, true, ""},
		{"without --locked", Place{Job: image("alpine:3")}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.place.Level = unprepared{}
			if c.refused == "" {
				c.place.Services = nil // which would be started
			}
			ended := NewRunner(Options{Locked: c.locked, Observer: silent{}}).Attempt(t.Context(), placed{place: &c.place})
			switch {
			case c.refused == "" && !strings.Contains(ended.Err.Error(), errPrepared.Error()):
				t.Errorf("got %v", ended.Err)
			case c.refused != "" && (ended.Err.Kind != event.ErrorDenied || !strings.Contains(ended.Err.Error(), c.refused)):
				t.Errorf("got %v (%s), want %q", ended.Err, ended.Err.Kind, c.refused)
			}
		})
	}
}
