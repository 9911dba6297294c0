package login

import (
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
)

func TestTheMostPreciseCredentialsOfAJobAreUsed(t *testing.T) {
	all := []containers.Registry{
		{Host: "r.example.com", Username: "all"}, {Host: "r.example.com", Path: "group/a", Username: "a"},
		{Host: "R.example.com", Path: "group", Username: "group"}, {Host: "other.example.com", Path: "group/a", Username: "other"},
	}
	for repository, want := range map[string]string{"group/a": "a", "group/a/b": "a", "group/ab": "group", "x": "all"} {
		if r := registryFor(all, "r.example.com", repository); r == nil || r.Username != want {
			t.Errorf("%s: %+v, want those of %s", repository, r, want)
		}
	}
	if r := registryFor(all[1:], "r.example.com", "x"); r != nil {
		t.Errorf("a repository that none is for gets %+v", r)
	}
}

func TestAJobNamesNoCredentialHelper(t *testing.T) {
	for _, config := range []string{`{"credsStore": "x"}`, `{"credHelpers": {"registry.example.com": "x"}}`} {
		job := &executor.Job{Variables: map[string]string{"DOCKER_AUTH_CONFIG": config}}
		found, err := Find(t.Context(), job, []string{"PATH=/bin"}, t.TempDir(), "registry.example.com/a:1")
		if found != nil || err == nil || !strings.Contains(err.Error(), "the job's DOCKER_AUTH_CONFIG: it names the credential helper docker-credential-x") {
			t.Errorf("%s: %v, %v", config, found, err)
		}
	}
}
