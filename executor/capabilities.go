package executor

import (
	"fmt"
	"strings"
)

// Capabilities are what a level can do.
type Capabilities struct {
	Image         bool // it runs the job's image
	Services      bool // it runs services beside the job
	Snapshot      bool // a running job can be saved
	Branch        bool // and gone on with more than once
	NetworkPolicy bool // what the job may reach can be bounded
	Reattach      bool // a connection that is lost, or a program that restarts, finds the job again
	NeedsRoot     bool
	NeedsKVM      bool
}

// Refusal says that a level cannot do what a job asks for.
type Refusal struct {
	Level Level
	// What the job asks for, such as "services".
	What string
	// Could is the weakest level that can.
	Could Level
}

func (e *Refusal) Error() string {
	return fmt.Sprintf("isolation %q has no %s, which the job asks for; %q has", e.Level, e.What, e.Could)
}

// Check returns a *Refusal when the job asks for what the level cannot do.
func Check(e Executor, job *Job) error {
	can := e.Capabilities()
	var missing []string
	if job.Image != nil && !can.Image {
		missing = append(missing, "image")
	}
	if len(job.Services) > 0 && !can.Services {
		missing = append(missing, "services")
	}
	if missing == nil {
		return nil
	}
	return &Refusal{Level: e.Level(), What: strings.Join(missing, " and "), Could: Container}
}
