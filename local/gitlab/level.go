package gitlab

import (
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// level chooses where an attempt runs, and says what that place must have.
func (a *attempt) level(j *pipeline.Job, vars *variable.Collection) (executor.Executor, *executor.Job, *event.Error) {
	what := &executor.Job{
		ID: session.EnvironmentID(j.Name, a.id), ProjectName: a.runner.project.Repository.Project.Name(), Variables: map[string]string{}, Keep: a.o.Keep,
	}
	if expanded, err := vars.ExpandForJob(func(string) string { return "" }); err == nil {
		for _, v := range expanded.Effective() {
			what.Variables[v.Name] = v.Value
		}
	}
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
	what.Registries = registriesOf(vars)
	chosen, reason := a.chooses(what)
	if chosen == IsolateContainer {
		level, err := a.levels.Container()
		if err != nil {
			return nil, nil, session.Problem(event.ErrorSystem, "start Docker or Podman, or give --isolation none", "there is no engine for containers: %v", err)
		}
		return level, what, nil
	}
	if err := a.withoutContainers(j, what, reason); err != nil {
		return nil, nil, err
	}
	level, err := a.levels.None()
	if err != nil {
		return nil, nil, session.Problem(event.ErrorSystem, "", "%v", err)
	}
	return level, what, nil
}

// chooses decides between a container and this machine, and says why where that needs a reason.
func (a *attempt) chooses(what *executor.Job) (Isolation, string) {
	asks := what.Image != nil || len(what.Services) > 0
	switch {
	case a.o.InPlace:
		return IsolateNone, "--in-what runs jobs on this machine"
	case a.o.Isolation == IsolateContainer:
		return IsolateContainer, ""
	case a.o.Isolation == IsolateNone || !asks:
		return IsolateNone, "--isolation none"
	}
	if _, err := a.levels.Container(); err != nil {
		return IsolateNone, "there is no engine for containers: " + session.OneLine(err.Error())
	}
	return IsolateContainer, ""
}

// withoutContainers takes away what this machine cannot do for the job, with a word; a service that is missing is more than that.
func (a *attempt) withoutContainers(j *pipeline.Job, what *executor.Job, reason string) *event.Error {
	if what.Image != nil {
		a.once.say(reason + ": jobs run on this machine, and not in their images")
		what.Image = nil
	}
	if len(what.Services) == 0 {
		return nil
	}
	var names []string
	for _, s := range what.Services {
		names = append(names, s.Name)
	}
	if !a.o.NoServices {
		return session.Problem(event.ErrorDefinition, "start Docker or Podman; or give --no-services, if the services run already or are not needed",
			"it asks for the services %s, and %s", strings.Join(names, ", "), reason)
	}
	a.o.Observer.Say(j.Name, "--no-services: it runs without "+strings.Join(names, ", "))
	what.Services = nil
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
