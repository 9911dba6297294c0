package local

import (
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// level chooses where an attempt runs, and says what that place must have.
func (a *attempt) level(j *pipeline.Job, vars *variable.Collection) (executor.Executor, *executor.Job, *event.Error) {
	place := &executor.Job{
		ID: environmentID(j.Name, a.id), ProjectName: a.runner.project.Repository.Project.Name(), Variables: map[string]string{}, Keep: a.o.Keep,
	}
	if expanded, err := vars.ExpandForJob(func(string) string { return "" }); err == nil {
		for _, v := range expanded.Effective() {
			place.Variables[v.Name] = v.Value
		}
	}
	expand := func(text string) string {
		out, err := vars.ExpandInJob(text, func(string) string { return "" })
		if err != nil {
			return text
		}
		return out
	}
	place.Image = imageOf(j.Keywords.Image, expand)
	for _, s := range j.Keywords.Services {
		place.Services = append(place.Services, serviceOf(s, expand))
	}
	place.Registries = registriesOf(vars)
	chosen, reason := a.chooses(place)
	if chosen == IsolateContainer {
		level, err := a.levels.Container()
		if err != nil {
			return nil, nil, problem(event.ErrorSystem, "start Docker or Podman, or give --isolation none", "there is no engine for containers: %v", err)
		}
		return level, place, nil
	}
	if err := a.withoutContainers(j, place, reason); err != nil {
		return nil, nil, err
	}
	level, err := a.levels.None()
	if err != nil {
		return nil, nil, problem(event.ErrorSystem, "", "%v", err)
	}
	return level, place, nil
}

// chooses decides between a container and this machine, and says why where that needs a reason.
func (a *attempt) chooses(place *executor.Job) (Isolation, string) {
	asks := place.Image != nil || len(place.Services) > 0
	switch {
	case a.o.InPlace:
		return IsolateNone, "--in-place runs jobs on this machine"
	case a.o.Isolation == IsolateContainer:
		return IsolateContainer, ""
	case a.o.Isolation == IsolateNone || !asks:
		return IsolateNone, "--isolation none"
	}
	if _, err := a.levels.Container(); err != nil {
		return IsolateNone, "there is no engine for containers: " + oneLine(err.Error())
	}
	return IsolateContainer, ""
}

// withoutContainers takes away what this machine cannot do for the job, with a word; a service that is missing is more than that.
func (a *attempt) withoutContainers(j *pipeline.Job, place *executor.Job, reason string) *event.Error {
	if place.Image != nil {
		a.once.say(reason + ": jobs run on this machine, and not in their images")
		place.Image = nil
	}
	if len(place.Services) == 0 {
		return nil
	}
	var names []string
	for _, s := range place.Services {
		names = append(names, s.Name)
	}
	if !a.o.NoServices {
		return problem(event.ErrorDefinition, "start Docker or Podman; or give --no-services, if the services run already or are not needed",
			"it asks for the services %s, and %s", strings.Join(names, ", "), reason)
	}
	a.o.Observer.Say(j.Name, "--no-services: it runs without "+strings.Join(names, ", "))
	place.Services = nil
	return nil
}

func imageOf(i *keyword.Image, expand func(string) string) *executor.Image {
	if i == nil {
		return nil
	}
	return &executor.Image{
		Name: expand(i.Name), Entrypoint: i.Entrypoint, PullPolicies: i.PullPolicies, Platform: expand(i.Platform), User: expand(i.User),
	}
}

func serviceOf(s keyword.Service, expand func(string) string) executor.Service {
	out := executor.Service{Image: *imageOf(&s.Image, expand), Command: s.Command, Variables: map[string]string{}}
	for _, alias := range s.Aliases {
		out.Aliases = append(out.Aliases, expand(alias))
	}
	for _, v := range s.Variables {
		out.Variables[v.Name] = expand(v.Value)
	}
	return out
}

// registriesOf are the credentials for registries that a job's variables hold.
func registriesOf(vars *variable.Collection) []executor.Registry {
	text, ok := vars.Lookup("DOCKER_AUTH_CONFIG")
	if !ok || text == "" {
		return nil
	}
	return parseAuthConfig(text)
}
