// Command executor-plugin-wrap is an example of an executor plugin: it starts the step-runner of each job through a command of the operator's
// choice. With bwrap, systemd-run or unshare that is a level of isolation of its own; with nice, jobs that leave others in peace.
//
//	[runners.plugin]
//	name = "wrap"
//	[runners.plugin.options]
//	command = ["nice", "-n", "10"]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"

	"github.com/rungci/rung/sdk/executor"
	"github.com/rungci/rung/sdk/executor/process"
)

const level = "wrap"

// schema is that of options. The runner holds the configuration against it before it opens the plugin.
const schema = `{
  "type": "object",
  "properties": {"command": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1}},
  "required": ["command"],
  "additionalProperties": false
}`

type options struct {
	Command []string `json:"command"`
}

func main() {
	executor.Serve(executor.Plugin{
		Name: "wrap", Version: "1.0.0", Level: level, Summary: "a process that is started through a command of yours", Schema: schema, Open: open,
	})
}

func open(ctx context.Context, setup executor.Setup, raw json.RawMessage) (executor.Executor, error) {
	var o options
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("reading the options: %w", err)
	}
	program, err := exec.LookPath(o.Command[0])
	if err != nil {
		return nil, &executor.OptionError{Pointer: "/command/0", Err: fmt.Errorf("the command of the option \"command\" does not exist: install it, or give its path: %w", err)}
	}
	// Better now than in every job.
	try := exec.CommandContext(ctx, program, append(slices.Clone(o.Command[1:]), "true")...)
	if out, err := try.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("the command %q does not start programs on this machine: %w\n%s", o.Command, err, out)
	}
	fmt.Fprintf(os.Stderr, "[INFO] jobs are started through %q\n", o.Command)
	return process.New(ctx, setup, level, func(command []string) []string {
		return slices.Concat([]string{program}, o.Command[1:], command)
	})
}
