// Package executor is what the author of an executor plugin imports: a program that makes environments for jobs, of a level of isolation that
// Rung does not have itself. docs/plugins.md is the manual, examples/plugins/executor-go an example.
//
//	func main() {
//		executor.Serve(executor.Plugin{Name: "wrap", Level: "wrap", Open: open})
//	}
//
// What Open returns implements Executor. Package process beside this one has one for jobs that are processes of this machine.
//
// The types are those of the contract; what each of their methods promises is said there. Methods are only ever added to a contract as
// interfaces that a plugin may implement.
package executor

import (
	"context"
	"encoding/json"
	"io/fs"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/pluginoption"
	"github.com/rungci/rung/steps/event"
)

// The contract.
type (
	Executor     = executor.Executor
	Environment  = executor.Environment
	Job          = executor.Job
	Setup        = executor.Setup
	Capabilities = executor.Capabilities
	Level        = executor.Level
	Handle       = executor.Handle
	Layout       = executor.Layout
	Shell        = executor.Shell
	Reporter     = executor.Reporter
	Preparing    = event.Preparing
	Life         = executor.Life
	Lease        = executor.Lease
	Keeper       = executor.Keeper
	KeptProject  = executor.KeptProject
)

// Errors that keep their identity on the way to the runner, as fs.ErrNotExist and a full disk do. All others are internal errors.
type (
	Refusal   = executor.Refusal   // the level cannot do what the job asks for
	UserError = executor.UserError // the job is the reason
	// OptionError says which option is wrong, by a JSON pointer ("/command/0"), in an error of Open: who wrote the configuration is shown the line.
	OptionError = pluginoption.Error
	PullError   = executor.PullError // an image cannot be pulled
	Gone        = executor.Gone      // the environment can run nothing any more
)

// And those that are values.
var (
	ErrGone        = executor.ErrGone
	ErrOwned       = executor.ErrOwned
	ErrInUse       = executor.ErrInUse
	ErrOutOfMemory = executor.ErrOutOfMemory
	ErrClosed      = executor.ErrClosed
	ErrNotExist    = fs.ErrNotExist
)

// Check returns a *Refusal when the job asks for what the level cannot do. The runner has asked that already.
func Check(e Executor, job *Job) error { return executor.Check(e, job) }

// NewLife is the life of an environment that has begun: Done and Err of Environment, to embed.
func NewLife() *Life { return executor.NewLife() }

// Plugin is what Serve serves.
type Plugin struct {
	// Name and Version are for people. The file of the plugin is called executor-plugin-NAME.
	Name, Version string
	// Level is what configurations and messages call it: letters, digits, - and _.
	Level Level
	// Rank is Rung's level that isolates as well as this one; empty counts as none.
	Rank Level
	// Summary says in one line what isolates a job.
	Summary string
	// Schema is a JSON schema that options must satisfy; empty takes no options.
	Schema string
	// PrepareSilence is how long Prepare may report nothing, at most 10 minutes; 0 is 20 seconds.
	PrepareSilence time.Duration
	// Open makes the executor, once. The error says in one sentence what the machine or the options lack.
	Open func(ctx context.Context, setup Setup, options json.RawMessage) (Executor, error)
}
