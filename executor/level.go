package executor

import (
	"fmt"
	"slices"
	"strings"
)

// Level names a level of isolation.
type Level string

// The levels, from the weakest to the strongest.
const (
	None      Level = "none"      // a process on the host
	CGroup    Level = "cgroup"    // a process with bounded resources
	Container Level = "container" // a container of Docker or Podman
	Sandbox   Level = "sandbox"   // a container with a kernel of its own in user space
	MicroVM   Level = "microvm"
	VM        Level = "vm"
	Instance  Level = "instance" // a whole machine
)

var ranks = []Level{None, CGroup, Container, Sandbox, MicroVM, VM, Instance}

// Rank orders levels by the strength of their isolation: none is 0. A level that is not one of the constants counts as none.
func (l Level) Rank() int { return max(0, slices.Index(ranks, l)) }

// Known reports whether the level is one of the constants. Others are those of plugins and drivers.
func (l Level) Known() bool { return slices.Contains(ranks, l) }

// Ranked is an executor whose level is not one of the constants, and that says itself how strong its isolation is.
type Ranked interface {
	// Rank is that of the level which is as strong.
	Rank() int
}

// RankOf orders executors by the strength of their isolation.
func RankOf(e Executor) int {
	if ranked, ok := e.(Ranked); ok {
		return ranked.Rank()
	}
	return e.Level().Rank()
}

// Capabilities are what a level can do on its host.
type Capabilities struct {
	Image       bool            // it runs the job's image
	Services    bool            // it runs services beside the job
	Driver      bool            // a driver of the operator runs what it will for images and services: it is told of them in Job.Driver
	Snapshot    bool            // a running job can be saved
	Branch      bool            // and resumed more than once
	Networks    []NetworkPolicy // what it can enforce beyond the default
	Resources   bool            // it bounds CPU, memory with swap space, processes, and which processors are used
	Disk        bool            // it bounds the space that files take
	IO          bool            // it bounds how fast files are read and written
	Slots       bool            // it runs the job in the control group of a slot
	Privileges  bool            // it can give a job more rights than usual
	User        bool            // it can run the job as another user
	KeepProject bool            // the project's folder can be kept between jobs
	Reattach    bool            // after a lost connection, or in another process, the job is found again
	NeedsRoot   bool
	NeedsKVM    bool
}

// Refusal says that a level cannot do what a job asks for.
type Refusal struct {
	Level Level
	// What is what the job asks for, such as "services".
	What string
	// Could is the weakest level that can; empty if none is known.
	Could Level
}

func (e *Refusal) Error() string {
	text := fmt.Sprintf("isolation level %q does not support %s, which the job asks for", e.Level, e.What)
	if e.Could != "" {
		text += fmt.Sprintf("; %q does", e.Could)
	}
	return text
}

// processes are the limits of what processes use.
func (r Resources) processes() Resources {
	r.Disk, r.Read, r.Write = 0, 0, 0
	return r
}

// Check returns a *Refusal when the job asks for what the level cannot do.
func Check(e Executor, job *Job) error {
	can := e.Capabilities()
	var missing []string
	could := None
	ask := func(asks, can bool, what string, level Level) {
		if asks && !can {
			missing = append(missing, what)
			if level.Rank() > could.Rank() {
				could = level
			}
		}
	}
	ask(job.Image != nil, can.Image, "images", Container)
	ask(len(job.Services) > 0, can.Services, "services", Container)
	a, b := job.Resources, job.ServiceResources
	ask(a.Disk > 0 || b.Disk > 0, can.Disk, "limits of disk space", Container)
	ask(a.Read > 0 || a.Write > 0 || b.Read > 0 || b.Write > 0, can.IO, "limits of how fast files are read and written", CGroup)
	ask(a.processes() != Resources{} || b.processes() != Resources{}, can.Resources, "resource limits", CGroup)
	ask(job.Slot != "", can.Slots, "the control group of a slot", CGroup)
	ask(job.Network != NetworkDefault, slices.Contains(can.Networks, job.Network.Kind()), fmt.Sprintf("the network policy %q", job.Network), Container)
	ask(job.Privileged && job.Network.Proxied(), false, fmt.Sprintf("privileged jobs with the network policy %q, which they could lift", job.Network), None)
	ask(job.Privileged, can.Privileges, "privileged jobs", Container)
	ask(job.User != "", can.User, "another user", Container)
	ask(job.KeepProject != "", can.KeepProject, "a project folder that is kept between jobs", Container)
	if missing == nil {
		return nil
	}
	if could.Rank() <= e.Level().Rank() {
		could = ""
	}
	return &Refusal{Level: e.Level(), What: strings.Join(missing, " and "), Could: could}
}
