package gitlab

import (
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/place"
)

// place says where the attempt runs, and what that place must have.
func (a *attempt) place() (*local.Place, error) {
	j, vars := a.job, a.vars
	what := &executor.Job{
		ID: session.EnvironmentID(j.Name, a.id), ProjectName: a.runner.project.Repository.Project.Name(), Keep: a.Keep,
	}
	what.Variables, what.Private, what.Masked = place.Shown(vars)
	expand := func(text string) string {
		out, err := vars.ExpandInJob(text, func(string) string { return "" })
		if err != nil {
			return text
		}
		return out
	}
	what.Image = imageOf(j.Keywords.Image, expand)
	for _, s := range j.Keywords.Services {
		what.Services = append(what.Services, serviceOf(s, expand))
	}
	what.Registries = place.Registries(vars)
	a.Limit(what, a.runner.project.Limits)
	out := &local.Place{Job: what, Lock: a.runner.project.lock}
	asks := what.Image != nil || len(what.Services) > 0
	contained, reason := a.Containers(asks)
	if a.o.InPlace {
		contained, reason = false, "--in-place"
	}
	var refusal *event.Error
	if contained {
		what.Privileged, what.ImageEnv = a.Privileged, true
		out.Level, refusal = a.Container()
	} else {
		out.Ignored, refusal = a.withoutContainers(what, reason)
		if refusal == nil {
			out.Level, refusal = a.ThisMachine()
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	return out, nil
}

// withoutContainers removes what this machine cannot do for the job, with a note; a service that is missing is more than that.
func (a *attempt) withoutContainers(what *executor.Job, reason string) (ignored string, refusal *event.Error) {
	if what.Image != nil {
		a.SayOnce("", "images are ignored, jobs run on this machine: "+reason)
		ignored, what.Image = what.Image.Name, nil
	}
	if len(what.Services) == 0 {
		return ignored, nil
	}
	var names []string
	for _, s := range what.Services {
		names = append(names, s.Name)
	}
	what.Services = nil
	return ignored, a.WithoutServices(a.job.Name, names, reason)
}

func imageOf(i *keyword.Image, expand func(string) string) *containers.Image {
	if i == nil {
		return nil
	}
	return &containers.Image{
		Name: expand(i.Name), Entrypoint: i.Entrypoint, PullPolicies: i.PullPolicies, Platform: expand(i.Platform), User: expand(i.User),
	}
}

func serviceOf(s keyword.Service, expand func(string) string) containers.Service {
	out := containers.Service{Image: *imageOf(&s.Image, expand), Command: s.Command, Variables: map[string]string{}}
	for _, alias := range s.Aliases {
		out.Aliases = append(out.Aliases, expand(alias))
	}
	for _, v := range s.Variables {
		out.Variables[v.Name] = expand(v.Value)
	}
	return out
}
