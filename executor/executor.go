// Package executor is the contract of where a job runs.
//
// An Executor stands for one level of isolation. Whatever the level, it hands back the same thing: an Environment, in which a
// step-runner waits for steps. All that follows (the log, cancelling, coming back after a lost connection) goes through the
// connection to it, and is the same on every level.
//
//	Job ──> Executor.Prepare ──> Environment ──> Connect ──> step-runner (steps/service/client)
//	                                  │
//	                                  '── Send, Fetch: files; Shell: a person; Close: nothing is left
//
// Packages below this one are the levels; executor/executortest is the suite that all of them pass.
package executor

import (
	"context"
	"io"
	"net"
	"time"
)

// Level names a level of isolation.
type Level string

// The levels, from the weakest to the strongest.
const (
	None      Level = "none"      // a process of this machine
	CGroup    Level = "cgroup"    // a process whose resources are bounded
	Container Level = "container" // a container of Docker or Podman
	Sandbox   Level = "sandbox"   // a container with a kernel of its own in user space
	MicroVM   Level = "microvm"
	VM        Level = "vm"
	Instance  Level = "instance" // a whole machine
)

// Executor makes environments of one level. Its methods are safe for concurrent use.
type Executor interface {
	Level() Level
	Capabilities() Capabilities
	// Prepare makes an environment for a job and starts a step-runner in it. What takes time is reported, a line each, for
	// people; report may be called by several goroutines. When Prepare fails or ctx ends, nothing is left of the environment.
	// The error is a *UserError where the job is why (an image that is not there), and else the system's.
	Prepare(ctx context.Context, job *Job, report func(line string)) (Environment, error)
	// Sweep removes what environments have left whose process was killed. It touches nothing of processes that live.
	Sweep(ctx context.Context) error
	// Close ends the executor. Environments must have been closed before.
	Close() error
}

// Environment is where one job runs.
type Environment interface {
	// Layout says where things are in the environment.
	Layout() Layout
	// Connect opens a stream to the step-runner in the environment. It can be called again when a connection is lost.
	Connect(ctx context.Context) (net.Conn, error)
	// Send unpacks a tar archive below dir, an absolute path in the environment, which is made. Files belong to the job's user.
	Send(ctx context.Context, dir string, archive io.Reader) error
	// Fetch writes the file or folder at path to archive as a tar archive, whose names start with the last element of path.
	// The error is fs.ErrNotExist where there is none.
	Fetch(ctx context.Context, path string, archive io.Writer) error
	// Shell runs an interactive command in the environment, connected to a person's terminal, and returns its exit code.
	Shell(ctx context.Context, shell *Shell) (exitCode int, err error)
	// Close ends all that runs in the environment and removes it. ctx bounds how long that may take. Closing again does nothing.
	Close(ctx context.Context) error
}

// Layout is where things are in an environment. Paths are absolute, in the environment's own form.
type Layout struct {
	// Name is what people find the environment by who look for it with tools of their own: the name of its container. It is empty
	// where the folders say all.
	Name string
	// Project is the folder for the job's files, CI_PROJECT_DIR. It exists and is empty.
	Project string
	// Temp is a folder beside it for files that are none of the project's. It exists, and only the job's user may enter it.
	Temp string
	// Bin is a folder that holds a program called step-runner; it is for PATH.
	Bin string
	// Env are variables that steps need in this environment, PATH not among them.
	Env map[string]string
	// Shared says that paths of this machine are the environment's too: files need not be sent.
	Shared bool
	// Images are what the images of the job turned out to be: the job's own, then those of its services in order. It is empty for levels
	// without images.
	Images []FoundImage
}

// FoundImage is an image that an environment was made of.
type FoundImage struct {
	ID   string // what it holds, as its engine names that: "sha256:…"
	Pull string // the name by which its registry gives the same: "registry/name@sha256:…"; empty where it is of no registry
}

// Job is what a level needs to know of a job to make a place for it.
type Job struct {
	// ID names the job among those that this process runs: letters, digits, - and _. It appears in the names of what is made.
	ID string
	// ProjectName is what the project's folder is called.
	ProjectName string
	// Image is nil for a job that names none.
	Image    *Image
	Services []Service
	// Variables are the job's variables, expanded; services get them.
	Variables map[string]string
	// Registries are credentials for registries of images.
	Registries []Registry
	// Root is a folder of this machine below which levels without files of their own (None) make the project's. Empty is one
	// for temporary files.
	Root string
	// Keep says that Close should leave the files, for people to look at.
	Keep bool
}

// Image is a container image and how it is run.
type Image struct {
	Name       string
	Entrypoint []string // nil is the image's own
	// PullPolicies are always, if-not-present and never, tried in this order; empty is the executor's.
	PullPolicies []string
	Platform     string // "linux/arm64"; empty is the engine's
	User         string // empty is the image's
}

// Service is a container beside the job's.
type Service struct {
	Image
	// Aliases are the names under which the job reaches it, beside those made of the image's name.
	Aliases   []string
	Command   []string
	Variables map[string]string
	// Health says how the service is known to be ready; nil tries its port.
	Health *Health
	// Ports are TCP ports of the service that lead to this machine's loopback address, each to the port there; 0 is any. They are for
	// ServiceStarter.
	Ports map[uint16]uint16
}

// Health is a command in a container that succeeds when all is well. What is 0 is the engine's own.
type Health struct {
	Command                        string // shell text
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

// ServiceStarter is a level that can run services for a job that runs somewhere else on this machine.
type ServiceStarter interface {
	// StartServices starts the services of a job and waits for them, as Executor.Prepare does.
	StartServices(ctx context.Context, job *Job, report func(line string)) (Services, error)
}

// Services are those of one job.
type Services interface {
	// Ports are the ports of the service with the number, from 0 on: each of the service, and that of this machine which leads to it.
	Ports(service int) map[uint16]uint16
	// Close removes them. Closing again does nothing.
	Close(ctx context.Context) error
}

// Registry is how to get into a registry of images.
type Registry struct {
	Host, Username, Password string
}

// Shell is an interactive command.
type Shell struct {
	// Args is the command; nil is the shell that is there.
	Args []string
	Dir  string
	Env  []string // NAME=value, over the environment's own
	// Stdin, Stdout and Stderr are the person's.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that they are a terminal, in raw mode; Resize then sends its size, first of all the present one.
	Terminal bool
	Resize   <-chan Size
}

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// UserError is an error that the job, not the system, is the reason of.
type UserError struct {
	Message string
	Hint    string
	Err     error
}

func (e *UserError) Error() string { return e.Message }

// Unwrap returns the error below.
func (e *UserError) Unwrap() error { return e.Err }
