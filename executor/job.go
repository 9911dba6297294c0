package executor

import (
	"fmt"
	"strings"

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
	// Variables are the job's public variables, expanded; services get them. Masked variables and files must not be among them:
	// what a service prints is shown as it is.
	Variables map[string]string
	// Masked are the values to be masked in what services print.
	Masked []string
	// Registries are credentials for registries of images.
	Registries []containers.Registry
	// Root is a folder on the host below which levels without files of their own (None) make the project's folder. Empty is a
	// temporary folder.
	Root string
	// Keep says that Close should leave the files, for people to look at.
	Keep bool
	// KeepProject, if not empty, names the project folder that is kept for the next job of the same name: letters, digits, - and _.
	// The folder then holds what the last job left (GIT_STRATEGY: fetch). Two jobs never have it at once.
	KeepProject string

	Resources        Resources
	ServiceResources Resources // of each service
	Network          NetworkPolicy
	Privileged       bool   // give the job and its services all rights on the host's kernel, as Docker in Docker needs
	User             string // the user to run the job as; empty is the image's, or this process's
}

// Resources bound what a job may use. 0 means no limit.
type Resources struct {
	CPU    float64 // processors
	Memory int64   // bytes
	PIDs   int64   // processes and threads
	Disk   int64   // bytes of files that the job makes
}

// NetworkPolicy is what a job may reach.
type NetworkPolicy string

// The policies. Private address ranges and the metadata services of clouds are not part of the public network.
const (
	NetworkDefault NetworkPolicy = ""       // the host's own rules
	NetworkNone    NetworkPolicy = "none"   // nothing but the job's services
	NetworkPublic  NetworkPolicy = "public" // the public network only
)

// maxID bounds Job.ID and Job.KeepProject, so that names made of them fit everywhere (a host name has 63 characters).
const maxID = 40

// Validate returns an error when names on the host cannot be made of the job's ID, ProjectName and KeepProject. Levels call it first.
func (j *Job) Validate() error {
	if !isID(j.ID) {
		return fmt.Errorf("a job's ID must be 1 to %d letters, digits, - and _, not %q", maxID, j.ID)
	}
	if j.KeepProject != "" && !isID(j.KeepProject) {
		return fmt.Errorf("the name of a kept project folder must be 1 to %d letters, digits, - and _, not %q", maxID, j.KeepProject)
	}
	// One folder on any system: the host's rules may differ from this machine's.
	if j.ProjectName == "" || j.ProjectName == "." || j.ProjectName == ".." || strings.ContainsAny(j.ProjectName, "/\\:\x00\n") {
		return fmt.Errorf("the project's folder cannot be called %q: that is not the name of a folder", j.ProjectName)
	}
	return nil
}

func isID(text string) bool {
	return text != "" && len(text) <= maxID && !strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(idCharacters, r) })
}

const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
