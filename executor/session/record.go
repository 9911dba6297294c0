package session

import (
	"slices"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/containers"
	"github.com/rungci/rung/steps/event"
)

// Beside adds services that were started for a job on the machine itself to what was described of its environment.
func Beside(described *event.Environment, job *executor.Job, started executor.Services, hide func(string) string) {
	for i := range job.Services {
		s := describeService(&job.Services[i], hide)
		s.Ports = started.Ports(i)
		described.Services = append(described.Services, event.Service{Service: s, Found: foundAt(started.Images(), i)})
	}
	described.Variables = hiddenMap(job.ServiceVariables(), hide)
}

func describeService(s *containers.Service, hide func(string) string) containers.Service {
	out := *s
	out.Command, out.Variables = hidden(s.Command, hide), hiddenMap(s.Variables, hide)
	out.PullPolicies, out.Health, out.Ports = nil, nil, nil // how it was got does not matter to who gets the same
	return out
}

// Describe says of an environment what whoever makes it again has to know. hide takes out of a text what is masked in the job.
func Describe(level executor.Level, job *executor.Job, env executor.Environment, files []event.File, hide func(string) string) *event.Environment {
	out := &event.Environment{Level: string(level), Limits: limitsOf(job), ServiceLimits: limits(event.Limits{}, job.ServiceResources)}
	images := env.Layout().Images
	if job.Image != nil {
		out.Image = &event.Image{Image: *job.Image, Found: foundAt(images, 0)}
		out.Image.PullPolicies = nil
	}
	for i := range job.Services {
		out.Services = append(out.Services, event.Service{Service: describeService(&job.Services[i], hide), Found: foundAt(images, i+1)})
	}
	if len(job.Services) > 0 {
		out.Variables = hiddenMap(job.ServiceVariables(), hide)
	}
	for _, f := range files {
		f.Text = hide(f.Text)
		out.Files = append(out.Files, f)
	}
	return out
}

// foundAt is an image of a list; of one that is shorter nothing is known.
func foundAt(images []executor.FoundImage, at int) event.Found {
	if at >= len(images) {
		return event.Found{}
	}
	return event.Found{Digest: images[at].ID, Pull: images[at].Pull}
}

// limitsOf returns the limits of a job; nil if it has none.
func limitsOf(job *executor.Job) *event.Limits {
	return limits(event.Limits{Network: string(job.Network), Privileged: job.Privileged}, job.Resources)
}

func limits(out event.Limits, r executor.Resources) *event.Limits {
	out.CPUs, out.Memory, out.PIDs, out.Disk = r.CPU, r.Memory, r.PIDs, r.Disk
	out.Swap, out.CPUSet, out.Read, out.Write = r.Swap, r.CPUSet, r.Read, r.Write
	if out == (event.Limits{}) {
		return nil
	}
	return &out
}

func resources(l *event.Limits) executor.Resources {
	if l == nil {
		return executor.Resources{}
	}
	return executor.Resources{CPU: l.CPUs, Memory: l.Memory, PIDs: l.PIDs, Disk: l.Disk, Swap: l.Swap, CPUSet: l.CPUSet, Read: l.Read, Write: l.Write}
}

// Job is what to ask a level for, to get the place that was described. A trace grants no privileges.
func Job(described *event.Environment) *executor.Job {
	out := &executor.Job{Variables: described.Variables}
	if l := described.Limits; l != nil {
		out.Network = executor.NetworkPolicy(l.Network)
	}
	out.Resources, out.ServiceResources = resources(described.Limits), resources(described.ServiceLimits)
	again := func(i containers.Image, found event.Found) containers.Image {
		if found.Pull != "" {
			i.Name = found.Pull
		}
		i.PullPolicies = []string{"if-not-present"}
		return i
	}
	if i := described.Image; i != nil {
		image := again(i.Image, i.Found)
		out.Image = &image
	}
	for _, s := range described.Services {
		service := s.Service
		service.Image = again(s.Image, s.Found)
		out.Services = append(out.Services, service)
	}
	return out
}

// Described returns a sink that adds to a run's first event which job it executes and what environment was created for it.
func Described(to event.Sink, env *event.Environment, job *event.Identity) event.Sink {
	return &described{to, env, job}
}

type described struct {
	to  event.Sink
	env *event.Environment
	job *event.Identity
}

// Event implements event.Sink.
func (d *described) Event(e event.Event) {
	if body, ok := e.Body.(event.RunStarted); ok {
		body.Environment, body.Identity = d.env, d.job
		e.Body = body
	}
	d.to.Event(e)
}

func hidden(texts []string, hide func(string) string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = hide(texts[i])
	}
	return texts
}

func hiddenMap(texts map[string]string, hide func(string) string) map[string]string {
	if len(texts) == 0 {
		return nil
	}
	out := make(map[string]string, len(texts))
	for name, text := range texts {
		out[name] = hide(text)
	}
	return out
}
