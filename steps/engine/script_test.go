package engine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/builtinexit"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// command returns the command of the first process that ran.
func (r *ran) command() []string {
	r.t.Helper()
	for _, e := range r.events {
		if started, ok := e.Body.(event.ExecStarted); ok {
			return started.Command
		}
	}
	r.t.Fatal("no process ran")
	return nil
}

func TestALogFile(t *testing.T) {
	t.Parallel()
	t.Run("takes both streams of a script, masked", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {name: a, script: 'echo one; echo s3cr3t-value >&2', log_file: log.txt}",
			opts:  engine.Options{Mask: []string{"s3cr3t-value"}},
		}.run(t)
		got, err := os.ReadFile(filepath.Join(r.dir, "log.txt"))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(got); !strings.Contains(text, "one\n") || !strings.Contains(text, "[MASKED]") || strings.Contains(text, "s3cr3t") {
			t.Errorf("the file holds %q", text)
		}
	})
	t.Run("takes that of a command, and of its last attempt only", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {name: a, exec: {command: [./count.sh], log_file: '${{ work_dir }}/log.txt'}, retry: 2}",
			files: map[string]string{"count.sh": "#!/bin/sh\necho x >>tries; cat tries | wc -l | tr -d ' '; exit 1\n"},
		}.run(t)
		got, _ := os.ReadFile(filepath.Join(r.dir, "log.txt"))
		if string(got) != "3\n" {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("that cannot be written is said, with the place", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: a, script: 'true', log_file: no/log.txt}", files: map[string]string{"no": ""}}.run(t)
		if r.Error == nil || !strings.Contains(r.Error.Message, "cannot write the log file") || len(r.Error.Diagnostics) != 1 {
			t.Errorf("the error is %+v", r.Error)
		}
	})
	t.Run("whose name comes out empty is none", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {name: a, script: 'true', log_file: '${{ \"\" }}'}"}.run(t)
		if r.Status != event.Success {
			t.Errorf("the run ended with %+v", r.Error)
		}
	})
}

func TestAnInputFileHoldsTheInputs(t *testing.T) {
	t.Parallel()
	r := job{
		steps: "- {name: a, step: ./show, inputs: {text: 'a \"quoted\" text', secret: hidden-value}}",
		files: map[string]string{"show/func.yml": `spec:
  inputs:
    text: {type: string}
    list: {type: array, default: [1, two]}
    secret: {type: string, sensitive: true}
---
exec:
  command: [cp, "${{ input_file }}", inputs.json]
`},
	}.run(t)
	got, err := os.ReadFile(filepath.Join(r.dir, "inputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"list":[1,"two"],"secret":"hidden-value","text":"a \"quoted\" text"}` + "\n"; string(got) != want {
		t.Errorf("the file holds %s", got)
	}
	if _, err := os.Stat(r.command()[1]); err == nil {
		t.Error("the file is still there after the step")
	}
}

func TestAShellMayBeAnExpression(t *testing.T) {
	t.Parallel()
	r := job{steps: "- {name: a, script: 'echo $0', shell: '${{ \"sh\" }}'}"}.run(t)
	if got := filepath.Base(r.command()[0]); got != "sh" {
		t.Errorf("%s ran", got)
	}
	r = job{steps: "- {name: a, script: 'true', shell: '${{ \"nosuchshell\" }}'}"}.run(t)
	if r.Error == nil || !strings.Contains(r.Error.Message, "no nosuchshell was found") {
		t.Errorf("the error is %+v", r.Error)
	}
}

func TestACommandCalledStepRunnerIsThisProgram(t *testing.T) {
	t.Parallel()
	fake := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$@\" >ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := job{steps: "- {name: a, exec: {command: [step-runner, builtin, x]}}", opts: engine.Options{Program: fake}}.run(t)
	if got, _ := os.ReadFile(filepath.Join(r.dir, "ran")); string(got) != "builtin x\n" {
		t.Errorf("the program was called with %q", got)
	}
	if got := strings.Join(r.command(), " "); got != "step-runner builtin x" {
		t.Errorf("the trace shows %q: where the program is differs from machine to machine", got)
	}
}

func TestABuiltInStepSaysWhoseFaultItIs(t *testing.T) {
	t.Parallel()
	for code, said := range map[int]event.Code{builtinexit.DiskFull: event.CodeDiskFull, builtinexit.Unavailable: event.CodeServiceUnavailable} {
		fake := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(fake, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code), 0o755); err != nil {
			t.Fatal(err)
		}
		for command, want := range map[string]event.Code{
			"step-runner, builtin, x": said,
			"step-runner, run, x":     event.CodeExitStatus,
			fake:                      event.CodeExitStatus,
		} {
			r := job{steps: "- {name: a, exec: {command: [" + command + "]}}", opts: engine.Options{Program: fake}}.run(t)
			if r.Error == nil || r.Error.Code != want || (r.ExitCode == nil) != (want == said) {
				t.Errorf("%s: the error is %+v", command, r.Error)
			}
		}
	}
}

func TestWhatOnlyThisProgramKnowsOfItsMachine(t *testing.T) {
	t.Parallel()
	fake := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$ENGINE\" >>said\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := job{
		steps: "- {name: a, exec: {command: [step-runner, builtin, x]}}\n- {name: b, script: 'echo \"script: $ENGINE\" >>said'}",
		opts: engine.Options{Program: fake, ProgramEnv: func(args, env []string) []string {
			return append(env, "ENGINE="+strings.Join(args, " "))
		}},
	}.run(t)
	if got, _ := os.ReadFile(filepath.Join(r.dir, "said")); string(got) != "builtin x\nscript: \n" {
		t.Errorf("the processes found %q", got)
	}
}
