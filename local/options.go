package local

import (
	"context"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/steps/plan"
)

// Isolation says where jobs run.
type Isolation string

// The ways.
const (
	// IsolateAuto runs jobs that ask for a container in one if there is an engine, and others on this machine.
	IsolateAuto Isolation = "auto"
	// IsolateNone runs jobs on this machine.
	IsolateNone Isolation = "none"
	// IsolateContainer runs jobs in containers.
	IsolateContainer Isolation = "container"
)

// Options say how jobs are run, whatever language they are written in.
type Options struct {
	// Concurrency is how many jobs run at a time; less than 1 is 1.
	Concurrency int
	Isolation   Isolation
	// Limits are what every job may use and reach. Privileged lets jobs in containers have all rights on the kernel.
	Limits     Limits
	Privileged bool
	// None makes the level without isolation, Container that of containers. Each is called once, when a job needs it. Container may
	// be nil. The levels are the caller's to close.
	None, Container func() (executor.Executor, error)
	// Locked refuses images without a digest.
	Locked bool
	// HostEnv is the environment of steps on this machine, under what the job says. Those in containers have none of it.
	HostEnv map[string]string
	// NoServices runs jobs without their services if there is no engine for them.
	NoServices bool
	// Keep leaves the folders of jobs.
	Keep bool
	// Shell is called with the environment of a job that failed, before it is removed. It may be nil.
	Shell func(context.Context, ShellJob)
	// Trace returns the file for the trace of a job; "" and nil are the store's.
	Trace func(job string) string
	// Confine says which steps of jobs are confined besides those that ask for it; "" is none.
	Confine plan.Confinement
	// Grace is how long processes have to end when they are stopped; 0 is the default.
	Grace time.Duration
	// InheritEnv gives the components in jobs the whole environment around their steps.
	InheritEnv bool
	// Kill is closed to end everything at once; it may be nil.
	Kill <-chan struct{}
	// RuntimeDigest returns the digest of this program, for traces; it may be nil.
	RuntimeDigest     func() string
	Version, Revision string
	Observer          Observer
	// Everything passes all events of steps on unchanged, for programs; people see a step of the catalog as one step.
	Everything bool
	// Color says that what is observed is shown in colours: without it those of scripts are removed.
	Color bool
	// Verbose reports more.
	Verbose bool
}

// ShellJob is the environment of a job that failed.
type ShellJob struct {
	Name        string
	Environment executor.Environment
	Dir         string
	Env         []string
}
