package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/engine"
	"github.com/rungci/rung/steps/event"
)

// TestAComponentHasAHomeOfItsOwn is about what components leave for others in a home folder, and what they find there.
func TestAComponentHasAHomeOfItsOwn(t *testing.T) {
	t.Parallel()
	const (
		plant = "---\nexec: {script: 'echo planted >>$HOME/.rc; echo set >$GIT_CONFIG_GLOBAL; mkdir -p $XDG_CONFIG_HOME; echo $HOME >home'}\n"
		look  = "{script: 'cat $HOME/.rc 2>/dev/null || echo nothing'}\n"
	)
	for _, test := range []struct{ name, spec, step, want string }{
		{"which ends with the step", "{}", "", "mine\n"},
		{"unless it requests the job's", "{home: job}", "", "mine\nplanted\n"},
		{"or its caller gives it the environment around it", "{}", ", inherit_env: true", "mine\nplanted\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := job{
				steps: "- {script: 'echo mine >$HOME/.rc'}\n- {step: ./plant" + test.step + "}\n- " + look,
				files: map[string]string{"plant/func.yml": "spec: " + test.spec + "\n" + plant},
			}.run(t)
			r.succeeds().logs(test.want)
		})
	}
	t.Run("which is removed, also where nothing can be removed from", func(t *testing.T) {
		t.Parallel()
		r := job{
			steps: "- {step: ./c}\n- script: test ! -e $(cat home)\n",
			files: map[string]string{"c/func.yml": "spec: {}\n---\nexec: {script: 'echo $HOME >home; mkdir -p $HOME/a/b; touch $HOME/a/b/c; chmod 500 $HOME/a/b'}\n"},
		}.run(t)
		r.succeeds()
	})
	t.Run("and all that is in it shares", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{
			"outer/func.yml": "spec: {}\n---\nrun:\n  - {name: login, step: ../login}\n  - " + look + "  - {name: other, step: ../other}\n",
			"login/func.yml": "spec: {home: job}\n---\nexec: {script: 'echo in >>$HOME/.rc'}\n",
			"other/func.yml": "spec: {}\n---\nexec: " + look,
		}
		job{steps: "- {step: ./outer}\n- " + look, files: files}.run(t).succeeds().logs("in\nnothing\nnothing\n")
	})
	t.Run("on every attempt the same", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": "spec: {}\n---\nexec: {script: 'echo again >>$HOME/tries; test $(wc -l <$HOME/tries) = 2'}\n"}
		job{steps: "- {step: ./c, retry: 1}\n", files: files}.run(t).succeeds()
	})
	t.Run("an empty one for what cleans up after it", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": `spec: {}
---
exec: {script: 'echo x >$HOME/.rc'}
post: {exec: {script: 'ls -A $HOME; echo cleaned >$HOME/.rc; echo $HOME >home'}}
`}
		r := job{steps: "- {step: ./c}\n", files: files}.run(t)
		r.succeeds().logs("")
		if home, err := os.ReadFile(filepath.Join(r.dir, "home")); err != nil || !strings.Contains(string(home), "homes") {
			t.Errorf("the hook had the home %q (%v)", home, err)
		}
	})
	t.Run("but not in a run that inherits", func(t *testing.T) {
		t.Parallel()
		files := map[string]string{"c/func.yml": "spec: {}\n---\nexec: " + look}
		job{steps: "- {script: 'echo mine >$HOME/.rc'}\n- {step: ./c}\n", files: files, opts: engine.Options{InheritEnv: true}}.run(t).succeeds().logs("mine\n")
	})
	t.Run("which the events name once", func(t *testing.T) {
		t.Parallel()
		r := job{steps: "- {step: ./c}\n", files: map[string]string{"c/func.yml": "spec: {}\n---\nexec: {command: ['true']}\n"}}.run(t)
		r.succeeds()
		if env := bodies[event.ExecStarted](r)[0].Env; len(env) != 1 || env["HOME"] == "" {
			t.Errorf("the process has %v", env)
		}
	})
}
