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
		if r := registryFor(all, "r.example.com", repository, false); r == nil || r.Username != want {
			t.Errorf("%s: %+v, want those of %s", repository, r, want)
		}
	}
	if r := registryFor(all[1:], "r.example.com", "x", false); r != nil {
		t.Errorf("a repository that none is for gets %+v", r)
	}
}

func TestTheLoginOfTheHostsUserComesBeforeWhatGitLabSends(t *testing.T) {
	config := func(user string) string {
		return `{"auths": {"r.example.com": {"username": "` + user + `", "password": "p"}}}`
	}
	job := &executor.Job{Registries: []containers.Registry{{Host: "r.example.com", Username: "sent", Last: true}}}
	want := func(user string, env ...string) {
		t.Helper()
		if found, err := Find(t.Context(), job, env, t.TempDir(), "r.example.com/a:1"); found == nil || found.Username != user {
			t.Errorf("%+v, %v, want %s", found, err, user)
		}
	}
	want("sent")
	want("user", "DOCKER_AUTH_CONFIG="+config("user"))
	job.Registries = append(job.Registries, containers.Registry{Host: "r.example.com", Username: "own"})
	want("own", "DOCKER_AUTH_CONFIG="+config("user"))
}

func TestAConfigurationOfAJobThatCannotBeReadIsReported(t *testing.T) {
	job := &executor.Job{Variables: map[string]string{"DOCKER_AUTH_CONFIG": "   !"}}
	if found, err := Find(t.Context(), job, nil, t.TempDir(), "r.example.com/a:1"); found != nil || err == nil || !strings.Contains(err.Error(), "the job's DOCKER_AUTH_CONFIG: ") ||
		!strings.Contains(err.Error(), "its JSON is wrong at byte 4") {
		t.Errorf("%v, %v", found, err)
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
