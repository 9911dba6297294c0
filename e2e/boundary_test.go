package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/event"
	"github.com/rungci/rung/steps/service/client"
)

// travelling is a job that moves to a new process at every boundary.
type travelling struct {
	folder  string            // of examples, that is the work directory; "" is an empty one
	prepare string            // a command that runs in the work directory before
	steps   string            // "" is steps.yml of the folder
	files   map[string]string // in the work directory
	env     map[string]string
	program string // without which the job cannot run
	serve   []string
	change  func(*client.Request)
}

var travellers = map[string]travelling{
	"the demo": {folder: "demo"},
	"actions":  {folder: "actions", program: "node", prepare: "./repositories.sh github >/dev/null", env: map[string]string{"BUILDER": "me"}, serve: []string{"--sources", "sources.toml"}},
	"a job of GitLab, as it compiles": {steps: `
- {name: get_sources, func: builtin://git/checkout, inputs: {strategy: none}}
- {name: restore_cache, func: builtin://cache/restore, inputs: {key: k, location: "${{ work_dir }}/.rung/cache"}}
- name: script
  func: builtin://script
  inputs:
    lines:
      - echo before
      - echo "hello $WHO" >out.txt
      - exit 1
  env: {WHO: me}
- name: after_script
  if: steps.script.status != "skipped" && steps.script.timeout != "run"
  when: always
  timeout: 5m
  allow_failure: true
  func: builtin://script
  inputs: {lines: ['echo "after ${{ steps.script.status }}"']}
- {name: save_cache, when: always, allow_failure: true, func: builtin://cache/save, inputs: {key: k, location: "${{ work_dir }}/.rung/cache", paths: [out.txt]}}
- {name: upload_artifacts, when: always, func: builtin://artifacts/upload, inputs: {location: "${{ work_dir }}/.rung/artifacts", paths: [out.txt]}}
`},
	"all sorts of steps": {
		steps: `
- name: login
  step: ./login
  secrets: [TOKEN]
- {name: watch, background: true, script: 'while ! test -e "$HOME/go"; do sleep 0.02; done; echo seen'}
- {name: go, script: 'touch "$HOME/go"; echo "$AUTH"'}
- {name: seen, wait: watch}
- name: both
  parallel:
    - {name: left, script: 'echo left >"$TMPDIR/left"; echo "${{ steps.login.outputs.key }}"'}
    - {name: right, retry: 1, script: 'test -e again || { touch again; exit 1; }'}
- {name: fails, script: 'cat "$TMPDIR/left" "${{ job.CONFIG }}"; exit 3'}
- {name: never, script: echo never}
- {name: report, when: always, script: 'echo ${{ steps.right.status }} ${{ steps.fails.status }} ${{ steps.never.status }} ${{ vars.PASSWORD }}'}
`,
		files: map[string]string{"login/func.yml": `
spec: {secrets: {TOKEN: {}}, outputs: {key: {type: string, sensitive: true}}, exports: [AUTH]}
---
post: {exec: {script: 'echo "logout $AUTH"'}}
exec:
  script: |
    echo "{\"name\":\"key\",\"value\":\"key-of-$TOKEN\"}" >${{ output_file }}
    echo "{\"name\":\"AUTH\",\"value\":\"Bearer $TOKEN\"}" >${{ export_file }}
`},
		change: func(r *client.Request) {
			r.Secrets = map[string]string{"TOKEN": "t0ken-of-somebody"}
			r.Variables = []client.Variable{{Name: "PASSWORD", Value: "pa55word-x", Masked: true}, {Name: "CONFIG", Value: "in a file\n", File: true}}
		},
	},
}

// journey is a job in its work directory.
type journey struct {
	travelling
	t       *testing.T
	bin     string
	workDir string
	traces  string
	steps   string
}

func (j travelling) start(t *testing.T, bin string) *journey {
	t.Helper()
	out := &journey{travelling: j, t: t, bin: bin, workDir: t.TempDir(), traces: t.TempDir(), steps: j.steps}
	if j.folder != "" {
		if err := os.CopyFS(out.workDir, os.DirFS(filepath.Join(root, "examples", j.folder))); err != nil {
			t.Fatal(err)
		}
	}
	if j.steps == "" {
		text, err := os.ReadFile(filepath.Join(root, "examples", j.folder, "steps.yml"))
		if err != nil {
			t.Fatal(err)
		}
		out.steps = strings.ReplaceAll(string(text), "./examples/"+j.folder+"/", "./")
	}
	for name, text := range j.files {
		path := filepath.Join(out.workDir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if j.prepare != "" {
		cmd := exec.Command("bash", "-c", j.prepare)
		cmd.Dir = out.workDir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z") // the same commits every time
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", j.prepare, err, text)
		}
	}
	return out
}

// in runs a part of the job in a process of its own.
func (j *journey) in(id string, do func(c *client.Client, s *server)) {
	j.t.Helper()
	dir := shortDir(j.t)
	var args []string
	for _, arg := range j.serve {
		if strings.HasSuffix(arg, ".toml") {
			arg = filepath.Join(j.workDir, arg)
		}
		args = append(args, arg)
	}
	s := startServer(j.t, j.bin, dir, append([]string{"serve", dir}, args...)...)
	c := dialClient(j.t, "unix:"+s.say(j.t, ready))
	do(c, s)
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

func (j *journey) request(id string) client.Request {
	r := client.Request{ID: id, Text: j.steps, WorkDir: j.workDir, Env: j.env}
	if j.change != nil {
		j.change(&r)
	}
	return r
}

// trace keeps the trace of a run and returns its file.
func (j *journey) trace(c *client.Client, id string, incomplete bool) string {
	j.t.Helper()
	var b bytes.Buffer
	if err := c.GetTrace(soon(j.t), id, &b, incomplete); err != nil {
		j.t.Fatal(err)
	}
	path := filepath.Join(j.traces, id+".json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		j.t.Fatal(err)
	}
	return path
}

// run runs step-runner and returns its output.
func (j *journey) run(args ...string) string {
	j.t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(j.bin, "step-runner"), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		j.t.Fatalf("step-runner %q: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

func ended(t *testing.T, c *client.Client, id string) *client.Status {
	t.Helper()
	if _, err := c.FollowLogs(soon(t), id, new(bytes.Buffer), client.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	st, err := c.Status(soon(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestARunThatMovesToANewProcessAtEveryBoundaryLeavesTheTraceOfOneThatStays(t *testing.T) {
	t.Parallel()
	bin := build(t)
	for name, job := range travellers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if job.program != "" {
				if _, err := exec.LookPath(job.program); err != nil {
					t.Skipf("needs %s", job.program)
				}
			}
			stays := job.start(t, bin)
			var stayed string
			stays.in("stays", func(c *client.Client, _ *server) {
				if err := c.Run(soon(t), stays.request("stays")); err != nil {
					t.Fatal(err)
				}
				ended(t, c, "stays")
				stayed = stays.trace(c, "stays", false)
			})
			moves := job.start(t, bin)
			parts, positions := moves.travel()
			whole := filepath.Join(moves.traces, "whole.json")
			moves.run(append([]string{"trace", "join", "-o", whole}, parts...)...)
			want, got := stays.run("trace", "export", "-f", "comparable", stayed), moves.run("trace", "export", "-f", "comparable", whole)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("moved before %q:\n%s", positions, diff)
			}
			if len(positions) < 6 {
				t.Errorf("it moved at %q only", positions)
			}
			if leak := "t0ken-of-somebody"; strings.Contains(got, leak) {
				t.Errorf("the secret is in the trace:\n%s", got)
			}
		})
	}
}

// travel runs the job, each step in a process of its own, and returns the traces of the parts and where it moved.
func (j *journey) travel() (parts, positions []string) {
	t := j.t
	var from *client.Origin
	for n, end := 1, false; !end; n++ {
		id := fmt.Sprint("part-", n)
		j.in(id, func(c *client.Client, _ *server) {
			r := j.request(id)
			r.From, r.Paused = from, true
			if err := c.Run(soon(t), r); err != nil {
				t.Fatal(err)
			}
			at, _, err := c.Pause(soon(t), id, -1)
			if err != nil {
				t.Fatal(err)
			}
			if from != nil {
				if at.Before != positions[len(positions)-1] {
					t.Fatalf("it left before step %s, and goes on before step %s", positions[len(positions)-1], at.Before)
				}
				if was, err := c.Resume(soon(t), id, true); err != nil || !was {
					t.Fatal(was, err)
				}
				at, _, err = c.Pause(soon(t), id, -1)
			}
			if errors.Is(err, client.ErrNotPaused) {
				end = true
				ended(t, c, id)
				parts = append(parts, j.trace(c, id, false))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			positions = append(positions, at.Before)
			from = j.leave(c, id)
			parts = append(parts, filepath.Join(j.traces, id+".json"))
		})
	}
	return parts, positions
}

// leave takes all that moves from a server.
func (j *journey) leave(c *client.Client, id string) *client.Origin {
	t := j.t
	t.Helper()
	folder := filepath.Join(t.TempDir(), "files")
	state, err := c.State(soon(t), id, folder)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(state.Document, []byte("t0ken-of-somebody")) || bytes.Contains(state.Document, []byte("pa55word-x")) {
		t.Errorf("a secret is in the document:\n%s", state.Document)
	}
	j.trace(c, id, true)
	if err := c.Moved(soon(t), id); err != nil {
		t.Fatal(err)
	}
	if err := c.Moved(soon(t), id); err != nil {
		t.Errorf("again: %v", err)
	}
	return &client.Origin{State: state, Folder: folder}
}

func TestAPausedRunWhoseProcessIsKilledGoesOnInAnother(t *testing.T) {
	t.Parallel()
	bin := build(t)
	j := travelling{steps: "- {name: a, script: echo a >>said}\n- {name: b, script: echo b >>said}\n- {name: c, when: always, script: cat said}\n"}.start(t, bin)
	var state client.State
	j.in("killed", func(c *client.Client, s *server) {
		r := j.request("killed")
		r.Paused = true
		if err := c.Run(soon(t), r); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.Pause(soon(t), "killed", -1); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Resume(soon(t), "killed", true); err != nil {
			t.Fatal(err)
		}
		at, _, err := c.Pause(soon(t), "killed", -1)
		if err != nil || at.Before != "2" {
			t.Fatal(at, err)
		}
		if state, err = c.State(soon(t), "killed", ""); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Process.Kill() // SIGKILL: nothing of the run is left, and none of its steps cleans up
		_ = s.cmd.Wait()
	})
	if said, err := os.ReadFile(filepath.Join(j.workDir, "said")); err != nil || string(said) != "a\n" {
		t.Fatalf("%q, %v", said, err)
	}
	j.in("other", func(c *client.Client, _ *server) {
		r := j.request("other")
		r.From = &client.Origin{State: state}
		var log bytes.Buffer
		st, err := c.Execute(soon(t), r, &log)
		if err != nil || st.State != event.Success || log.String() != "a\nb\n" {
			t.Errorf("%+v, %v: %q", st, err, log.String())
		}
	})
}
