// Package direct makes sandboxes of gVisor without a container engine: runsc alone, on this machine, as root.
//
// The step-runner is the main process of a sandbox, from a file that is mounted read-only. It is reached by `step-runner proxy`, which runsc
// starts in the sandbox, as a socket on a shared folder would keep a sandbox from being saved. The files of an image are shared by all its
// sandboxes, and read-only: what a job changes is in a file of the job's own (runsc's overlay).
//
//	this program ──runs──> runsc run ──> runsc-sandbox: /opt/rung/bin/step-runner serve
//	     '── Connect: runsc exec `step-runner proxy`, whose input and output are the connection
//
//	rung-ID/config.json   what runsc is to run
//	rung-ID/state/        of runsc: its sockets
//	rung-ID/upper/        what the job has changed of its image
//	rung-ID/said          a pipe: what the step-runner and the image's entrypoint say
//	rung-ID/service-1/    the same of a service
package direct

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/host/local"
	"github.com/rungci/rung/executor/ledger"
	"github.com/rungci/rung/executor/sandbox/rootfs"
	"github.com/rungci/rung/internal/cgroup"
)

const (
	// Host is that of every handle: sandboxes are made on this machine alone.
	Host = local.Name
	// ledgerName is what the ledgers of these sandboxes are called; those of sandboxes that an engine makes are called "sandbox".
	ledgerName = "runsc"
	// cleanupTime bounds the removal of an environment that could not be prepared, and of one that is swept.
	cleanupTime = time.Minute

	// programVariable names the runsc to use, savedVariable the folder of saved images, rootVariable the root of jobs without an image.
	programVariable = "RUNG_RUNSC"
	savedVariable   = "RUNG_SANDBOX_IMAGES"
	rootVariable    = "RUNG_SANDBOX_ROOT"
	networkVariable = "RUNG_SANDBOX_NETWORK"
)

// Options are what sandboxes without an engine are made with. The zero value is the usual way.
type Options struct {
	// Runsc is the program; empty is the one that RUNG_RUNSC names, that lies beside this program, or that is in PATH.
	Runsc string
	// Cache is the folder where the files of images are kept; empty is sandbox in the user's cache folder for this program.
	Cache string
	// Saved is a folder of images in files, see rootfs.Store; empty is what RUNG_SANDBOX_IMAGES names.
	Saved string
	// Root is the root of jobs without an image; empty is what RUNG_SANDBOX_ROOT names, or none: such jobs are refused.
	Root string
	// Volumes are those that jobs and their services have: Kept, which are below Folder where that is set.
	Volumes container.Volumes
	// Network is the network namespace by which sandboxes reach others, as ip netns names it; empty is what RUNG_SANDBOX_NETWORK names, or that of
	// this program.
	Network string
	// ServiceWait is how long a service may take until its port can be connected to; 0 is container.DefaultServiceWait, and less is not waited for.
	ServiceWait time.Duration
}

// Executor makes sandboxes.
type Executor struct {
	setup  executor.Setup
	opts   Options
	host   host.Host
	store  *rootfs.Store
	tree   *cgroup.Tree // nil where noTree says why
	noTree error
	links  bool // sandboxes can have namespaces that are linked
	slirp  bool // and those can have what gives them this machine's network

	opening sync.Mutex
	book    *ledger.Ledger
	program string // the step-runner
	temp    string
}

// New finds runsc. The error says in one sentence what is missing.
func New(setup executor.Setup, o Options) (*Executor, error) {
	if setup.Host != nil && setup.Host.Name() != Host {
		return nil, fmt.Errorf("without a container engine, sandboxes run only on this machine; install an engine with the runtime runsc on %s", setup.Host.Name())
	}
	if runtime.GOOS != "linux" {
		return nil, errors.New("gVisor's runsc runs on Linux alone")
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("without a container engine, sandboxes need root, as gVisor gives other users neither limits nor a network other than the machine's own; " +
			"run as root, or start an engine of your own (rootless Docker or Podman) that knows the runtime runsc")
	}
	if setup.Env == nil {
		setup.Env = os.Environ()
	}
	if setup.Program == nil {
		setup.Program = executor.ThisProgram
	}
	var err error
	if o.Runsc == "" {
		if o.Runsc, err = findRunsc(setup.Env); err != nil {
			return nil, err
		}
	}
	if o.Saved == "" {
		o.Saved = getenv(setup.Env, savedVariable)
	}
	if o.Root == "" {
		o.Root = getenv(setup.Env, rootVariable)
	}
	if o.Network == "" {
		o.Network = getenv(setup.Env, networkVariable)
	}
	if o.Cache == "" {
		if o.Cache, err = os.UserCacheDir(); err != nil {
			return nil, fmt.Errorf("there is no folder for the files of images: %w; set XDG_CACHE_HOME", err)
		}
		o.Cache = filepath.Join(o.Cache, "rung", "sandbox")
	}
	if setup.State == "" {
		if setup.State, err = ledger.Folder(); err != nil {
			return nil, err
		}
	}
	e := &Executor{setup: setup, opts: o, host: local.New(), store: &rootfs.Store{Folder: o.Cache, Saved: o.Saved}}
	e.tree, e.noTree = cgroup.Open()
	e.links = hasPrograms("ip")
	e.slirp = e.links && hasPrograms("slirp4netns")
	return e, nil
}

// hasPrograms reports whether all of the programs are in PATH.
func hasPrograms(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			return false
		}
	}
	return true
}

// findRunsc finds the program.
func findRunsc(env []string) (string, error) {
	if named := getenv(env, programVariable); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("%s names no program: %w", programVariable, err)
		}
		return path, nil
	}
	if own, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(own), "runsc")); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("runsc")
	if err != nil {
		return "", fmt.Errorf("there is no runsc of gVisor: install it beside this program or in PATH, or name it in %s", programVariable)
	}
	return path, nil
}

func getenv(env []string, name string) (value string) {
	for _, pair := range env {
		if text, ok := strings.CutPrefix(pair, name+"="); ok {
			value = text
		}
	}
	return value
}

// Level returns executor.Sandbox.
func (e *Executor) Level() executor.Level { return executor.Sandbox }

// Capabilities says what sandboxes can do.
func (e *Executor) Capabilities() executor.Capabilities {
	can := executor.Capabilities{
		Image: true, Reattach: true, Resources: e.tree != nil, Slots: e.tree != nil, Disk: true, User: true, KeepProject: true, NeedsRoot: true,
		Networks: []executor.NetworkPolicy{executor.NetworkNone},
	}
	if e.links {
		can.Services = true
		can.Networks = append(can.Networks, executor.NetworkPublic, executor.NetworkHosts)
	}
	return can
}

// begin opens the ledger, once.
func (e *Executor) begin(ctx context.Context) error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book != nil {
		return nil
	}
	file, err := e.setup.Program(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return fmt.Errorf("finding a step-runner for sandboxes: %w", err)
	}
	if e.program, err = e.host.Put(ctx, file); err != nil {
		return err
	}
	if e.temp = e.setup.Temp; e.temp == "" {
		if e.temp, err = e.host.Files().Temp(ctx); err != nil {
			return err
		}
	}
	if strings.Contains(e.temp, ",") {
		return fmt.Errorf("sandboxes cannot have their files in %s, as runsc takes no folder with a comma in its path; set TMPDIR to another one", e.temp)
	}
	e.book, err = ledger.Open(e.setup.State, ledgerName, ledger.Lease{Owner: e.setup.Lease.Owner, Keep: e.setup.Lease.Keep, Elsewhere: e.setup.Lease.Elsewhere})
	return err
}

// Probe implements executor.Prober.
func (e *Executor) Probe(ctx context.Context, _ *executor.Job) error { return e.begin(ctx) }

// entry is what the ledger holds: the folder of an environment.
type entry struct {
	Dir string `json:"dir"`
}

func entryOf(dir string) string {
	text, _ := json.Marshal(entry{dir}) // a string alone cannot fail
	return string(text)
}

// Sweep removes sandboxes whose lease has ended.
func (e *Executor) Sweep(ctx context.Context) error {
	return ledger.Sweep(e.setup.State, ledgerName, func(text string) error {
		var it entry
		if err := json.Unmarshal([]byte(text), &it); err != nil || it.Dir == "" {
			return nil // nothing that this level wrote
		}
		ctx, cancel := context.WithTimeout(ctx, cleanupTime)
		defer cancel()
		return e.at(it.Dir).remove(ctx)
	})
}

// Close ends the ledger.
func (e *Executor) Close() error {
	e.opening.Lock()
	defer e.opening.Unlock()
	if e.book == nil {
		return nil
	}
	return e.book.Close()
}
