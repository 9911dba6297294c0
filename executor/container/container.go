// Package container is the isolation level of containers: it runs a job in its image, with its services, in Docker or Podman, through
// the engine's API.
//
// The step-runner is the main process of the job's container, from a volume that jobs mount read-only. Files go in
// and out through the engine: nothing on this machine is mounted, and nothing on it can belong to a container's root.
//
//	this program ──API──> engine ──> job's container:  /opt/rung/bin/step-runner serve
//	     '── Connect: its input and output, once; then exec `step-runner proxy` in it, whose input and output are the connection
//	                             └─> services' containers, on a network of the job
package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/ledger"
)

const (
	// label is on all that is made, and its value is the environment's name.
	label = "rung.environment"
	// jobLabel is on it for people.
	jobLabel = "rung.job"
	// cleanupTime bounds the removal of an environment that could not be prepared, and of one that is swept.
	cleanupTime = time.Minute
	// createTime bounds a call that makes something and must not be given up half way.
	createTime = 2 * time.Minute
)

// Definition is the level's row in the registry.
var Definition = executor.Definition{
	Level:   executor.Container,
	Summary: "a container of Docker or Podman, with the job's image and services",
	Open: func(ctx context.Context, setup executor.Setup) (executor.Executor, error) {
		return New(ctx, setup, Options{})
	},
}

// Options are the level's own. The zero value is the usual way.
type Options struct {
	// Engine is the one to use, its address as the host sees it; nil is the one that DetectOn finds.
	Engine *Engine
	// Runtime is the OCI runtime of the job's containers, one that the engine knows by this name; empty is the engine's default. Services
	// have it too.
	Runtime string
	// OwnNames says that containers of the runtime cannot reach the engine's name server, which is in the network stack of the host's kernel: the
	// names of services are put into hosts files, and the job's container asks the name servers of the engine's machine.
	OwnNames bool
	// Level is what the level is called that the runtime makes of it; empty is executor.Container. Ledgers are named for it.
	Level executor.Level
	// Privileged says which jobs' containers get all rights on the engine's machine, and PrivilegedServices which of their services.
	Privileged, PrivilegedServices Privilege
	// Job and Services are what the containers of jobs, and of their services, have of the engine's machine beyond that.
	Job, Services engine.Machine
	// ServiceDevices are devices of services, by pattern of their image.
	ServiceDevices map[string][]engine.Device
	Volumes        Volumes
	Network        Network
	// ContainerLabels are on containers; $NAME in a value is a variable of the job.
	ContainerLabels map[string]string
	// KeepEntrypoint leaves images their entrypoint, whatever a job says.
	KeepEntrypoint bool
	// NamedImages finds images by their names alone. Engines would take an id as well, and the beginning of one, by which a job may use what
	// somebody else has pulled.
	NamedImages bool
	// ServiceWait is how long a service may take until its port can be connected to; 0 is DefaultServiceWait, less than 0 does not
	// wait.
	ServiceWait time.Duration
}

// Executor makes environments of this level.
type Executor struct {
	setup   executor.Setup
	opts    Options
	engine  *Engine
	client  *engine.Client
	program *program
	system  string // "linux"
	arch    string // "amd64"

	opening sync.Mutex
	book    *ledger.Ledger
}

// New finds the engine and makes the level. The error is ErrNoEngine where there is none.
func New(ctx context.Context, setup executor.Setup, o Options) (*Executor, error) {
	if setup.Env == nil {
		setup.Env = os.Environ()
	}
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	if len(setup.PullPolicies) == 0 {
		setup.PullPolicies = []string{IfNotPresent}
	}
	if o.Level == "" {
		o.Level = executor.Container
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.ServiceWait == 0 {
		o.ServiceWait = DefaultServiceWait
	}
	var err error
	if setup.State == "" {
		if setup.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	e := &Executor{setup: setup, opts: o, engine: o.Engine}
	switch {
	case e.engine == nil:
		if e.engine, err = detectOn(ctx, setup); err != nil {
			return nil, err
		}
	case !isLocal(setup.Host):
		e.engine = &Engine{Host: o.Engine.Host, From: o.Engine.From, tls: o.Engine.tls, on: setup.Host}
	}
	if e.client, err = e.engine.connect(); err != nil {
		return nil, err
	}
	return e, nil
}

// Level returns executor.Container, or Options.Level.
func (e *Executor) Level() executor.Level { return e.opts.Level }

// Capabilities says what the level can do.
func (e *Executor) Capabilities() executor.Capabilities {
	return executor.Capabilities{Image: true, Services: true, Reattach: true, Resources: true, Disk: true, Privileges: true, User: true, KeepProject: true,
		Networks: []executor.NetworkPolicy{executor.NetworkNone, executor.NetworkPublic, executor.NetworkHosts}}
}

// Engine is the engine that is used.
func (e *Executor) Engine() *Engine { return e.engine }

// HasRuntime reports whether the engine knows an OCI runtime of the name.
func (e *Executor) HasRuntime(ctx context.Context, name string) (bool, error) {
	info, err := e.client.Info(ctx)
	if err != nil {
		return false, e.unreachable(ctx, err)
	}
	_, known := info.Runtimes[name]
	return known, nil
}

// begin asks the engine what it is and opens the ledger, once.
func (e *Executor) begin(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		return nil
	}
	version, err := e.client.Version(ctx)
	if err != nil {
		return e.unreachable(ctx, err)
	}
	if version.Os != "linux" {
		return fmt.Errorf("the engine at %s runs %s containers, and jobs need Linux ones; switch it over", e.engine, version.Os)
	}
	path, err := e.setup.Program(version.Os, version.Arch)
	if err != nil {
		return fmt.Errorf("finding a step-runner for the containers of %s: %w", e.engine, err)
	}
	e.program = &program{path: path, shared: version.Docker(), digest: sync.OnceValues(func() (string, error) { return hashFile(path) })}
	if e.program.shared {
		go func() { _, _ = e.program.digest() }() // beside what is done until it is needed
	}
	e.system, e.arch = version.Os, version.Arch
	e.book, err = ledger.Open(e.setup.State, string(e.opts.Level), ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep, Elsewhere: e.setup.Lease.Elsewhere})
	return err
}

// Probe implements executor.Prober: the engine answers.
func (e *Executor) Probe(ctx context.Context, _ *executor.Job) error {
	if err := e.begin(ctx); err != nil {
		return err
	}
	if err := e.client.Ping(ctx); err != nil {
		return e.unreachable(ctx, err)
	}
	return nil
}

// unreachable is the error of a call that the engine did not answer.
func (e *Executor) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if engine.Unreachable(err) {
		return fmt.Errorf("the container engine at %s does not answer: %w; start it, or run the job without containers", e.engine, err)
	}
	return fmt.Errorf("the container engine at %s: %w", e.engine, err)
}

// entry is what the ledger holds of an environment.
type entry struct {
	Host string `json:"host"` // of the engine
	Name string `json:"name"` // of the environment, the value of its label
}

func (e *Executor) entry(name string) string {
	text, _ := json.Marshal(entry{Host: e.engine.place(), Name: name}) // strings alone cannot fail
	return string(text)
}

// Sweep removes the containers, networks and volumes of environments in this engine whose process was killed.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.setup.State, string(e.opts.Level), func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil || it.Name == "" {
			return nil // nothing that this level wrote
		}
		if it.Host != e.engine.place() {
			return ledger.ErrElsewhere
		}
		ctx, cancel := context.WithTimeout(ctx, cleanupTime)
		defer cancel()
		return e.remove(ctx, it.Name, removal{})
	})
}

// Close ends the level's connection to the engine.
func (e *Executor) Close() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	var err error
	if e.book != nil {
		err = e.book.Close()
	}
	err = errors.Join(err, e.client.Close())
	e.engine.close()
	return err
}
