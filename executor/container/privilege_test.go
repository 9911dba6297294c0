package container

import (
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
)

func TestPrivilegeIsForTheImagesThatTheOperatorNames(t *testing.T) {
	for name, c := range map[string]struct {
		privilege Privilege
		image     string
		want      bool
	}{
		"off":                               {Privilege{Images: []string{"**"}}, "docker:dind", false},
		"on for all":                        {Privilege{On: true}, "docker:dind", true},
		"on for one":                        {Privilege{On: true, Images: []string{"docker:dind"}}, "docker:dind", true},
		"another image":                     {Privilege{On: true, Images: []string{"docker:dind"}}, "alpine", false},
		"one that begins alike":             {Privilege{On: true, Images: []string{"docker:*"}}, "docker:5000/evil", false},
		"a registry that begins alike":      {Privilege{On: true, Images: []string{"registry.example/**"}}, "registry.example.evil/x", false},
		"upper case":                        {Privilege{On: true, Images: []string{"docker:*"}}, "DOCKER:dind", false},
		"the same image by its digest":      {Privilege{On: true, Images: []string{"docker:dind"}}, "docker:dind@sha256:0000", false},
		"a pattern that makes no sense":     {Privilege{On: true, Images: []string{"docker:["}}, "docker:[", false},
		"a pattern in the name of an image": {Privilege{On: true, Images: []string{"docker:dind"}}, "docker:*", false},
	} {
		t.Run(name, func(t *testing.T) {
			v := operator{&preparation{environment: &environment{
				executor: &Executor{opts: Options{Privileged: c.privilege, PrivilegedServices: c.privilege}},
				job:      &executor.Job{Image: &containers.Image{Name: c.image}},
			}}}
			if got := v.privileged(); got != c.want {
				t.Errorf("the job: %t", got)
			}
			s := &service{spec: &containers.Service{Image: containers.Image{Name: c.image}}}
			if got := v.servicePrivileged(s); got != c.want {
				t.Errorf("a service: %t", got)
			}
		})
	}
}
