// Package kubernetes runs a job as a pod of a cluster, through its API server alone.
//
// The pod's containers are the job's image, whose main process is the step-runner, and those of its services. An init container brings the
// step-runner into a volume that the job's container mounts read-only: it copies itself from an image that the operator names, or it is
// streamed there through the API server.
//
//	this program ──HTTPS──> API server ──> node:  pod
//	     '── Connect: exec `step-runner proxy`      ├── init: step-runner → volume
//	                                                ├── svc-0, svc-1 …  (localhost of the job)
//	                                                └── build: step-runner serve
//
// How strong the isolation is, is the cluster's to say: a pod is a container, and a runtime class may make it a sandbox.
//
// Source: Kubernetes v1.34, and executors/kubernetes in gitlab-runner 19.4.
package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/internal/kube"
)

const (
	// label is on all that is made, and its value is the environment's name.
	label = "rung.environment"
	// jobLabel is on it for people.
	jobLabel = "rung.job"
	// bookName is what ledgers of pods are called.
	bookName = "kubernetes"
	// cleanupTime bounds the removal of an environment that could not be prepared, and of one that is swept.
	cleanupTime = time.Minute
)

// The defaults of Options.
const (
	DefaultNamespace   = "default"
	DefaultBuilds      = "/builds"
	DefaultStartWithin = 3 * time.Minute
	DefaultServiceWait = 30 * time.Second
	DefaultGrace       = time.Second
	DefaultTries       = 5
	DefaultPause       = 2 * time.Second
)

// Options are the level's own. The zero value is the usual way.
type Options struct {
	// Level is what the level is called: executor.Container, which is the default, or executor.Sandbox where the runtime class of the
	// pods is one.
	Level   executor.Level
	Cluster Cluster
	// Image has a step-runner at ImageProgram for the pods; empty streams this program's through the API server into a volume, which
	// takes sh, head and kill in the job's image.
	Image string
	// Builds is the folder that projects are in, an absolute path in the job's container; "" is DefaultBuilds.
	Builds string
	// Template is what all pods have.
	Template Template
	// Adapt changes the template for a job; nil leaves it. An error is as that of Prepare.
	Adapt func(job *executor.Job, t *Template) error
	// StartWithin is how long a pod may take until all its containers run; 0 is DefaultStartWithin.
	StartWithin time.Duration
	// Look is how often a pod is asked for, beside being watched; 0 is DefaultLook.
	Look time.Duration
	// ServiceWait is how long a service may take until its port can be connected to; 0 is DefaultServiceWait, less than 0 does not wait.
	ServiceWait time.Duration
	// Grace is what processes of a pod that is removed have until they are killed, in whole seconds; nil is DefaultGrace.
	Grace *time.Duration
	// Removal bounds how long a pod may take to be removed; 0 is until Close's context ends.
	Removal time.Duration
	// Tries is how often a call is made that the API server did not answer; 0 is DefaultTries. Pause is the longest time between two; 0
	// is DefaultPause.
	Tries int
	Pause time.Duration
	// OwnLogins leaves pods the logins of their service account for registries, and gives them none of the job's.
	OwnLogins bool
	// Quiet leaves the warnings that the cluster has about a pod out of messages.
	Quiet bool
}

// Executor makes environments of this level.
type Executor struct {
	setup   executor.Setup
	opts    Options
	cluster *cluster

	opening sync.Mutex
	book    *ledger.Ledger
}

// New finds the cluster's address and makes the level. Nothing is asked yet.
func New(_ context.Context, setup executor.Setup, o Options) (*Executor, error) {
	if setup.Env == nil {
		setup.Env = os.Environ()
	}
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	if err := o.complete(); err != nil {
		return nil, err
	}
	var err error
	if setup.State == "" {
		if setup.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	e := &Executor{setup: setup, opts: o}
	if e.cluster, err = connect(&o, setup.Env); err != nil {
		return nil, err
	}
	return e, nil
}

// complete fills in the defaults.
func (o *Options) complete() error {
	switch o.Level {
	case "":
		o.Level = executor.Container
	case executor.Container:
	case executor.Sandbox:
		if o.Template.Spec.RuntimeClassName == nil || *o.Template.Spec.RuntimeClassName == "" {
			return errors.New("pods are sandboxes only with a runtime class that makes them that: set runtime_class_name, or run jobs as containers")
		}
	default:
		return fmt.Errorf("a pod is a container or a sandbox, and not of isolation level %q", o.Level)
	}
	setDefault(&o.Template.Namespace, DefaultNamespace)
	setDefault(&o.Builds, DefaultBuilds)
	o.Builds = path.Clean(o.Builds)
	setDefault(&o.StartWithin, DefaultStartWithin)
	setDefault(&o.Look, DefaultLook)
	setDefault(&o.ServiceWait, DefaultServiceWait)
	setDefault(&o.Tries, DefaultTries)
	setDefault(&o.Pause, DefaultPause)
	if o.Grace == nil {
		grace := DefaultGrace
		o.Grace = &grace
	}
	return nil
}

func setDefault[T comparable](value *T, standard T) {
	if *value == *new(T) {
		*value = standard
	}
}

// Level returns executor.Container, or Options.Level.
func (e *Executor) Level() executor.Level { return e.opts.Level }

// Capabilities says what the level can do. A pod has no limit of processes, and says nothing of which processors it has: such limits are refused.
func (e *Executor) Capabilities() executor.Capabilities {
	return executor.Capabilities{Image: true, Services: true, Reattach: true, Resources: true, Privileges: true, User: true}
}

// begin opens the ledger, once.
func (e *Executor) begin() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		return nil
	}
	var err error
	e.book, err = ledger.Open(e.setup.State, bookName, ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep, Elsewhere: e.setup.Lease.Elsewhere})
	return err
}

// Probe implements executor.Prober: the API server answers.
func (e *Executor) Probe(ctx context.Context, _ *executor.Job) error {
	_, err := e.cluster.Pod(ctx, e.opts.Template.Namespace, "rung-probe")
	if kube.IsGone(err) {
		return nil
	}
	return e.cluster.failed(ctx, "asking for a pod", err)
}

// entry is what the ledger holds of an environment.
type entry struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func (e *Executor) entry(namespace, name string) string {
	text, _ := json.Marshal(entry{e.cluster.Name, namespace, name}) // strings alone cannot fail
	return string(text)
}

// Sweep removes the pods of environments in this cluster whose process was killed.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.setup.State, bookName, func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil || it.Name == "" {
			return nil // nothing that this level wrote
		}
		if it.Host != e.cluster.Name {
			return ledger.ErrElsewhere
		}
		ctx, cancel := context.WithTimeout(ctx, cleanupTime)
		defer cancel()
		return e.remove(ctx, it.Namespace, it.Name)
	})
}

// Close ends the level.
func (e *Executor) Close() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	e.cluster.Close()
	if e.book == nil {
		return nil
	}
	return e.book.Close()
}
