package local

import (
	"strings"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/session"
	"github.com/rungci/rung/local/limits"
	"github.com/rungci/rung/local/store"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/source/lock"
)

// Lock is what a lock file says: which components and images a job gets. Nil locks nothing.
type Lock = lock.File

// Place is where a job runs.
type Place struct {
	Level executor.Executor
	// Job is what the level is asked for.
	Job *executor.Job
	// Lock has the digests of images; nil has none.
	Lock *Lock
	// Ignored is the image that the job asks for and does not run in; empty if it asks for none, or runs in it.
	Ignored string
	// Services are those of a job that runs on this machine beside them; nil has none. Starter runs them.
	Services *executor.Job
	Starter  executor.ServiceStarter
}

// Limits are what every job of a run may use and reach.
type Limits = limits.Limits

// ReadLimits reads what the project in a folder narrows.
func ReadLimits(root string) (Limits, error) {
	return limits.Read(root, store.Folder+"/"+limits.File)
}

// Limit bounds a job and its services: by what the user says, and what the project narrows.
func (r *Runner) Limit(job *executor.Job, project Limits) {
	all := r.Limits.Within(project)
	job.Resources, job.ServiceResources, job.Network = all.Resources, all.Resources, all.Network
}

// Containers decides between containers and this machine for a job that asks for a container or does not. The reason is why it is this machine.
func (r *Runner) Containers(asks bool) (yes bool, reason string) {
	switch {
	case r.Isolation == IsolateContainer:
		return true, ""
	case r.Isolation == IsolateNone || !asks:
		return false, "--isolation none"
	}
	if _, err := r.Levels.Container(); err != nil {
		return false, session.OneLine(err.Error())
	}
	return true, ""
}

// Container is the level of containers.
func (r *Runner) Container() (executor.Executor, *event.Error) {
	level, err := r.Levels.Container()
	if err != nil {
		return nil, session.Problem(event.ErrorSystem, "start Docker or Podman, or use another --isolation", "%v", err)
	}
	return level, nil
}

// ThisMachine is the level without isolation.
func (r *Runner) ThisMachine() (executor.Executor, *event.Error) {
	level, err := r.Levels.None()
	if err != nil {
		return nil, session.Problem(event.ErrorSystem, "", "%v", err)
	}
	return level, nil
}

// WithoutServices refuses a job whose services cannot be started, unless they are to be left out.
func (r *Runner) WithoutServices(job string, names []string, reason string) *event.Error {
	list := strings.Join(names, ", ")
	if !r.NoServices {
		return session.Problem(event.ErrorDefinition, "start Docker or Podman; or use --no-services if the services already run or are not needed",
			"it needs the services %s (%s)", list, reason)
	}
	r.Observer.Say(job, "--no-services: it runs without "+list)
	return nil
}
