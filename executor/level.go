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

// Capabilities are what a level can do on its host.
type Capabilities struct {
	Image       bool            // it runs the job's image
	Services    bool            // it runs services beside the job
	Snapshot    bool            // a running job can be saved
	Branch      bool            // and resumed more than once
	Networks    []NetworkPolicy // what it can enforce beyond the default
	Resources   bool            // it bounds CPU, memory, processes and disk
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
	ask(job.Resources != Resources{} || job.ServiceResources != Resources{}, can.Resources, "resource limits", Container)
	ask(job.Network != NetworkDefault, slices.Contains(can.Networks, job.Network), fmt.Sprintf("the network policy %q", job.Network), Container)
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
