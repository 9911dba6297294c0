// Package program defines what the Go code of a built-in step receives, and how it returns its results.
//
// A built-in step is a folder with a func.yml like any other step. Its command is this program itself,
//
//	exec:
//	  command: [step-runner, builtin, cache/restore, "${{ input_file }}", "${{ output_file }}", "${{ export_file }}"]
//
// so that it has a process of its own: with the environment that it asks for, a log that is masked, and an end when the job ends.
package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rungci/rung/internal/builtinexit"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/value"
)

// Func is the code of a built-in step. An error is shown on the step's standard error, and fails the step.
type Func func(ctx context.Context, call *Call) error

// Call is one call of a built-in step.
type Call struct {
	// Inputs are JSON: one object, checked against the spec of the step, defaults included.
	Inputs []byte
	// WorkDir is the job's work directory, absolute. The process runs in it.
	WorkDir string
	// Env is the environment of the process, NAME=value.
	Env            []string
	Stdout, Stderr io.Writer
	// OutputFile and ExportFile take outputs and variables for later steps, a JSON object a line.
	OutputFile, ExportFile string
}

// Decode reads the inputs into a struct whose fields have json tags. A key without a field is an error.
func (c *Call) Decode(into any) error {
	d := json.NewDecoder(bytes.NewReader(c.Inputs))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("reading the inputs: %w", err)
	}
	return nil
}

// Getenv returns a variable of the environment, "" when it is not set.
func (c *Call) Getenv(name string) string {
	text := ""
	for _, pair := range c.Env {
		if len(pair) > len(name) && pair[len(name)] == '=' && pair[:len(name)] == name {
			text = pair[len(name)+1:]
		}
	}
	return text
}

// Output gives an output of the step.
func (c *Call) Output(name string, v value.Value) error { return appendEntry(c.OutputFile, name, v) }

// Export sets an environment variable for all later steps.
func (c *Call) Export(name, text string) error {
	return appendEntry(c.ExportFile, name, value.OfString(text))
}

func appendEntry(path, name string, v value.Value) error {
	if path == "" {
		return errors.New("there is no file for results")
	}
	entry := value.OfStruct(map[string]value.Value{"name": value.OfString(name), "value": v}).AppendJSON(nil)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(entry, '\n')); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// Run runs a command with the call's environment, and with more variables over it, in dir; "" is the work directory. What it
// writes goes to the step's log. A command that fails gives an *ExitError.
func (c *Call) Run(ctx context.Context, dir string, more []string, args ...string) error {
	return c.run(ctx, c.spec(dir, more, c.Stdout, args))
}

// Read is like Run, and returns what the command writes to its standard output.
func (c *Call) Read(ctx context.Context, dir string, more []string, args ...string) (string, error) {
	var out bytes.Buffer
	err := c.run(ctx, c.spec(dir, more, &out, args))
	return out.String(), err
}

func (c *Call) spec(dir string, more []string, stdout io.Writer, args []string) process.Spec {
	return process.Spec{Args: args, Dir: cmp.Or(dir, c.WorkDir), Env: overlaid(c.Env, more), Stdout: stdout}
}

func (c *Call) run(ctx context.Context, spec process.Spec) error {
	spec.Stderr, spec.Grace = c.Stderr, childGrace
	result, err := process.Run(ctx, nil, spec)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", spec.Args[0], err)
	case result.ExitCode != 0 || result.Signal != "":
		return &ExitError{Program: spec.Args[0], Code: result.ExitCode, Signal: result.Signal}
	}
	return nil
}

// UnavailableError is an error of a server or a program that a step needs and that does not answer: it is not the user's fault.
type UnavailableError struct{ Err error }

func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *UnavailableError) Unwrap() error { return e.Err }

// ExitCode is the exit code of a step that has failed: that of the command that it ran, or one of builtinexit; 0 if the error says nothing of it.
func ExitCode(err error) int {
	var failed *ExitError
	switch {
	case errors.As(err, new(*UnavailableError)):
		return builtinexit.Unavailable
	case errors.As(err, &failed) && failed.Code > 0:
		return failed.Code
	case scarcity.DiskFull(err):
		return builtinexit.DiskFull
	}
	return 0
}

// ExitError is a command that a built-in step ran and that failed.
type ExitError struct {
	Program string
	Code    int    // -1 when a signal ended it
	Signal  string // "" when none did
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s was killed by %s", e.Program, e.Signal)
	}
	return fmt.Sprintf("%s failed with exit code %d", e.Program, e.Code)
}
