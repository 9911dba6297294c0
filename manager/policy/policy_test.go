package policy_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/policy"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// read reads an entry with these lines in its [runners.docker]. What follows a line with a table is in that.
func read(t *testing.T, lines string) *config.Runner {
	t.Helper()
	if !strings.Contains(lines, "\nimage =") {
		lines = "image = \"own/default:1\"\n" + lines
	}
	text := "[[runners]]\nurl = \"https://gitlab.example.com\"\ntoken = \"t\"\nexecutor = \"docker\"\n[runners.docker]\n" + lines + "\n"
	report := config.Check("config.toml", []byte(text), os.Getenv)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return &report.Config.Runners[0]
}

// image is a job with one.
func image(name string) *executor.Job { return &executor.Job{Image: &containers.Image{Name: name}} }

// service is a job of the default image with services.
func services(names ...string) *executor.Job {
	job := image("own/default:1")
	for _, name := range names {
		job.Services = append(job.Services, containers.Service{Image: containers.Image{Name: name}})
	}
	return job
}

func with(job *executor.Job, change func(*executor.Job)) *executor.Job {
	change(job)
	return job
}

func TestRules(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	yes, no := true, false
	for name, c := range map[string]struct {
		config  string
		request policy.Request
		rule    string // that refuses; empty: it runs
	}{
		"no rules":                              {"", policy.Request{Job: with(services("a", "b"), func(j *executor.Job) { j.Image.Name = "any/thing" })}, ""},
		"an image of the list":                  {`allowed_images = ["ruby:*", "my.registry/ci/**"]`, policy.Request{Job: image("ruby:3.3")}, ""},
		"one in folders below":                  {`allowed_images = ["my.registry/ci/**"]`, policy.Request{Job: image("my.registry/ci/a/b:1")}, ""},
		"the runner's own image":                {`allowed_images = ["ruby:*"]`, policy.Request{Job: image("own/default:1")}, ""},
		"the runner's own with a variable":      {"allowed_images = [\"ruby:*\"]\nimage = \"$OWN\"", policy.Request{Job: image("a:1"), Names: map[string]string{"$OWN": "a:1"}}, ""},
		"another where that has a variable":     {"allowed_images = [\"ruby:*\"]\nimage = \"$OWN\"", policy.Request{Job: image("a:2"), Names: map[string]string{"$OWN": "a:1"}}, "runners.docker.allowed_images"},
		"another image":                         {`allowed_images = ["ruby:*"]`, policy.Request{Job: image("alpine")}, "runners.docker.allowed_images"},
		"one that begins alike":                 {`allowed_images = ["ruby"]`, policy.Request{Job: image("ruby-evil")}, "runners.docker.allowed_images"},
		"a registry that begins alike":          {`allowed_images = ["my.registry/**"]`, policy.Request{Job: image("my.registry.evil.example/x")}, "runners.docker.allowed_images"},
		"a registry as a user's name":           {`allowed_images = ["my.registry/**"]`, policy.Request{Job: image("evil.example/my.registry/x")}, "runners.docker.allowed_images"},
		"a registry's port as a tag":            {`allowed_images = ["ruby:*"]`, policy.Request{Job: image("ruby:5000/evil")}, "runners.docker.allowed_images"},
		"a digest behind a name":                {`allowed_images = ["ruby:3"]`, policy.Request{Job: image("ruby:3" + digest)}, "runners.docker.allowed_images"},
		"a digest behind the runner's own name": {`allowed_images = ["ruby:3"]`, policy.Request{Job: image("own/default:1" + digest)}, "runners.docker.allowed_images"},
		"a digest that is allowed":              {`allowed_images = ["ruby@sha256:*"]`, policy.Request{Job: image("ruby" + digest)}, ""},
		"upper case":                            {`allowed_images = ["my.registry/**"]`, policy.Request{Job: image("MY.REGISTRY/x")}, "runners.docker.allowed_images"},
		"the long name of a short one":          {`allowed_images = ["ruby:*"]`, policy.Request{Job: image("docker.io/library/ruby:3")}, "runners.docker.allowed_images"},
		"a space in front":                      {`allowed_images = ["ruby:*"]`, policy.Request{Job: image(" ruby:3")}, "runners.docker.allowed_images"},
		"folders up":                            {`allowed_images = ["my.registry/ci/*"]`, policy.Request{Job: image("my.registry/ci/../../evil")}, "runners.docker.allowed_images"},
		"a pattern as a name":                   {`allowed_images = ["ruby:3"]`, policy.Request{Job: image("*")}, "runners.docker.allowed_images"},
		"an image by its id":                    {`allowed_images = ["ruby:*"]`, policy.Request{Job: image("sha256:0123")}, "runners.docker.allowed_images"},
		"no image at all":                       {`allowed_images = ["ruby:*"]`, policy.Request{Job: &executor.Job{}}, ""},

		"a service of the list":    {`allowed_services = ["postgres:*"]`, policy.Request{Job: services("postgres:16")}, ""},
		"another service":          {`allowed_services = ["postgres:*"]`, policy.Request{Job: services("postgres:16", "docker:dind")}, "runners.docker.allowed_services"},
		"an image is no service":   {"allowed_images = [\"ruby:*\"]\nallowed_services = [\"postgres:*\"]", policy.Request{Job: services("ruby:3")}, "runners.docker.allowed_services"},
		"the runner's own service": {"allowed_services = [\"postgres:*\"]\n[[runners.docker.services]]\nname = \"docker:dind\"", policy.Request{Job: services("docker:dind")}, ""},
		"one with a variable": {
			"allowed_services = [\"postgres:*\"]\n[[runners.docker.services]]\nname = \"docker:$TAG\"", policy.Request{Job: services("docker:dind"), Names: map[string]string{"docker:$TAG": "docker:dind"}}, "",
		},
		"a service by its digest": {"allowed_services = [\"postgres:16\"]", policy.Request{Job: services("postgres:16" + digest)}, "runners.docker.allowed_services"},
		"as many as may be":       {"services_limit = 2", policy.Request{Job: services("a", "b")}, ""},
		"one more":                {"services_limit = 2", policy.Request{Job: services("a", "b", "c")}, "runners.docker.services_limit"},
		"none may be":             {"services_limit = 0", policy.Request{Job: services("a")}, "runners.docker.services_limit"},
		"any number":              {"services_limit = -1", policy.Request{Job: services("a", "b", "c")}, ""},

		"a pull policy of the list":              {`allowed_pull_policies = ["always", "never"]`, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.PullPolicies = []string{"never"} })}, ""},
		"another one":                            {`allowed_pull_policies = ["always"]`, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.PullPolicies = []string{"if-not-present"} })}, "runners.docker.allowed_pull_policies"},
		"one of a service":                       {`allowed_pull_policies = ["always"]`, policy.Request{Job: with(services("a"), func(j *executor.Job) { j.Services[0].PullPolicies = []string{"never"} })}, "runners.docker.allowed_pull_policies"},
		"one beyond the runner's":                {``, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.PullPolicies = []string{"never"} })}, "runners.docker.pull_policy"},
		"the runner's own, which is not allowed": {"pull_policy = \"never\"\nallowed_pull_policies = [\"always\"]", policy.Request{Job: image("a")}, "runners.docker.allowed_pull_policies"},

		"a user of the list":             {`allowed_users = ["1000"]`, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.User = "1000" })}, ""},
		"the image's user":               {`allowed_users = ["1000"]`, policy.Request{Job: image("a")}, ""},
		"root":                           {`allowed_users = ["1000"]`, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.User = "root" })}, "runners.docker.allowed_users"},
		"root's group":                   {`allowed_users = ["1000"]`, policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.User = "1000:0" })}, "runners.docker.allowed_users"},
		"root in a service":              {`allowed_users = ["1000"]`, policy.Request{Job: with(services("a"), func(j *executor.Job) { j.Services[0].User = "0" })}, "runners.docker.allowed_users"},
		"a user whom the runner ignores": {"user = \"1000\"\nallowed_users = [\"1000\"]", policy.Request{Job: with(image("a"), func(j *executor.Job) { j.Image.User = "root" })}, ""},

		"a protected ref":                      {"[runners.policy]\nprotected_refs_only = true", policy.Request{Job: image("a"), Protected: &yes}, ""},
		"one that is not":                      {"[runners.policy]\nprotected_refs_only = true", policy.Request{Job: image("a"), Protected: &no}, "runners.policy.protected_refs_only"},
		"one of which GitLab says nothing":     {"[runners.policy]\nprotected_refs_only = true", policy.Request{Job: image("a")}, "runners.policy.protected_refs_only"},
		"all of the network":                   {"", policy.Request{Job: image("a"), Network: "all"}, ""},
		"less of it":                           {"", policy.Request{Job: image("a"), Network: "none"}, ""},
		"more of it than the runner's":         {"[runners.policy]\nnetwork = \"none\"", policy.Request{Job: image("a"), Network: "public"}, "runners.policy.allowed_networks"},
		"more of it, which is allowed":         {"[runners.policy]\nnetwork = \"none\"\nallowed_networks = [\"public\"]", policy.Request{Job: image("a"), Network: "public"}, ""},
		"even more":                            {"[runners.policy]\nnetwork = \"none\"\nallowed_networks = [\"public\"]", policy.Request{Job: image("a"), Network: "all"}, "runners.policy.allowed_networks"},
		"hosts of the public network":          {"[runners.policy]\nnetwork = \"public\"", policy.Request{Job: image("a"), Network: "example.com:443"}, ""},
		"a private range beside it":            {"[runners.policy]\nnetwork = \"public\"", policy.Request{Job: image("a"), Network: "public,10.0.0.0/8"}, "runners.policy.allowed_networks"},
		"hosts that are listed":                {"[runners.policy]\nnetwork = \"*.example.com,10.0.0.0/8\"", policy.Request{Job: image("a"), Network: "a.example.com:443 10.1.0.0/16"}, ""},
		"hosts that are not":                   {"[runners.policy]\nnetwork = \"*.example.com\"", policy.Request{Job: image("a"), Network: "example.org"}, "runners.policy.allowed_networks"},
		"hosts that are allowed":               {"[runners.policy]\nnetwork = \"none\"\nallowed_networks = [\"*.example.com\"]", policy.Request{Job: image("a"), Network: "a.example.com"}, ""},
		"what no policy opens":                 {"", policy.Request{Job: image("a"), Network: "169.254.169.254"}, policy.NetworkVariable},
		"a network policy that does not exist": {"", policy.Request{Job: image("a"), Network: "host"}, policy.NetworkVariable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := policy.Enforce(read(t, c.config), c.request)
			var known *event.Error
			switch {
			case c.rule == "" && err != nil:
				t.Error("refused:", err)
			case c.rule != "" && (!errors.As(err, &known) || !strings.Contains(known.Message, "("+c.rule+")")):
				t.Errorf("%v, want a refusal by %s", err, c.rule)
			}
		})
	}
}

func TestWhatIsAllowedIsLeft(t *testing.T) {
	asked := services("a")
	asked.Image.PullPolicies = []string{"never", "always", "if-not-present"}
	request := policy.Request{Job: asked, Network: "none"}
	image := asked.Image
	if err := policy.Enforce(read(t, `allowed_pull_policies = ["always", "if-not-present"]`), request); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(asked.Image.PullPolicies, " "); got != "always if-not-present" {
		t.Errorf("pull policies %s", got)
	}
	if got := strings.Join(asked.Services[0].PullPolicies, " "); got != "always" {
		t.Errorf("pull policies of the service: %s, want the runner's own", got)
	}
	if asked.Network != executor.NetworkNone {
		t.Errorf("network %q", asked.Network)
	}
	if len(image.PullPolicies) != 3 {
		t.Error("the job's own definition was changed")
	}
}

func TestANetworkPolicyOfTheEntryThatCannotBeReadOpensNothing(t *testing.T) {
	r := read(t, "")
	r.Policy = config.Policy{Network: "host"} // which package config takes from no file
	if err := policy.Enforce(r, policy.Request{Job: image("a"), Network: "public"}); err == nil || !strings.Contains(err.Error(), "(runners.policy.network)") {
		t.Error(err)
	}
	r.Policy = config.Policy{Network: "none", AllowedNetworks: []string{"host"}}
	if err := policy.Enforce(r, policy.Request{Job: image("a"), Network: "public"}); err == nil || !strings.Contains(err.Error(), "(runners.policy.allowed_networks)") {
		t.Error(err)
	}
}

func TestTheEntrysNetworkIsThatOfItsJobs(t *testing.T) {
	for config, want := range map[string]executor.NetworkPolicy{"": executor.NetworkDefault, `network = "public"`: executor.NetworkPublic, `network = "none"`: executor.NetworkNone, `network = "all"`: executor.NetworkDefault, `network = "public, Example.com:443"`: "public,example.com:443"} {
		job := image("a")
		if err := policy.Enforce(read(t, "[runners.policy]\n"+config), policy.Request{Job: job}); err != nil || job.Network != want {
			t.Errorf("%s: %q %v", config, job.Network, err)
		}
	}
}
