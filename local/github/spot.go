package github

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// spot is where a leg runs.
type spot struct {
	level executor.Executor
	job   *executor.Job
	env   map[string]value.Value // of `container: env`
	// beside are the services of a job that runs on this machine, starter what runs them; nil has none.
	beside  *executor.Job
	starter executor.ServiceStarter
	started executor.Services // nil until they are
}

// choose chooses where a leg runs. skip says why this machine cannot run it.
func (a *attempt) choose() (s *spot, skip string, refusal *event.Error) {
	l, o := a.leg, a.o
	runner, note, skip := a.project.Runners.choose(l.RunsOn)
	if l.Container == nil && o.Isolation != IsolateContainer && skip != "" {
		return nil, skip, nil
	}
	s = &spot{job: a.job("")}
	wanted := l.Container
	if wanted == nil && runner.Image != "" {
		wanted = &definition.Container{Image: runner.Image}
	}
	reason := "--isolation none"
	containers := o.Isolation != IsolateNone
	if containers && (wanted != nil || len(l.Services) > 0) && o.Isolation == IsolateAuto {
		if _, err := a.levels.Container(); err != nil {
			containers, reason = false, "there is no engine for containers: "+session.OneLine(err.Error())
		}
	}
	if containers && (wanted != nil || o.Isolation == IsolateContainer) {
		refusal = a.inContainer(s, wanted)
		return s, "", refusal
	}
	if note != "" {
		a.say("", note)
	}
	if wanted != nil {
		a.say("", reason+": jobs run on this machine, and not in their containers")
	}
	if refusal := a.besides(s, containers, reason); refusal != nil {
		return nil, "", refusal
	}
	level, err := a.levels.None()
	if err != nil {
		return nil, "", session.Problem(event.ErrorSystem, "", "%v", err)
	}
	s.level = level
	return s, "", nil
}

// job is what a level is asked for.
func (a *attempt) job(suffix string) *executor.Job {
	return &executor.Job{
		ID: session.EnvironmentID(a.leg.name, a.id) + suffix, ProjectName: a.project.Repository.Project.Name(), Variables: map[string]string{}, Keep: a.o.Keep,
	}
}

// besides finds what runs the services of a job on this machine. Where there is nothing they are refused, unless they are to be left out.
func (a *attempt) besides(s *spot, containers bool, reason string) *event.Error {
	if len(a.leg.Services) == 0 {
		return nil
	}
	if containers {
		level, _ := a.levels.Container() // it was opened before
		if starter, ok := level.(executor.ServiceStarter); ok {
			s.starter, s.beside = starter, a.job("-services")
			a.services(s.beside, true)
			return nil
		}
		reason = "this level of isolation cannot start them for a job on this machine"
	}
	var names []string
	for _, s := range a.leg.Services {
		names = append(names, s.ID)
	}
	if !a.o.NoServices {
		return session.Problem(event.ErrorDefinition, "start Docker or Podman; or give --no-services, if the services run already or are not needed",
			"it asks for the services %s, and %s", strings.Join(names, ", "), reason)
	}
	a.o.Observer.Say(a.leg.name, "--no-services: it runs without "+strings.Join(names, ", "))
	return nil
}

// inContainer makes the place of a leg that runs in a container.
func (a *attempt) inContainer(s *spot, wanted *definition.Container) *event.Error {
	level, err := a.levels.Container()
	if err != nil {
		return session.Problem(event.ErrorSystem, "start Docker or Podman, or give --isolation none", "there is no engine for containers: %v", err)
	}
	if wanted == nil {
		label := strings.Join(a.leg.RunsOn.Labels[:min(1, len(a.leg.RunsOn.Labels))], "")
		return session.Problem(event.ErrorDefinition, fmt.Sprintf("write %s: {image: NAME} into .rung/%s", label, RunnersFile),
			"it is to run in a container, and nothing says of which image")
	}
	s.level, s.env = level, maps.Clone(wanted.Env)
	if s.env == nil {
		s.env = map[string]value.Value{}
	}
	o := readOptions(wanted.Options)
	s.job.Image = &executor.Image{Name: wanted.Image, User: o.user}
	for name, text := range o.env {
		if _, there := s.env[name]; !there {
			s.env[name] = value.OfString(text)
		}
	}
	a.leftOut("container", wanted, o)
	a.registry(s.job, wanted)
	a.services(s.job, false)
	return nil
}

// services adds the services of the leg to what a level is asked for, with ports of this machine where the job is on it.
func (a *attempt) services(job *executor.Job, published bool) {
	for i := range a.leg.Services {
		service := &a.leg.Services[i]
		o := readOptions(service.Options)
		out := executor.Service{
			Image: executor.Image{Name: service.Image, User: o.user}, Aliases: []string{service.ID}, Variables: o.env, Health: o.health,
		}
		for name, v := range service.Env {
			out.Variables[name] = v.Text()
		}
		if service.Entrypoint != "" {
			out.Entrypoint = words(service.Entrypoint)
		}
		if service.Command != "" {
			out.Command = words(service.Command)
		}
		if published {
			out.Ports = map[uint16]uint16{}
			for _, text := range service.Ports {
				inside, here, err := readPort(text)
				if err != nil {
					a.o.Observer.Warn(a.leg.name, fmt.Sprintf("service %s: the port %s is left out: %v", service.ID, text, err), "")
					continue
				}
				out.Ports[inside] = here
			}
		}
		job.Services = append(job.Services, out)
		a.leftOut("service "+service.ID, &service.Container, o)
		a.registry(job, &service.Container)
	}
}

// startServices starts the services of a job on this machine, and tells the job where they are. close removes them.
func (a *attempt) startServices(ctx context.Context) (closeAll func(context.Context) error, err error) {
	if a.spot.beside == nil {
		return func(context.Context) error { return nil }, nil
	}
	started, err := a.spot.starter.StartServices(ctx, a.spot.beside, func(line string) { a.o.Observer.Say(a.leg.name, a.hide(line)) })
	if err != nil {
		return nil, err
	}
	a.spot.started = started
	all := map[string]value.Value{}
	for i, s := range a.leg.Services {
		ports := map[string]value.Value{}
		for inside, here := range started.Ports(i) {
			ports[fmt.Sprint(inside)] = value.OfString(fmt.Sprint(here))
			a.o.Observer.Say(a.leg.name, fmt.Sprintf("service %s: its port %d is localhost:%d", s.ID, inside, here))
		}
		all[s.ID] = value.OfStruct(map[string]value.Value{"ports": value.OfStruct(ports)})
	}
	a.contexts["job"] = value.OfStruct(map[string]value.Value{"services": value.OfStruct(all)})
	return started.Close, nil
}

// leftOut says what a container asks for that it is not given.
func (a *attempt) leftOut(what string, c *definition.Container, o options) {
	if len(c.Volumes) > 0 {
		a.o.Observer.Warn(a.leg.name, what+": volumes are left out: nothing of this machine goes into a container here", "")
	}
	for _, option := range o.others {
		a.o.Observer.Warn(a.leg.name, fmt.Sprintf("%s: the option %s is left out", what, option), "")
	}
}

// registry adds the credentials of an image.
func (a *attempt) registry(job *executor.Job, c *definition.Container) {
	if !c.Credentials {
		return
	}
	host, _, named := strings.Cut(c.Image, "/")
	if !named || !strings.ContainsAny(host, ".:") && host != "localhost" {
		host = "docker.io"
	}
	job.Registries = append(job.Registries, executor.Registry{Host: host, Username: c.Username, Password: c.Password.Text()})
}
