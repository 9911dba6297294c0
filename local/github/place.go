package github

import (
	"fmt"
	"maps"
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
	definition "github.com/rungci/rung/steps/frontend/actions/workflow"
	"github.com/rungci/rung/steps/value"
)

// unfit is why this machine cannot run a leg.
func (r *runner) unfit(l *leg) string {
	if l.Container != nil || r.Isolation == local.IsolateContainer {
		return ""
	}
	_, _, reason := r.project.Runners.choose(l.RunsOn)
	return reason
}

// Place implements local.Work.
func (a *attempt) Place() (*local.Place, error) {
	l := a.leg
	runner, note, _ := a.project.Runners.choose(l.RunsOn)
	wanted := l.Container
	if wanted == nil && runner.Image != "" {
		wanted = &definition.Container{Image: runner.Image}
	}
	place := &local.Place{Job: a.wish(""), Lock: l.node.scope.lock}
	a.Limit(place.Job, a.project.Limits)
	containers, reason := a.Containers(wanted != nil || len(l.Services) > 0)
	var refusal *event.Error
	switch {
	case containers && (wanted != nil || a.Isolation == local.IsolateContainer):
		refusal = a.inContainer(place, wanted)
	default:
		if note != "" {
			a.SayOnce("", note)
		}
		if wanted != nil {
			a.SayOnce("", reason+": jobs run on this machine and not in their containers")
			place.Ignored, a.env = wanted.Image, wanted.Env
		}
		if refusal = a.besides(place, containers, reason); refusal == nil {
			place.Level, refusal = a.ThisMachine()
		}
	}
	if refusal != nil {
		return nil, refusal
	}
	return place, nil
}

// wish is what a level is asked for.
func (a *attempt) wish(suffix string) *executor.Job {
	return &executor.Job{
		ID: session.EnvironmentID(a.leg.name, a.id) + suffix, ProjectName: a.project.Repository.Project.Name(), Masked: a.masked, Keep: a.Keep,
	}
}

// besides finds what runs the services of a job on this machine. If there is nothing they are refused, unless they are to be left out.
func (a *attempt) besides(place *local.Place, containers bool, reason string) *event.Error {
	if len(a.leg.Services) == 0 {
		return nil
	}
	if containers {
		level, _ := a.Levels.Container() // it was opened before
		if starter, ok := level.(executor.ServiceStarter); ok {
			place.Starter, place.Services = starter, a.wish("-services")
			a.Limit(place.Services, a.project.Limits)
			place.Services.Resources = executor.Resources{} // there is no container of the job
			return a.services(place.Services, true)
		}
		reason = "this isolation level cannot start them for a job on this machine"
	}
	var names []string
	for _, s := range a.leg.Services {
		names = append(names, s.ID)
	}
	return a.WithoutServices(a.leg.name, names, reason)
}

// inContainer makes the place of a leg that runs in a container.
func (a *attempt) inContainer(place *local.Place, wanted *definition.Container) (refusal *event.Error) {
	if place.Level, refusal = a.Container(); refusal != nil {
		return refusal
	}
	if wanted == nil {
		label := strings.Join(a.leg.RunsOn.Labels[:min(1, len(a.leg.RunsOn.Labels))], "")
		return session.Problem(event.ErrorDefinition, fmt.Sprintf("write %s: {image: NAME} into .rung/%s", label, RunnersFile),
			"it runs in a container, but no image is configured")
	}
	a.env = maps.Clone(wanted.Env)
	if a.env == nil {
		a.env = map[string]value.Value{}
	}
	o := readOptions(wanted.Options)
	if refusal := a.honor("container", place.Job, o); refusal != nil {
		return refusal
	}
	bounds := a.Limits.Within(a.project.Limits).Within(o.limits)
	place.Job.Resources, place.Job.Network = bounds.Resources, bounds.Network
	place.Job.Image = &containers.Image{Name: wanted.Image, User: o.user}
	for name, text := range o.env {
		if _, there := a.env[name]; !there {
			a.env[name] = value.OfString(text)
		}
	}
	a.leftOut("container", wanted, o)
	a.registry(place.Job, wanted)
	return a.services(place.Job, false)
}

// honor refuses options that cannot be honored, and takes over the rights that they ask for, which only the user can grant.
func (a *attempt) honor(what string, job *executor.Job, o options) *event.Error {
	if len(o.wrong) > 0 {
		return session.Problem(event.ErrorDefinition, "correct or remove the option", "%s: options: %s", what, strings.Join(o.wrong, "; "))
	}
	if o.privileged && !a.Privileged {
		return session.Problem(event.ErrorDefinition, "use --privileged if you trust the workflow", "%s: options: --privileged asks for all rights on this machine's kernel", what)
	}
	job.Privileged = job.Privileged || o.privileged
	return nil
}

// services adds the services of the leg to what a level is asked for, with ports of this machine where the job is on it.
func (a *attempt) services(job *executor.Job, published bool) *event.Error {
	for i := range a.leg.Services {
		service := &a.leg.Services[i]
		o := readOptions(service.Options)
		if refusal := a.honor("service "+service.ID, job, o); refusal != nil {
			return refusal
		}
		o.others = append(o.others, o.limiting...) // all services have the same limits
		out := containers.Service{
			Image: containers.Image{Name: service.Image, User: o.user}, Aliases: []string{service.ID}, Variables: o.env, Health: o.health,
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
					a.Observer.Warn(a.leg.name, fmt.Sprintf("service %s: the port %s is ignored: %v", service.ID, text, err), "")
					continue
				}
				out.Ports[inside] = here
			}
		}
		job.Services = append(job.Services, out)
		a.leftOut("service "+service.ID, &service.Container, o)
		a.registry(job, &service.Container)
	}
	return nil
}

// leftOut says what a container asks for that it is not given.
func (a *attempt) leftOut(what string, c *definition.Container, o options) {
	if len(c.Volumes) > 0 {
		a.Observer.Warn(a.leg.name, what+": volumes are ignored: nothing on this machine is mounted into a container", "")
	}
	for _, option := range o.others {
		a.Observer.Warn(a.leg.name, fmt.Sprintf("%s: the option %s is ignored", what, option), "")
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
	job.Registries = append(job.Registries, containers.Registry{Host: host, Username: c.Username, Password: c.Password.Text()})
}
