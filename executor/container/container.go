// Package container is the level of containers: a job's image, and services beside it, in Docker or Podman, through the API of
// the engine.
//
// The step-runner is copied into the job's container and is its main process. Files go in and out through the engine, too: nothing
// of this machine is mounted, and nothing on it can belong to a container's root.
//
//	this program ──API──> engine ──> job's container:  /opt/rung/bin/step-runner serve
//	     '── Connect: exec `step-runner proxy` in it, whose input and output are the connection
//	                             └─> services' containers, on a network of the job
package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/ledger"
)

const (
	// ledgerName is what the ledgers of this level are called.
	ledgerName = "container"
	// label is on all that is made, and its value is the environment's name.
	label = "rung.environment"
	// jobLabel is on it for people.
	jobLabel = "rung.job"
	// cleanupTime bounds the removal of an environment that could not be prepared, and of one that is swept.
	cleanupTime = time.Minute
	// createTime bounds a call that makes something and must not be given up half way.
	createTime = 2 * time.Minute
)

// Options say how containers are made. The zero value is the usual way.
type Options struct {
	// Host is the machine that the engine is reached from; nil is this one.
	Host host.Host
	// Engine is the one to use, its address as Host sees it; nil is the one that DetectOn finds.
	Engine *Engine
	// Program finds the file of the step-runner for an engine's system and architecture, as GOOS and GOARCH have them. It must need
	// no libraries. Nil is this program, where it fits.
	Program func(system, arch string) (file string, err error)
	// Env is the user's environment, which says where the engine is and where credentials are; nil is this program's.
	Env []string
	// State is the folder that says, across processes, what is to be cleaned up; empty is ledger.Folder().
	State string
	// PullPolicies are those of images that name none; empty is if-not-present.
	PullPolicies []string
	// Labels are on all that is made, beside the level's own.
	Labels map[string]string
	// Privileged gives containers all rights on the engine's machine, as Docker in Docker needs.
	Privileged bool
	// ServiceWait is how long a service may take until its port can be connected to; 0 is DefaultServiceWait, less than 0 does not
	// wait.
	ServiceWait time.Duration
}

// Executor makes environments of this level.
type Executor struct {
	opts    Options
	engine  *Engine
	client  *engine.Client
	program string
	system  string // "linux"
	arch    string // "amd64"

	opening sync.Mutex
	book    *ledger.Ledger
}

// New finds the engine and makes the level. The error is ErrNoEngine where there is none.
func New(ctx context.Context, o Options) (*Executor, error) {
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Program == nil {
		o.Program = thisProgram
	}
	if len(o.PullPolicies) == 0 {
		o.PullPolicies = []string{IfNotPresent}
	}
	if o.ServiceWait == 0 {
		o.ServiceWait = DefaultServiceWait
	}
	var err error
	if o.State == "" {
		if o.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	e := &Executor{opts: o, engine: o.Engine}
	switch {
	case e.engine == nil:
		if e.engine, err = DetectOn(ctx, o.Host, o.Env); err != nil {
			return nil, err
		}
	case !isLocal(o.Host):
		e.engine = &Engine{Host: o.Engine.Host, From: o.Engine.From, tls: o.Engine.tls, on: o.Host}
	}
	if e.client, err = e.engine.connect(); err != nil {
		return nil, err
	}
	return e, nil
}

// thisProgram is this program, where it runs on the system and architecture.
func thisProgram(system, arch string) (string, error) {
	if system != runtime.GOOS || arch != runtime.GOARCH {
		return "", fmt.Errorf("this program is for %s/%s, and the engine's containers are %s/%s", runtime.GOOS, runtime.GOARCH, system, arch)
	}
	return os.Executable()
}

// Level returns executor.Container.
func (e *Executor) Level() executor.Level { return executor.Container }

// Capabilities says what the level can do.
func (e *Executor) Capabilities() executor.Capabilities {
	return executor.Capabilities{Image: true, Services: true, Reattach: true}
}

// Engine is the engine that is used.
func (e *Executor) Engine() *Engine { return e.engine }

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
	if e.program, err = e.opts.Program(version.Os, version.Arch); err != nil {
		return fmt.Errorf("finding a step-runner for the containers of %s: %w", e.engine, err)
	}
	e.system, e.arch = version.Os, version.Arch
	e.book, err = ledger.Open(e.opts.State, ledgerName)
	return err
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

// errElsewhere keeps the entries of engines that are not this one for those who use them.
var errElsewhere = errors.New("made by another engine")

// Sweep removes the containers, networks and volumes of environments in this engine whose process was killed.
func (e *Executor) Sweep(ctx context.Context) error {
	var problems []error
	err := ledger.Sweep(e.opts.State, ledgerName, func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil || it.Name == "" {
			return nil // nothing that this level wrote
		}
		if it.Host != e.engine.place() {
			return errElsewhere
		}
		ctx, cancel := context.WithTimeout(ctx, cleanupTime)
		defer cancel()
		err := e.remove(ctx, it.Name, removal{})
		if err != nil {
			problems = append(problems, err)
		}
		return err
	})
	if err != nil && len(problems) == 0 && errors.Is(err, errElsewhere) {
		return nil
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	return err
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
