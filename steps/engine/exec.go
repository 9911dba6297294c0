package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungci/rung/internal/builtinexit"
	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/internal/scarcity"
	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// execution is one process of a step, in the step's own scope.
type execution struct {
	*scope
	inv  *invocation
	talk *conversation // nil without a toolkit
}

// runExec runs the process of an exec and reads what it gives. s is the step's own scope.
func (r *run) runExec(ctx context.Context, s *scope, inv *invocation) *outcome {
	x := &execution{scope: s, inv: inv}
	before := s.env // without what a toolkit adds
	workDir, err := x.execDir(inv.def.Exec)
	if err != nil {
		return failed(err)
	}
	if err := r.dirs.makeHome(s.env); err != nil {
		return failed(systemError("creating the home folder of the step: %v", err))
	}
	inv.state = r.hooks.inherited(inv)
	if err := x.converse(ctx); err != nil {
		return failed(err)
	}
	argv, running, err := x.command()
	if err != nil {
		return failed(err)
	}
	image, err := x.image(ctx, argv)
	if err != nil {
		return failed(err)
	}
	if s.files.err != nil {
		return failed(systemError("creating the step's files: %v", s.files.err))
	}
	if ctx.Err() != nil {
		return failed(interrupted(ctx))
	}
	if inv.log == nil {
		inv.log = &stepLog{out: r.out, id: inv.id}
	}
	tee, err := x.logFile(inv.def.Exec)
	if err != nil {
		return failed(err)
	}
	log := inv.log.attempt(holdsSecrets(inv.spec), r.dirs.files, tee)
	env, unset := s.env.difference(r.base, s.own, r.out)
	r.out.emit(inv.id, event.ExecStarted{Attempt: inv.attempt, Command: argv, WorkDir: workDir, Env: env, Unset: unset, LogHeld: log.held != nil, Confined: inv.apart != nil})
	r.hooks.push(s, before, inv)
	args, vars := r.opts.program(running, s.env.list(s.own))
	vars = image.env(vars)
	kills := scarcity.Kills()
	ran := r.opts.identify(argv[0], args, vars, workDir)
	result, perr := process.Run(ctx, r.opts.Kill, process.Spec{
		Args:    args,
		Dir:     workDir,
		Env:     vars,
		Files:   x.files.memory,
		Stdout:  x.talk.output(log.stdout),
		Stderr:  x.talk.output(log.stderr),
		Grace:   r.opts.Grace,
		Tidy:    r.opts.builtIn(argv),
		Confine: x.view(args),
	})
	terr := x.talk.end(inv)
	given, exports, ferr := x.readFiles(perr == nil && result.ExitCode == 0)
	lerr := log.end()
	x.talk.release()
	r.out.emit(inv.id, event.ExecFinished{Attempt: inv.attempt, ExitCode: result.ExitCode, Signal: result.Signal, Program: ran(), Image: image.ran()})

	o := &outcome{status: event.Success}
	said := r.opts.builtIn(argv) && (result.ExitCode == builtinexit.DiskFull || result.ExitCode == builtinexit.Unavailable)
	if result.ExitCode >= 0 && !said { // those codes say nothing to a person
		o.exitCode = &result.ExitCode
	}
	switch {
	case perr != nil:
		o.err = confineError(ctx, perr)
	case result.Signal != "" || result.ExitCode != 0:
		o.err = exitError(result, said)
	case terr != nil && ctx.Err() != nil: // it had to end before it was through
		o.err = interrupted(ctx)
	case terr != nil:
		o.err = event.NewError(event.CodeToolkitFailed, "%v", terr)
	case ferr != nil:
		o.err = event.NewError(event.CodeOutputInvalid, "%v", ferr)
	case lerr != nil:
		o.err = systemError("storing the step's log: %v", lerr)
	default:
		if exports, o.err = x.exported(exports); o.err != nil {
			break
		}
		o.outputs, o.exports = given, exports
		s.export(exports)
		return o
	}
	if perr == nil {
		o.err = shortage(o.err, scarcity.Kills()-kills, workDir, r.dirs.files, r.dirs.tmp)
	}
	if o.err.Hint == "" {
		o.err.Hint = x.missed(argv)
	}
	if o.err.Diagnostics == nil {
		o.err.Diagnostics = x.failedAt(o.err.Message, result.ExitCode, cmp.Or(terr, ferr))
	}
	stopped := failed(o.err)
	stopped.exitCode = o.exitCode
	stopped.outputs, stopped.exports = x.said()
	s.export(stopped.exports)
	return stopped
}

// said is what a process that failed gave through its toolkit before: that counts, as it was said and not written down for the end.
func (x *execution) said() (map[string]value.Value, map[string]variable) {
	if x.talk == nil {
		return nil, nil
	}
	outputs := fitting(x.inv.spec, x.talk.result.Outputs)
	x.run.out.addSensitive(outputs)
	var exports map[string]variable
	for name, text := range x.talk.result.Exports {
		if checkVariable(name, text) == nil {
			put(&exports, name, variable{text: text, sensitive: x.run.out.mask.String(text) != text})
		}
	}
	exports, err := x.exported(exports)
	if err != nil {
		return outputs, nil // it has failed already
	}
	return outputs, exports
}

// put sets a key of a map that is made when it is needed.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// ownProgram is the name by which commands call this program.
const ownProgram = "step-runner"

// exitError is the error of a command that was killed, or ended with an exit code, by which a built-in step may have said whose fault it is.
func exitError(result process.Result, said bool) *event.Error {
	switch {
	case result.Signal != "":
		return event.NewError(event.CodeKilledBySignal, "exec: killed by %s", result.Signal)
	case said && result.ExitCode == builtinexit.Unavailable:
		return event.NewError(event.CodeServiceUnavailable, "exec: what the step needs does not answer")
	case said:
		return hinted(event.NewError(event.CodeDiskFull, "exec: a disk is full"), event.HintDisk)
	}
	return event.NewError(event.CodeExitStatus, "exec: exit status %d", result.ExitCode)
}

// builtIn reports whether a command is the code of a built-in step.
func (o *Options) builtIn(argv []string) bool {
	return argv[0] == ownProgram && o.Program != "" && len(argv) > 1 && argv[1] == "builtin"
}

// program returns the arguments of a command with this program's own file in the place of its name, and its environment.
func (o *Options) program(argv, env []string) (args, vars []string) {
	if argv[0] != ownProgram || o.Program == "" {
		return argv, env
	}
	if o.ProgramEnv != nil {
		env = o.ProgramEnv(argv[1:], env)
	}
	return append([]string{o.Program}, argv[1:]...), env
}

// logFile opens the file that takes the log of a process as well, nil where there is none.
func (x *execution) logFile(exec *plan.Exec) (io.WriteCloser, *event.Error) {
	if exec.LogFile == nil {
		return nil, nil
	}
	path, _, err := x.expandText(*exec.LogFile)
	if err != nil || path == "" {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(x.workDir, path)
	}
	file, oerr := x.createLog(path)
	if oerr != nil {
		return nil, x.run.fieldError(*exec.LogFile, "cannot write the log file: %v", oerr)
	}
	return file, nil
}

// createLog creates the log file; that of a confined step where the step could.
func (x *execution) createLog(path string) (*os.File, error) {
	if x.inv.apart != nil {
		return x.createInside(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// execDir evaluates the directory that a command runs in.
func (x *execution) execDir(exec *plan.Exec) (string, *event.Error) {
	if exec.WorkDir == nil {
		return x.workDir, nil
	}
	dir, _, err := x.expandText(*exec.WorkDir)
	if err != nil {
		return "", err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(x.workDir, dir)
	}
	return dir, nil
}

// commandSpan is the place of what an exec runs; of a script of many lines, that of its step.
func (inv *invocation) commandSpan() diag.Span {
	script := inv.def.Exec.Script
	switch {
	case script == nil:
		return inv.def.Exec.Command[0].Span
	case inv.step != nil && strings.Contains(script.Text.Value.Str(), "\n"):
		return inv.step.Span
	default:
		return script.Text.Span
	}
}

// readFiles reads the outputs and exports of a process. Of one that failed it reads nothing but what must be masked in the
// log that is still held back.
func (x *execution) readFiles(ok bool) (map[string]value.Value, map[string]variable, error) {
	read := readEntries
	if x.inv.spec.DelegateOutputs {
		read = readStepResult
	}
	given, err := readStepFile(x.files.output, read)
	if !ok {
		given, _ = x.talk.addTo(given, nil)
		for name, v := range given {
			v.Mark(x.inv.spec.Outputs[name].Sensitive).Secrets(x.run.out.addSecret)
		}
		return nil, nil, nil
	}
	if err == nil && given == nil && x.inv.spec.DelegateOutputs {
		err = errors.New("delegate: the output file is empty; it must contain one StepResult as JSON")
	}
	exported, eerr := readStepFile(x.files.export, readEntries)
	given, exported = x.talk.addTo(given, exported)
	var outputs map[string]value.Value
	if err == nil {
		outputs, err = checkOutputs(x.inv.spec, given)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read output file: %w", err)
	}
	x.run.out.addSensitive(outputs)
	secrets := map[string]bool{} // also those that are too short to be masked
	for _, v := range outputs {
		v.Secrets(func(text string) { secrets[text] = text != "" })
	}
	if eerr != nil {
		return nil, nil, fmt.Errorf("read env file: %w", eerr)
	}
	exports := make(map[string]variable, len(exported))
	for _, name := range slices.Sorted(maps.Keys(exported)) {
		text, err := exportText(name, exported[name])
		if err != nil {
			return nil, nil, fmt.Errorf("read env file: %w", err)
		}
		if err := checkVariable(name, text); err != nil {
			return nil, nil, fmt.Errorf("read env file: %w", err)
		}
		exports[name] = variable{text: text, sensitive: secrets[text] || x.run.out.mask.String(text) != text}
	}
	return outputs, exports, nil
}

// holdsSecrets reports whether a step may give secrets that nobody knows before it ends.
func holdsSecrets(spec *plan.Spec) bool {
	for _, out := range spec.Outputs {
		if out.Sensitive {
			return true
		}
	}
	return false
}

// checkVariable says what keeps a name and a text from being an environment variable.
func checkVariable(name, text string) error {
	switch {
	case strings.ContainsAny(name, "=\x00"):
		return fmt.Errorf("key %q: cannot be the name of an environment variable", name)
	case strings.ContainsRune(text, 0):
		return fmt.Errorf("key %q: the value contains a NUL byte, which an environment variable cannot", name)
	}
	return nil
}
