package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/internal/process"
	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/value"
)

// needsConfinement skips a test where processes cannot be confined.
func needsConfinement(t *testing.T) {
	t.Helper()
	if err := process.CanConfine(); err != nil {
		t.Skipf("processes cannot be confined here: %v", err)
	}
}

// looks is a component that says whether it is process 2 or so of a small world.
const looks = "spec: {}\n---\nexec: {script: 'if test -e /proc/1/root/etc/hostname -o $$ -gt 50; then echo free; else echo confined; fi'}\n"

func TestWhichStepsAreConfined(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	files := map[string]string{
		"c/func.yml": looks, "fetched/func.yml": looks, "whole/func.yml": "spec: {}\n---\nrun: [{step: ../c}, {step: ../c, confine: false}]\n",
	}
	for _, test := range []struct {
		mode        plan.Confinement
		steps, want string
	}{
		{"", "[{step: ./c}, {step: ./c, confine: true}, {action: owner/fetched@v1}]", "free confined free"},
		{plan.ConfineFetched, "[{step: ./c}, {step: ./c, confine: true}]", "free confined"},
		{plan.ConfineFetched, "[{step: ./whole}, {step: ./whole, confine: true}]", "free free confined confined"},
		{plan.ConfineAll, "[{step: ./c}, {step: ./c, confine: false}, {step: ./whole}]", "confined confined confined confined"},
		{plan.ConfineNone, "[{step: ./c}, {step: ./c, confine: true}]", "free confined"},
	} {
		t.Run(string(test.mode)+" "+test.steps, func(t *testing.T) {
			t.Parallel()
			j, _, _ := job{steps: test.steps, files: files, opts: engine.Options{Confine: test.mode}}.talking(t)
			r := j.run(t).succeeds().logs(strings.ReplaceAll(test.want, " ", "\n") + "\n")
			var recorded []string
			for _, body := range bodies[event.ExecStarted](r) {
				recorded = append(recorded, map[bool]string{true: "confined", false: "free"}[body.Confined])
			}
			if got := strings.Join(recorded, " "); got != test.want || bodies[event.RunStarted](r)[0].Confine != test.mode {
				t.Errorf("the events have %q", got)
			}
		})
	}
}

// TestAConfinedStepHasItsOwn has a step read its input, give an output and an export, and leave something in its folders for the next.
func TestAConfinedStepHasItsOwn(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	job{steps: `
- {name: before, script: 'echo of-all >~/note; echo of-all >$TMPDIR/note; echo here >file'}
- {name: c, step: ./c, inputs: {text: given}, confine: true}
- {name: after, script: 'echo ${{ steps.c.outputs.text }} $MODE; cat made; ls ~ $TMPDIR | grep -c left || true'}
`, files: map[string]string{"c/data": "of the package\n", "c/func.yml": `
spec:
  inputs: {text: {type: string}}
  outputs: {text: {type: string}}
  exports: [MODE]
---
exec:
  script: |
    cat ~/note $TMPDIR/note 2>/dev/null || echo none
    cat file "${{ step_dir }}/data"; grep -c given "${{ input_file }}"
    touch ~/left $TMPDIR/left /tmp/left; echo made >made
    echo '{"name": "text", "value": "${{ inputs.text }}"}' >"${{ output_file }}"
    echo '{"name": "MODE", "value": "set"}' >"${{ export_file }}"
`}}.run(t).succeeds().logs("none\nhere\nof the package\n1\ngiven set\nmade\n0\n")
}

func TestAConfinedComponentHasTheAccessThatItRequestsAndIsAllowed(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "file"), []byte("outside\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	component := func(access, script string) string {
		return "spec: {" + access + "}\n---\nexec: {script: '" + script + "'}\n"
	}
	reads := "cat " + outside + "/file 2>/dev/null || echo none; (echo x >" + outside + "/new) 2>/dev/null || echo read-only"
	for name, test := range map[string]struct{ spec, step, code, want string }{
		"nothing":                   {"", "", "", "none\nread-only\n"},
		"what is allowed":           {"access: [" + outside + "]", "allow_access: [" + outside + "]", "", "outside\nread-only\n"},
		"to write":                  {"access: [\"" + outside + ":rw\"]", "allow_access: [\"" + outside + ":rw\"]", "", "outside\n"},
		"a part of what is":         {"access: [" + outside + "/file]", "allow_access: [\"" + outside + ":rw\"]", "", "outside\n"},
		"nothing it did not want":   {"", "allow_access: [" + outside + "]", "", "none\nread-only\n"},
		"nothing it is not allowed": {"access: [" + outside + "]", "", string(event.CodeAccessNotGranted), ""},
		"not more than allowed":     {"access: [\"" + outside + ":rw\"]", "allow_access: [" + outside + "]", string(event.CodeAccessNotGranted), ""},
	} {
		t.Run(name, func(t *testing.T) {
			step := "- {step: ./c, confine: true"
			if test.step != "" {
				step += ", " + test.step
			}
			r := job{steps: step + "}\n", files: map[string]string{"c/func.yml": component(test.spec, reads)}}.run(t)
			_, err := os.Stat(filepath.Join(outside, "new")) // elsewhere it is written to a folder of the step
			if wrote := err == nil; wrote != (name == "to write") {
				t.Errorf("it wrote: %v", wrote)
			}
			_ = os.Remove(filepath.Join(outside, "new"))
			if test.code == "" {
				r.succeeds().logs(test.want)
			} else if r.Error == nil || string(r.Error.Code) != test.code {
				t.Errorf("got %v", r.Error)
			}
		})
	}
	t.Run("in a component, no more than that has", func(t *testing.T) {
		files := map[string]string{
			"outer/func.yml": "spec: {}\n---\nrun: [{step: ../inner, allow_access: [" + outside + "]}]\n",
			"inner/func.yml": component("access: ["+outside+"]", reads),
		}
		r := job{steps: "- {step: ./outer, confine: true}\n", files: files}.run(t)
		if r.Error == nil || r.Error.Code != event.CodeAccessNotGranted {
			t.Errorf("got %v", r.Error)
		}
		job{steps: "- {step: ./outer}\n", files: files}.run(t).succeeds()
	})
	t.Run("a script, what it is allowed", func(t *testing.T) {
		job{steps: "- {script: 'cat " + outside + "/file', confine: true, allow_access: [" + outside + "]}\n"}.run(t).succeeds().logs("outside\n")
	})
	t.Run("the home folder of the run", func(t *testing.T) {
		job{steps: `
- {name: login, step: ./login, confine: true, allow_access: ["~/.config:rw"]}
- {name: use, script: cat ~/.config/token}
`, files: map[string]string{"login/func.yml": component(`access: ["~/.config:rw"]`, "echo token >~/.config/token")}}.run(t).succeeds().logs("token\n")
	})
}

// TestAConfinedScriptWithASecretReadsItFromMemory has a script that is in a file in memory because of a secret.
func TestAConfinedScriptWithASecretReadsItFromMemory(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	job{steps: "- {name: s, script: 'X=${{ job.TOKEN }}; echo ${#X}', confine: true}\n",
		opts: engine.Options{Job: map[string]engine.Variable{"TOKEN": {Value: "a-secret-of-the-job", Sensitive: true}}}}.run(t).succeeds().logs("19\n")
}

// TestTheLogFileOfAConfinedStepIsWhereTheStepCouldWrite has a log file that the runner would write for the step, outside of its view.
func TestTheLogFileOfAConfinedStepIsWhereTheStepCouldWrite(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	outside := t.TempDir()
	component := "spec: {inputs: {file: {type: string}}}\n---\nexec: {script: echo logged, log_file: '${{ inputs.file }}'}\n"
	for file, message := range map[string]string{
		filepath.Join(outside, "new"): "is not in the work directory",
		"../new":                      "is not in the work directory",
		"link/new":                    "escapes",
		"pipe":                        "pipe",
		"trace":                       "does not see the file",
		"deep/log":                    "",
		"${{ work_dir }}/log":         "",
	} {
		t.Run(file, func(t *testing.T) {
			work := t.TempDir()
			for file, text := range map[string]string{"trace": "trace", "func.yml": component} {
				if err := os.WriteFile(filepath.Join(work, file), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			steps := "- {name: plant, script: 'ln -s " + outside + " link; mkfifo pipe'}\n- {step: ./, confine: true, inputs: {file: '" + file + "'}}\n"
			r := job{steps: steps, dir: work, opts: engine.Options{Hidden: []string{filepath.Join(work, "trace")}}}.run(t)
			if message == "" {
				r.succeeds().logs("logged\n")
			} else if r.Error == nil || !strings.Contains(r.Error.Message, message) {
				t.Errorf("got %v, want %q", r.Error, message)
			}
			if text, err := os.ReadFile(filepath.Join(work, "trace")); string(text) != "trace" {
				t.Errorf("the trace is %q, %v", text, err)
			}
		})
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}

// TestTheHomeOfAConfinedStepIsThatOfItsComponent has one name, as its home, the folder of the run and that of another component.
func TestTheHomeOfAConfinedStepIsThatOfItsComponent(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	for _, home := range []string{"homes/..", "homes/7", "files", "."} {
		t.Run(home, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "secret"), []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			script := "ls " + folder + "/secret 2>/dev/null || echo kept from it; touch ~/planted 2>/dev/null || true"
			job{steps: "- {step: ./c, confine: true}\n", files: map[string]string{
				"c/func.yml": "spec: {}\n---\nrun: [{script: '" + script + "', env: {HOME: " + folder + "/" + home + "}}]\n",
			}, opts: engine.Options{Folder: folder}}.run(t).succeeds().logs("kept from it\n")
			if _, err := os.Stat(filepath.Join(folder, home, "planted")); err == nil {
				t.Error("it wrote there")
			}
		})
	}
}

// TestTheHooksOfAConfinedStepAreConfined has each process of a step say what it sees, and use its own folders.
func TestTheHooksOfAConfinedStepAreConfined(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	says := func(stage string) string {
		return "{exec: {script: 'if test $$ -gt 50; then echo " + stage + " free; else echo " + stage + " confined; fi; ls ~ $TMPDIR | grep -c made || true; touch ~/made $TMPDIR/made'}}"
	}
	hooks := "pre: " + says("pre") + "\npost: " + says("post") + "\n"
	exec := func(stage string) string { return strings.TrimSuffix(strings.TrimPrefix(says(stage), "{"), "}") }
	files := map[string]string{
		"c/func.yml":     "spec: {}\n---\n" + hooks + exec("main") + "\n",
		"local/func.yml": "spec: {}\n---\npost: " + says("post") + "\n" + exec("main") + "\n",
		"outer/func.yml": "spec: {}\n---\nrun: [{name: inner, action: owner/c@v1, confine: false}]\n",
	}
	all, free := "pre confined\n0\nmain confined\n0\npost confined\n0\n", "pre free\n0\nmain free\n1\npost free\n1\n"
	for name, test := range map[string]struct {
		steps, want string
		mode        plan.Confinement
	}{
		"an action":                     {"- {action: owner/c@v1, confine: true}\n", all, ""},
		"an action that is not":         {"- {action: owner/c@v1}\n", free, plan.ConfineFetched},
		"all":                           {"- {action: owner/c@v1}\n", all, plan.ConfineAll},
		"a local component":             {"- {step: ./local, confine: true}\n", "main confined\n0\npost confined\n0\n", ""},
		"an action in what is confined": {"- {action: owner/outer@v1, confine: true}\n", all, ""},
		"after a failure":               {"- {action: owner/c@v1, confine: true}\n- {script: exit 1}\n", all, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _, _ := job{steps: test.steps, files: files, opts: engine.Options{Confine: test.mode}}.talking(t)
			j.run(t).logs(test.want)
		})
	}
	t.Run("an empty variable of the step", func(t *testing.T) {
		t.Parallel()
		says := func(stage string) string { return `exec: {script: 'echo "` + stage + ` [${EMPTY-unset}]"'}` }
		files := map[string]string{"c/func.yml": "spec: {env: {EMPTY: {}}}\n---\npost: {" + says("post") + "}\n" + says("main") + "\n"}
		steps := "- {step: ./c, confine: true, env: {EMPTY: ''}}\n"
		j, _, _ := job{steps: steps, files: files, opts: engine.Options{Env: map[string]string{"EMPTY": "outer"}}}.talking(t)
		j.run(t).logs("main []\npost []\n")
	})
	t.Run("a component that is written inline", func(t *testing.T) { // clients of the service can
		t.Parallel()
		outside, hidden := t.TempDir(), t.TempDir()
		yes, script := true, func(stage string) *plan.Exec {
			return &plan.Exec{Command: []plan.Field{
				{Value: value.OfString("sh")}, {Value: value.OfString("-c")},
				{Value: value.OfString("echo " + stage + "; ls -d " + outside + " " + hidden + " 2>/dev/null | wc -l")},
			}}
		}
		st := plan.Step{Name: "c", Confine: &yes, AllowAccess: []string{outside}, Inline: &plan.Component{Definition: plan.Definition{
			Exec: script("main"), Pre: &plan.Hook{Exec: script("pre")}, Post: &plan.Hook{Exec: script("post")},
		}}}
		job{}.runComponent(t, &plan.Component{Definition: plan.Definition{Steps: []plan.Step{st}}}).succeeds().logs("pre\n1\nmain\n1\npost\n1\n")
	})
}

// TestNothingOfAConfinedStepSurvivesItsEnd stops one that ignores polite signals, with daemons that nothing but its namespace connects to it: the
// process of the step, that of a hook, and one of a step that runs beside others.
func TestNothingOfAConfinedStepSurvivesItsEnd(t *testing.T) {
	t.Parallel()
	needsConfinement(t)
	const stay = `trap "" TERM HUP; (setsid env -i sh -c "trap \"\" TERM; while :; do echo >>$PWD/alive; sleep 0.01; done" </dev/null >/dev/null 2>&1 &); ` +
		`while ! test -s alive; do sleep 0.01; done; echo running; while :; do sleep 0.1; done`
	files := map[string]string{
		"c/func.yml":    "spec: {}\n---\nexec: {script: '" + stay + "'}\n",
		"post/func.yml": "spec: {}\n---\npost: {exec: {script: '" + stay + "', timeout: 3s}}\nexec: {script: 'true'}\n",
		"pre/func.yml":  "spec: {}\n---\npre: {exec: {script: '" + stay + "', timeout: 3s}}\nexec: {script: 'true'}\n",
	}
	for name, test := range map[string]struct {
		steps  string
		cancel bool
	}{
		"a timeout of the step":      {"- {step: ./c, confine: true, timeout: 3s}\n", false},
		"a script's":                 {"- {script: '" + stay + "', confine: true, timeout: 3s}\n", false},
		"a cancel of the run":        {"- {step: ./c, confine: true}\n", true},
		"a cancel of a parallel one": {"- parallel: [{name: a, step: ./c, confine: true}, {name: b, script: 'true', confine: true}]\n", true},
		"a timeout of post":          {"- {step: ./post, confine: true}\n", false},
		"a timeout of pre":           {"- {action: owner/pre@v1, confine: true}\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sink := sinkFunc(func(e event.Event) {
				if l, ok := e.Body.(event.Log); ok && test.cancel && strings.Contains(string(l.Data), "running") {
					cancel()
				}
			})
			j, _, _ := job{steps: test.steps, files: files, ctx: ctx, opts: engine.Options{Grace: 50 * time.Millisecond, Sink: sink}}.talking(t)
			r := j.run(t)
			if r.Status == event.Success || !strings.Contains(r.log(), "running\n") {
				t.Fatalf("status %s, log %q", r.Status, r.log())
			}
			before, err := os.Stat(filepath.Join(r.dir, "alive"))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond) // a daemon that lives would write several times
			if after, err := os.Stat(filepath.Join(r.dir, "alive")); err != nil || after.Size() != before.Size() {
				t.Errorf("the daemon is still writing (%v)", err)
			}
		})
	}
}
