package manager

import (
	"cmp"
	"os"
	"os/user"
	"path/filepath"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/docker"
	"github.com/rungci/rung/manager/policy"
)

// bounds adds to what a job asks for what the configuration says, and refuses what the configuration does not allow.
func (r *run) bounds(settings *config.Runner) func(*executor.Job) error {
	m := r.entry.manager
	return func(what *executor.Job) error {
		if m.o.Fresh {
			defer func() { what.KeepProject, what.KeepVolumes = "", "" }()
		}
		err := policy.Enforce(settings, policy.Request{Job: what, Network: r.network, Names: r.names, Protected: r.from.Git.Protected})
		if err != nil {
			return err
		}
		defer r.keep(settings, what)
		defer limit(what, &settings.Policy)
		if what.Driver != nil { // its folders are in its place
			return nil
		}
		if r.rank < executor.Container.Rank() {
			home(m.o.State, settings, what)
			if r.on != nil { // another machine, which has folders of its own
				what.Slot = slotGroup(settings, r.on.Level(), r.on.Machine().Slot)
				if volume := r.on.Machine().Volume; volume != "" {
					what.Root = volume
				}
				return nil
			}
			what.Slot = slotGroup(settings, r.level, r.slot)
			return nil
		}
		if r.on != nil {
			what.Root = r.on.Machine().Volume
		}
		if d := settings.Docker; d != nil && settings.Executor != config.KubernetesExecutor {
			slots := ""
			if settings.UseSlotCgroups {
				slots = settings.SlotCgroupTemplate
			}
			number, owner := r.slot, r.owner(settings, "")
			if r.on != nil { // the slots of its machine are others
				number = r.on.Machine().Slot
				if what.Root != "" { // which is on no other machine
					owner.ProjectSlot = number
				}
			}
			docker.Bound(d, docker.Slot{Number: number, Groups: slots, Keeps: owner.Name()}, what)
		}
		return nil
	}
}

// home is whose a job without a container is, and where its folders are.
func home(state string, settings *config.Runner, what *executor.Job) {
	what.Root, what.User = settings.BuildsDir, otherUser(settings.User)
	switch {
	case settings.Provider != nil, settings.Executor == "ssh": // another machine: its user has a folder there
	case what.User == "":
		what.Root = cmp.Or(what.Root, filepath.Join(state, "builds"))
		_ = os.MkdirAll(what.Root, 0o755) // the level says what is wrong with it
	case what.Root == "": // the state folder is closed to others
		what.Root = config.HomeBuilds(what.User)
	}
}

// owner is for whose later jobs the job keeps something, as a user of the machine.
func (r *run) owner(settings *config.Runner, user string) disk.Owner {
	return disk.Owner{
		Runner: settings.URL + " " + settings.Short() + " " + r.entry.manager.o.SystemID, Project: r.from.Info.ProjectID, ProjectSlot: r.projectSlot,
		Protected: yes(r.from.Git.Protected, false), User: user,
	}
}

// keep lets the job go on with what an earlier one of its project has left, where it wants that, and there is a folder that a later job finds again.
func (r *run) keep(settings *config.Runner, what *executor.Job) {
	switch {
	case !r.keeps || what.Resources.Disk > 0: // what was there before would count
		return
	case r.on != nil && (r.on.Machine().Fresh && r.on.Machine().Volume == "" || !r.on.Capabilities().KeepProject):
		return
	case r.on == nil && (r.uses == nil || !r.uses.executor.Capabilities().KeepProject):
		return
	case r.rank < executor.Container.Rank() && what.Root == "": // a folder for temporary files
		return
	case r.rank >= executor.Container.Rank() && !docker.KeepsProjects(settings.Docker):
		return
	}
	owner := r.owner(settings, what.User)
	if r.on != nil && r.on.Machine().Volume != "" { // nobody else of the project is there
		owner.ProjectSlot = 0
	}
	what.KeepProject = owner.Name()
}

// otherUser is a user by the name in the configuration; empty if that is the user of this process.
func otherUser(name string) string {
	if self, err := user.Current(); err == nil && (name == self.Username || name == self.Uid) {
		return ""
	}
	return name
}

// limit lowers what a job, and each of its services, may use to what the policy says.
func limit(what *executor.Job, p *config.Policy) {
	lower(&what.Resources, p)
	if len(what.Services) > 0 {
		lower(&what.ServiceResources, p)
	}
}

func lower(r *executor.Resources, p *config.Policy) {
	if p.Memory > 0 && (r.Memory == 0 || p.Memory < r.Memory) {
		r.Memory, r.Swap = p.Memory, 0
	}
	if p.Processes > 0 && (r.PIDs == 0 || int64(p.Processes) < r.PIDs) {
		r.PIDs = int64(p.Processes)
	}
	if p.CPUs > 0 && (r.CPU == 0 || p.CPUs < r.CPU) {
		r.CPU = p.CPUs
	}
}
