package executor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/usage"
)

// Setup is what every level is made with. The zero value of each field is a usable default.
type Setup struct {
	// Host is the machine to run on; nil is this machine.
	Host host.Host
	// Program finds a file on this machine that is the step-runner for a system and architecture, as GOOS and GOARCH have them. It
	// must need no libraries. Nil is ThisProgram.
	Program func(system, arch string) (file string, err error)
	// Serve are arguments for `step-runner serve` in environments, beyond the level's own and those of Limits.
	Serve []string
	// Env is the user's environment, which says where an engine is and where credentials are; nil is this program's.
	Env []string
	// EngineFrom is what has put DOCKER_HOST into Env, for people: a key of a configuration. Empty is the user.
	EngineFrom string
	// HostEnv is what the environment of the host has beyond what is set there, as NAME=VALUE: DOCKER_HOST.
	HostEnv []string
	// State is the folder of the cleanup ledger; empty is ledger.Folder().
	State string
	// Temp is a folder on the host for what jobs do not name a folder for; empty is the host's own for temporary files.
	Temp   string
	Lease  Lease
	Limits Limits
	// PullPolicies are those of images that name none; empty is if-not-present.
	PullPolicies []string
	// Labels are put on everything that carries labels.
	Labels map[string]string
	// Uses is where a level records what it pulls and makes for later jobs too, and their uses, see Storer; nil records nothing, as in plugins.
	Uses *usage.Book
}

// ThisProgram is a Setup.Program: this program, if it runs on the system and architecture.
func ThisProgram(system, arch string) (string, error) {
	if system != runtime.GOOS || arch != runtime.GOARCH {
		return "", fmt.Errorf("this program is built for %s/%s, not for %s/%s", runtime.GOOS, runtime.GOARCH, system, arch)
	}
	return os.Executable()
}

// Lease says who owns environments, and what becomes of them when the owner's process ends without closing them.
type Lease struct {
	// Owner names the owner across processes: letters, digits, - and _. A process with the same owner may take over. Empty is
	// an owner that ends with this process.
	Owner string
	// Keep is how long environments outlive the owner's process. 0 ends them with it.
	Keep time.Duration
	// Away is how long nobody who owns an environment may be connected to it until it ends by itself: its owner, or the host of that, is
	// gone for good. 0 is Keep, or else DefaultAway.
	Away time.Duration
	// Elsewhere says that environments which no ledger on this host has may be the owner's all the same: its process before was on another host, and has ended.
	Elsewhere bool
}

// DefaultAway is how long an environment that ends with its owner goes on without having noticed that.
const DefaultAway = 10 * time.Minute

// LongestAway is how long an environment goes on when nobody is connected to it.
func (l Lease) LongestAway() time.Duration { return cmp.Or(l.Away, l.Keep, DefaultAway) }

// Args are what the lease means for the step-runner of an environment, as arguments of `step-runner serve`.
func (l Lease) Args() []string {
	args := []string{fmt.Sprintf("--end-unattended=%s", l.LongestAway())}
	if l.Outlives() {
		args = append(args, fmt.Sprintf("--abandon-after=%s", l.Keep), fmt.Sprintf("--keep=%s", l.Keep))
	}
	return args
}

// Outlives reports whether environments outlive the owner's process.
func (l Lease) Outlives() bool { return l.Owner != "" && l.Keep > 0 }

// Limits bound what one job may do, on every level alike. 0 is the default; less than 0 means no limit.
type Limits struct {
	// Duration is how long a job's steps may take.
	Duration time.Duration
	// LogBytes is how much of a job's log is kept. The job goes on beyond it.
	LogBytes int64
	// RequestBytes is how large the job's definition may be.
	RequestBytes int64
}

// The defaults of Limits.
const (
	DefaultDuration     = 366 * 24 * time.Hour // whoever knows the job's timeout enforces that
	DefaultLogBytes     = 64 << 30
	DefaultRequestBytes = 256 << 20
)

const (
	unlimitedDuration = 100 * 366 * 24 * time.Hour
	unlimitedBytes    = 1 << 50
	unlimitedRequest  = 1 << 30 // a gRPC message is held in memory
)

// Args are the limits as arguments of `step-runner serve`.
func (l Limits) Args() []string {
	return []string{
		fmt.Sprintf("--max-duration=%s", limit(l.Duration, DefaultDuration, unlimitedDuration)),
		fmt.Sprintf("--max-log=%d", limit(l.LogBytes, DefaultLogBytes, unlimitedBytes)),
		fmt.Sprintf("--max-request=%d", limit(l.RequestBytes, DefaultRequestBytes, unlimitedRequest)),
	}
}

func limit[T ~int64](value, standard, most T) T {
	switch {
	case value == 0:
		return standard
	case value < 0:
		return most
	}
	return value
}

// Definition is a level as a registry lists it.
type Definition struct {
	Level Level
	// Summary says in one line what isolates a job.
	Summary string
	// Open makes the level. The error says in one sentence what the host lacks.
	Open func(ctx context.Context, setup Setup) (Executor, error)
}
