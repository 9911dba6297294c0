package session

import (
	"slices"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/event"
)

// Beside adds services that were started for a job on the machine itself to what was described of its environment.
func Beside(described *event.Environment, job *executor.Job, started executor.Services, hide func(string) string) {
	for i := range job.Services {
		s := &job.Services[i]
		described.Services = append(described.Services, event.Service{
			Image:   event.Image{Name: s.Name, Entrypoint: s.Entrypoint, Platform: s.Platform, User: s.User},
			Aliases: s.Aliases, Command: hidden(s.Command, hide), Variables: hiddenMap(s.Variables, hide), Ports: started.Ports(i),
		})
	}
	described.Variables = hiddenMap(job.Variables, hide)
}

// Describe says of an environment what whoever makes it again has to know. hide takes out of a text what is masked in the job.
func Describe(level executor.Level, job *executor.Job, env executor.Environment, files []event.File, hide func(string) string) *event.Environment {
	out := &event.Environment{Level: string(level)}
	found := env.Layout().Images
	image := func(i *executor.Image, at int) event.Image {
		described := event.Image{Name: i.Name, Entrypoint: i.Entrypoint, Platform: i.Platform, User: i.User}
		if at < len(found) {
			described.Digest, described.Pull = found[at].ID, found[at].Pull
		}
		return described
	}
	if job.Image != nil {
		described := image(job.Image, 0)
		out.Image = &described
	}
	for i := range job.Services {
		s := &job.Services[i]
		out.Services = append(out.Services, event.Service{
			Image: image(&s.Image, i+1), Aliases: s.Aliases, Command: hidden(s.Command, hide), Variables: hiddenMap(s.Variables, hide),
		})
	}
	if len(job.Services) > 0 {
		out.Variables = hiddenMap(job.Variables, hide)
	}
	for _, f := range files {
		f.Text = hide(f.Text)
		out.Files = append(out.Files, f)
	}
	return out
}

// Job is what to ask a level for, to get the place that was described.
func Job(described *event.Environment) *executor.Job {
	out := &executor.Job{Variables: described.Variables}
	image := func(i *event.Image) executor.Image {
		name := i.Name
		if i.Pull != "" {
			name = i.Pull
		}
		return executor.Image{Name: name, Entrypoint: i.Entrypoint, Platform: i.Platform, User: i.User, PullPolicies: []string{"if-not-present"}}
	}
	if described.Image != nil {
		wanted := image(described.Image)
		out.Image = &wanted
	}
	for i := range described.Services {
		s := &described.Services[i]
		out.Services = append(out.Services, executor.Service{Image: image(&s.Image), Aliases: s.Aliases, Command: s.Command, Variables: s.Variables, Ports: s.Ports})
	}
	return out
}

// Described returns a sink that says in a run's first event what place was made for it.
func Described(to event.Sink, env *event.Environment) event.Sink { return &described{to, env} }

type described struct {
	to  event.Sink
	env *event.Environment
}

// Event implements event.Sink.
func (d *described) Event(e event.Event) {
	if body, ok := e.Body.(event.RunStarted); ok {
		body.Environment = d.env
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
