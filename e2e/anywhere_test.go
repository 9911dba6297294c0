package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor/executortest/enginetest"
)

// place is a folder in which step-runner runs with a home of its own.
type place struct {
	t              *testing.T
	dir, bin, home string
}

func newPlace(t *testing.T, bin string, programs ...string) *place {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	p := &place{t: t, dir: filepath.Join(t.TempDir(), "work"), bin: bin, home: t.TempDir()}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", p.home).Run() })
	return p
}

// buildForBash is build where the tests of this file can run.
func buildForBash(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("needs bash")
	}
	for _, program := range []string{"bash", "git"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	return build(t)
}

// sh runs a shell command in the folder, and returns what it prints and its exit code.
func (p *place) sh(ctx context.Context, command string) (string, int) {
	p.t.Helper()
	cmd := exec.CommandContext(ctx, "bash", "-c", command)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+p.bin+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+p.home, "XDG_CACHE_HOME=", "STEP_RUNNER_CACHE=",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) && ctx.Err() == nil {
		p.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs a shell command that has to succeed.
func (p *place) must(command string) string {
	p.t.Helper()
	out, code := p.sh(p.t.Context(), command)
	if code != 0 {
		p.t.Fatalf("%s: exit code %d\n%s", command, code, out)
	}
	return out
}

// elsewhere replays a trace of the folder in another one, by another user, in a container: see anywhere.sh.
func (p *place) elsewhere(trace string) {
	p.t.Helper()
	enginetest.Optional(p.t)
	script, err := filepath.Abs("anywhere.sh")
	if err != nil {
		p.t.Fatal(err)
	}
	p.must(script + " " + trace)
}

func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		p.t.Fatal(err)
	}
}

// TestAReplayIsTheSameAnywhere replays what differed between machines, or once did. The jobs of the scripts here are replayed by these.
func TestAReplayIsTheSameAnywhere(t *testing.T) {
	t.Parallel()
	bin := buildForBash(t)
	const module = `import {fileURLToPath} from 'node:url'
if (fileURLToPath(import.meta.url) === process.argv[1]) console.log('the module is the program, in', import.meta.dirname)
else process.exitCode = 1
`
	const repository = "mv repo .. && cd ../repo && git init -q -b main && git add . && git commit -qm one && git tag v1 && git tag v1.0 && "
	for name, c := range map[string]struct {
		programs []string
		files    map[string]string
		before   string
		code     int
	}{
		"a local component that says where it is": {files: map[string]string{
			"comp/func.yml":     "spec: {}\n---\nrun:\n  - {script: 'echo in ${{ step_dir }}'}\n  - {step: ./lib}\n",
			"comp/lib/func.yml": "spec: {}\n---\nexec: {script: 'echo in ${{ step_dir }}'}\n",
			"steps.yml":         "- step: ./comp\n- script: pwd\n",
		}},
		"a run that failed on a missing archive": {code: 6, files: map[string]string{
			"steps.yml": "- script: echo one\n- {name: gone, step: ./gone.zip/-/x}\n- {name: again, when: always, step: '${{ job.WHICH }}'}\n- {name: other, when: always, step: '${{ job.OTHER }}'}\n",
		}},
		"one package by two references": {before: repository, files: map[string]string{
			"repo/steps/hello/func.yml": "spec: {}\n---\nexec: {script: 'echo ${{ step_dir }}'}\n",
			"steps.yml": "- parallel:\n    - {name: a, step: {git: {url: 'file://DIR/../repo', rev: v1, dir: steps/hello}}}\n" +
				"    - {name: b, step: {git: {url: 'file://DIR/../repo', rev: v1.0, dir: steps/hello}}}\n",
		}},
		"an ES module that compares its path with its argument": {programs: []string{"node"}, before: repository, files: map[string]string{
			"repo/steps/module/func.yml": "spec: {}\n---\nexec: {command: [node, '${{ step_dir }}/main.mjs']}\n",
			"repo/steps/module/main.mjs": module,
			"steps.yml":                  "- {name: a, step: {git: {url: 'file://DIR/../repo', rev: v1, dir: steps/module}}}\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, bin, c.programs...)
			for file, text := range c.files {
				p.write(file, strings.ReplaceAll(text, "DIR/..", filepath.Dir(p.dir)))
			}
			p.must(c.before + "true")
			out, code := p.sh(t.Context(), "step-runner run steps.yml --job WHICH=./gone.zip/-/x --job OTHER=./other.zip/-/x --output-file trace.json")
			if code != c.code {
				t.Fatalf("exit code %d, want %d\n%s", code, c.code, out)
			}
			p.elsewhere("trace.json")
		})
	}
}

// TestEveryExampleIsTheSameAnywhere replays those that a script here does not, and looks that the scripts do.
func TestEveryExampleIsTheSameAnywhere(t *testing.T) {
	t.Parallel()
	bin := buildForBash(t)
	scripts := map[string]string{"actions": "actions.sh", "workflow": "actions.sh", "pipeline": "pipeline.sh", "levels": "pipeline.sh"}
	examples, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		if !e.IsDir() || slices.Contains([]string{"broken", "plugins", "fleet"}, e.Name()) { // nothing of them runs, or they are no steps
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			if script := scripts[e.Name()]; script != "" {
				text, err := os.ReadFile(script)
				if err != nil || !strings.Contains(string(text), "examples/"+e.Name()) || !strings.Contains(string(text), "/anywhere.sh") {
					t.Errorf("%s does not replay it (%v)", script, err)
				}
				return
			}
			p := newPlace(t, bin)
			if err := os.CopyFS(filepath.Join(p.dir, "examples"), os.DirFS(filepath.Join(root, "examples"))); err != nil {
				t.Fatal(err)
			}
			p.sh(t.Context(), "step-runner run examples/"+e.Name()+"/steps.yml --output-file trace.json") // demo fails, as it should
			p.elsewhere("trace.json")
		})
	}
}

// TestTheFourCommands are those that the design began with, one after the other, in one folder.
func TestTheFourCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t, buildForBash(t))
	if err := os.CopyFS(p.dir, os.DirFS(filepath.Join(root, "examples", "pipeline"))); err != nil {
		t.Fatal(err)
	}
	p.write("steps.yml", "- {name: hello, script: echo hello}\n")
	p.must("git init -q -b main . && git add . && git commit -qm one")
	if out := p.must("STEPS=$(cat steps.yml) step-runner ci"); !strings.Contains(out, "hello\n") {
		t.Error(out)
	}
	p.must("step-runner local .gitlab-ci.yml --format gitlab-ci --job-name hello-world --output-file trace.json")
	if out := p.must("step-runner replay trace.json"); !strings.Contains(out, "same: ") {
		t.Error(out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if out, code := p.sh(ctx, "step-runner ci --port 8080 & pid=$!; for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/8080) 2>/dev/null && break; sleep 0.05; done; kill $pid; wait $pid"); code != 0 && code != 130 && code != 143 {
		t.Errorf("exit code %d\n%s", code, out)
	} else if !strings.Contains(out, "listening on 127.0.0.1:8080") && !strings.Contains(out, "address already in use") {
		t.Error(out)
	}
	t.Run("and again, now that there is a trace in the folder", func(t *testing.T) {
		p.must("step-runner local .gitlab-ci.yml --format gitlab-ci --job-name hello-world --output-file trace.json")
		p.elsewhere("trace.json")
	})
}
