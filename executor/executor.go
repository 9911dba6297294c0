// Package executor is the contract of where a job runs.
//
// An Executor makes environments of one level of isolation, on one host. Whatever the level and the host, it hands back the same
// thing: an Environment with a step-runner in it. What follows (logs, cancellation, reconnecting, taking over) goes through the
// connection to that step-runner and is the same everywhere; package session does it.
//
//	Job ──> Executor.Prepare ──> Environment ──> Connect ──> step-runner (steps/service/client)
//	                                  │  │
//	                                  │  └── Handle ──> another process ──> Executor.Recover ──> the same Environment
//	                                  ├── Send, Fetch: files · Shell: a person · Done: it ended · Close: nothing is left
//
// Packages below this one are the levels; executor/levels lists them, and executor/executortest is the suite that they all pass.
package executor

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"time"
)

// Executor makes environments of one level on one host. Its methods are safe for concurrent use.
type Executor interface {
	Level() Level
	Capabilities() Capabilities
	// Prepare makes an environment for a job and starts a step-runner in it. report may be nil. When Prepare fails or ctx ends,
	// nothing of the environment is left, or a *LeftError is part of the error. The error is a *UserError where the job is the reason (an image that does not exist), a
	// *Refusal where the level cannot do what the job asks for, and otherwise an internal error.
	Prepare(ctx context.Context, job *Job, report Reporter) (Environment, error)
	// Recover takes over an environment that another process prepared under the same lease. ErrOwned says that that process
	// still runs, and ErrGone that the environment no longer exists.
	Recover(ctx context.Context, handle Handle) (Environment, error)
	// Sweep removes what is left of environments whose lease has ended. It touches nothing of living owners.
	Sweep(ctx context.Context) error
	// Close ends the executor. Environments must have been closed or detached before.
	Close() error
}

// Environment is where one job runs. Its methods are safe for concurrent use.
type Environment interface {
	// Layout says where things are in the environment.
	Layout() Layout
	// Handle identifies the environment to Executor.Recover in another process.
	Handle() Handle
	// Done is closed when the environment has ended, by itself or by Close. Every call that is under way then fails within
	// seconds. A level may notice late: Check asks.
	Done() <-chan struct{}
	// Err is nil until Done is closed, and then a *Gone that says what happened.
	Err() error
	// Check asks the host how the environment is. It returns nil while the environment can run steps, a *Gone when it cannot
	// (it has ended, it is paused), and another error when the host does not answer.
	Check(ctx context.Context) error
	// Connect opens a stream to the step-runner in the environment. It can be called again when a connection is lost. The
	// error is ErrGone when there is nothing to connect to any more.
	Connect(ctx context.Context) (net.Conn, error)
	// Send unpacks a tar archive below dir, an absolute path in the environment, which is created. Files belong to the job's user.
	Send(ctx context.Context, dir string, archive io.Reader) error
	// Fetch writes the file or folder at path to archive as a tar archive whose names start with the last element of path.
	// The error is fs.ErrNotExist if nothing is there. The content is untrusted and unbounded: the caller sets limits.
	Fetch(ctx context.Context, path string, archive io.Writer) error
	// Shell runs an interactive command in the environment, connected to a person's terminal, and returns its exit code. The error is
	// errors.ErrUnsupported where the level is a plugin that has no shells.
	Shell(ctx context.Context, shell *Shell) (exitCode int, err error)
	// Detach gives the environment up without ending it, for a successor that recovers it. Only environments of a lease that
	// outlives its process can be detached; others return an error and stay as they are.
	Detach() error
	// Close ends everything that runs in the environment and removes it. ctx bounds how long that may take. Closing again does
	// nothing.
	Close(ctx context.Context) error
}

// Handle identifies an environment across processes. It holds no secrets and can be stored as JSON.
type Handle struct {
	Level Level  `json:"level"`
	Host  string `json:"host"` // host.Host.Name of the machine
	ID    string `json:"id"`   // the environment's own name
	// State is what the level needs to find the environment again.
	State json.RawMessage `json:"state,omitempty"`
}

// Layout is where things are in an environment. Paths are absolute, in the form of the environment's own system.
type Layout struct {
	// Name is how people find the environment with tools of their own: the name of its container. It is empty where the folders
	// say everything.
	Name string
	// Project is the folder for the job's files, CI_PROJECT_DIR. It exists, and is empty unless Job.KeepProject found an earlier
	// job's files.
	Project string
	// Temp is a folder beside Project for files that do not belong to the project. Only the job's user may enter it.
	Temp string
	// Bin is a folder for PATH that holds a program called step-runner.
	Bin string
	// Env are variables that steps need in this environment, PATH not among them.
	Env map[string]string
	// Shared says that the environment's paths are paths on this machine: files need not be sent.
	Shared bool
	// Images are the images that the environment was made of: the job's, then those of its services in order. It is empty on
	// levels without images.
	Images []FoundImage
}

// FoundImage is an image that an environment was made of.
type FoundImage struct {
	ID   string // the engine's name of its content: "sha256:…"
	Pull string // the name under which its registry serves the same content: "registry/name@sha256:…"; empty if it has no registry
}

// Readier is a level that can make a part of environments before anybody asks for them.
type Readier interface {
	// Ready returns when so many environments can be prepared without that part being waited for, or that cannot be had now, or ctx ends. It is
	// called again and again: what was made for more than that, and is not needed, ends in time.
	Ready(ctx context.Context, n int)
}

// Prober is a level that knows whether environments could be prepared now, without preparing one.
type Prober interface {
	// Probe asks the host, finds the step-runner, and tries what all jobs have in common: least has no more than that. Levels that have no use for least.User
	// and least.Root ignore them. The error says in one sentence what is missing.
	Probe(ctx context.Context, least *Job) error
}

// ServiceStarter is a level that can run services for a job that runs elsewhere on the same host.
type ServiceStarter interface {
	// StartServices starts the services of a job and waits for them, as Executor.Prepare does.
	StartServices(ctx context.Context, job *Job, report Reporter) (Services, error)
}

// Services are those of one job.
type Services interface {
	// Ports maps the ports of the service with this index to ports on the host.
	Ports(service int) map[uint16]uint16
	// Images are the images that they were made of, in their order.
	Images() []FoundImage
	// Close removes them. Closing again does nothing.
	Close(ctx context.Context) error
}

// Shell is an interactive command.
type Shell struct {
	// Args is the command; nil is the environment's own shell.
	Args []string
	Dir  string
	Env  []string // NAME=value, over the environment's own
	// Clean keeps back what a level without images would else give of this program's own environment, beyond what steps get of it: the person
	// is not who started this program.
	Clean bool
	// Stdin, Stdout and Stderr are the person's.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Terminal says that they are a terminal, in raw mode; Resize then sends its size, first of all the present one.
	Terminal bool
	Resize   <-chan Size
}

// Size is that of a terminal, in characters.
type Size struct{ Columns, Rows uint16 }

// Keeper is a level that knows which project folders it keeps between jobs.
type Keeper interface {
	// Kept names them, oldest first.
	Kept(ctx context.Context) ([]KeptProject, error)
	// Forget removes one by its Place. The error is ErrInUse while a job has it.
	Forget(ctx context.Context, place string) error
}

// KeptProject is a project folder that is kept between jobs.
type KeptProject struct {
	Name  string // Job.KeepProject
	Place string // where it is, in the words of the level: the name of a volume
	Made  time.Time
}
