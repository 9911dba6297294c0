package container

import (
	"testing"

	"github.com/rungci/rung/executor/container/engine"
)

// Privileged containers can make a read-only mount writable, and only Docker is known to keep an image's files out of a volume.
func TestTheStepRunnerIsSharedOnlyWhereJobsCannotWriteToIt(t *testing.T) {
	for name, c := range map[string]struct {
		docker, privileged, want bool
	}{
		"a job in Docker":            {docker: true, want: true},
		"a privileged job in Docker": {docker: true, privileged: true},
		"a job in Podman":            {},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Executor{program: &program{shared: c.docker}}
			if got := e.sharesProgram(&engine.HostConfig{Privileged: c.privileged}); got != c.want {
				t.Error(got)
			}
		})
	}
}

func TestDockerIsToldFromOtherEngines(t *testing.T) {
	for name, want := range map[string]bool{"Engine": true, "Podman Engine": false} {
		if got := (engine.Version{Components: []struct{ Name string }{{name}, {"containerd"}}}).Docker(); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (engine.Version{}).Docker() {
		t.Error("an engine that does not say what it is counts as Docker")
	}
}
