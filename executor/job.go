package executor

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/rungci/rung/internal/egress"
	"github.com/rungci/rung/steps/containers"
)

// Job is what a level needs to know of a job to make an environment for it.
type Job struct {
	// ID names the job among those that this process runs: letters, digits, - and _. It is part of the names of what is made.
	ID string
	// ProjectName is the name of the project's folder.
	ProjectName string
	// Image is nil for a job without one.
	Image    *containers.Image
	Services []containers.Service
	// ImageEnv gives steps the environment that the image's entrypoint hands over (its HOME, and what it exports), as GitLab does. Without
	// it they have a home of their own, and the image's variables.
	ImageEnv bool
	// Variables are the job's that are not secret, expanded; services get them. Masked variables and files must not be among them:
	// what a service prints is shown as it is.
	Variables map[string]string
	// Private are the names of Variables that services do not get all the same: on GitLab those of settings.
	Private []string
	// Masked are the values to be masked in what services print.
	Masked []string
	// Registries are credentials for registries of images.
	Registries []containers.Registry
	// Root is a folder on the host below which levels without files of their own (None) make the project's folder. Empty is a
	// temporary folder. Levels of containers have there what KeepProject and KeepVolumes name; empty is where the level keeps it.
	Root string
	// Keep says that Close should leave the files, for people to look at.
	Keep bool
	// KeepProject, if not empty, names the project folder that is kept for the next job of the same name: letters, digits, - and _.
	// The folder then holds what the last job left (GIT_STRATEGY: fetch). Two jobs never have it at once.
	KeepProject string
	// KeepVolumes, if not empty, names what levels with volumes keep for the next job of the same name, in the folders that the operator
	// chooses: letters, digits, - and _. The caller sees to it that two jobs never have it at once.
	KeepVolumes string

	// Driver is what a level with Capabilities.Driver tells its driver of the job; nil is Variables. Plugins are not told.
	Driver *DriverFacts

	Resources        Resources
	ServiceResources Resources // of each service
	Network          NetworkPolicy
	// Slot is the control group in which that of the job is made, as cgroup.Slot has it: its limits hold for the job, too. Empty is none.
	Slot       string
	Privileged bool   // give the job and its services all rights on the host's kernel, as Docker in Docker needs
	User       string // the user to run the job as; empty is the image's, or this process's
}

// ServiceVariables are those of Variables that services get. The map is the caller's.
func (j *Job) ServiceVariables() map[string]string {
	out := maps.Clone(j.Variables)
	for _, name := range j.Private {
		delete(out, name)
	}
	return out
}

// DriverFacts are what a driver of GitLab's custom executor is told of a job. They hold secrets.
type DriverFacts struct {
	// Variables are all of the job's, expanded, by their names without a prefix. builds is the folder in the place below which jobs have theirs; ""
	// is not known yet. The map is the caller's.
	Variables func(builds string) map[string]string
	// Response is the job as GitLab sent it, in JSON.
	Response []byte
}

// Resources bound what a job may use. 0 and "" mean no limit.
type Resources struct {
	CPU    float64 // processors
	Memory int64   // bytes
	Swap   int64   // bytes of swap space beyond Memory; 0 is none where Memory has a limit, and a job without that has none
	PIDs   int64   // processes and threads
	Disk   int64   // bytes of files that the job makes
	CPUSet string  // the processors that it may use, as "0-3,6"
	Read   int64   // bytes a second from the disk with the project's folder
	Write  int64   // and to it
	Parent string  // the control group that a container engine makes the container's in, as that engine names groups; empty is the engine's own. Plugins are not told
}

// NetworkPolicy is what a job may reach beyond its services: one of the constants, or a list of hosts and addresses as egress.Parse reads it.
type NetworkPolicy string

// The policies. Private address ranges and the metadata services of clouds are not part of the public network.
const (
	NetworkDefault NetworkPolicy = ""       // the host's own rules
	NetworkNone    NetworkPolicy = "none"   // nothing
	NetworkPublic  NetworkPolicy = "public" // the public network only
	// NetworkHosts stands for every list, in Capabilities.Networks.
	NetworkHosts NetworkPolicy = "hosts"
)

// Kind is the policy as Capabilities.Networks has it.
func (p NetworkPolicy) Kind() NetworkPolicy {
	switch p {
	case NetworkDefault, NetworkNone, NetworkPublic:
		return p
	}
	return NetworkHosts
}

// Proxied reports whether a job reaches others through a proxy alone, which holds it to its policy.
func (p NetworkPolicy) Proxied() bool { return p.Kind() == NetworkPublic || p.Kind() == NetworkHosts }

// maxID bounds Job.ID and Job.KeepProject, so that names made of them fit everywhere (a host name has 63 characters).
const maxID = 40

// Validate returns an error when names on the host cannot be made of the job's ID, ProjectName and KeepProject, or its network policy is none.
// Levels call it first.
func (j *Job) Validate() error {
	if !isID(j.ID) {
		return fmt.Errorf("a job's ID must be 1 to %d letters, digits, - and _, not %q", maxID, j.ID)
	}
	if j.KeepProject != "" && !isID(j.KeepProject) {
		return fmt.Errorf("the name of a kept project folder must be 1 to %d letters, digits, - and _, not %q", maxID, j.KeepProject)
	}
	if j.KeepVolumes != "" && !isID(j.KeepVolumes) {
		return fmt.Errorf("the name of kept volumes must be 1 to %d letters, digits, - and _, not %q", maxID, j.KeepVolumes)
	}
	// One folder on any system: the host's rules may differ from this machine's.
	if j.ProjectName == "" || j.ProjectName == "." || j.ProjectName == ".." || strings.ContainsAny(j.ProjectName, "/\\:\x00\n") {
		return fmt.Errorf("the project's folder cannot be called %q: that is not the name of a folder", j.ProjectName)
	}
	if j.Network.Kind() == NetworkHosts {
		policy, err := egress.Parse(string(j.Network))
		if err == nil && policy.All() {
			err = errors.New("a job that may reach everything has no network policy")
		}
		return err
	}
	return nil
}

func isID(text string) bool {
	return text != "" && len(text) <= maxID && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(idCharacters, r) })
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
