//go:build unix

package attacks

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// withInclude is a pipeline that needs the lock of what it includes.
const withInclude = "include: [{remote: 'https://127.0.0.1:1/other.yml'}]\njob: {script: 'true'}\n"

// TestAHostileRepositoryReadsNoFileOfTheMachine runs in clones that want to show what is beside them.
func TestAHostileRepositoryReadsNoFileOfTheMachine(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-host"
	for name, c := range map[string]struct {
		link string // in the project, to a file of the host
		args []string
	}{
		"the definition": {".gitlab-ci.yml", []string{"local", "--list"}},
		"variables":      {".rung/variables.yml", []string{"local", "--list"}},
		"sources":        {".rung/sources.toml", []string{"run", "steps.yml"}},
		"the lock":       {"steps.lock", []string{"run", "steps.yml"}},
		"locked files":   {".rung/includes.lock", []string{"local", "--list"}},
		"locked actions": {".github/workflows/actions.lock", []string{"lock", ".github/workflows/ci.yml", "--offline"}},
		"the event":      {"event.json", []string{"local", ".github/workflows/ci.yml", "--list", "--event", "push", "--event-file", "event.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			v.write("steps.yml", "- {name: one, script: 'true'}\n")
			if c.link != ".gitlab-ci.yml" {
				v.write(".gitlab-ci.yml", withInclude)
			}
			v.write(".github/workflows/ci.yml", "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'true'}]}}\n")
			host := filepath.Join(v.dir, "host")
			link := filepath.Join(v.dir, "work", c.link)
			for _, err := range []error{
				os.WriteFile(host, []byte(canary+": [\n"), 0o600), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(host, link),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			out, code := v.run(c.args...)
			if code == 0 || strings.Contains(out, canary) || !strings.Contains(out, "outside the project") {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestAHostileGitFolderReadsNoFileOfTheMachine has a .git that leads elsewhere, to a file or to another repository.
func TestAHostileGitFolderReadsNoFileOfTheMachine(t *testing.T) {
	t.Parallel()
	const canary = "canary-of-the-host"
	for name, c := range map[string]struct{ from, to, why string }{
		"a link to a file":   {"work/.git/MERGE_MSG", "host", "symbolic link"},
		"another repository": {"work/.git", "private/.git", "another repository of yours"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t)
			v.write(".gitlab-ci.yml", "job: {script: 'cat .git/MERGE_MSG; git log; echo $CI_COMMIT_MESSAGE'}\n")
			for _, folder := range []string{"work", "private"} {
				for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", folder + " " + canary}} {
					cmd := exec.Command("git", args...)
					cmd.Dir, cmd.Env = filepath.Join(v.dir, folder), v.env
					if err := errors.Join(os.MkdirAll(cmd.Dir, 0o700), cmd.Run()); err != nil {
						t.Fatal(err)
					}
				}
			}
			from, to := filepath.Join(v.dir, c.from), filepath.Join(v.dir, c.to)
			if c.to == "host" {
				if err := os.WriteFile(to, []byte(canary), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.RemoveAll(from), os.Symlink(to, from)); err != nil {
				t.Fatal(err)
			}
			if out, code := v.run("local"); code == 0 || strings.Contains(out, canary) || !strings.Contains(out, c.why) {
				t.Errorf("exit code %d:\n%s", code, out)
			}
		})
	}
}

// TestAHostileRepositoryHoldsNobodyUp has files that never end, and pipes that nobody writes to, in the place of those that are read.
func TestAHostileRepositoryHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		".gitlab-ci.yml": {"local", "--list"}, ".rung/variables.yml": {"local", "--list"}, ".rung/includes.lock": {"local", "--list"},
		"steps.lock": {"run", "steps.yml"}, ".rung/sources.toml": {"run", "steps.yml"},
		"event.json":                     {"local", ".github/workflows/ci.yml", "--list", "--event", "push", "--event-file", "event.json"},
		".github/workflows/actions.lock": {"lock", ".github/workflows/ci.yml", "--offline"},
	} {
		for what, put := range map[string]func(path string) error{
			"without end": func(path string) error { return os.Symlink("/dev/zero", path) },
			"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		} {
			t.Run(name+" is "+what, func(t *testing.T) {
				t.Parallel()
				v := newVictim(t)
				v.write("steps.yml", "- {name: one, script: 'true'}\n")
				v.write(".github/workflows/ci.yml", "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'true'}]}}\n")
				if name != ".gitlab-ci.yml" {
					v.write(".gitlab-ci.yml", withInclude)
				}
				path := filepath.Join(v.dir, "work", name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), put(path)); err != nil {
					t.Fatal(err)
				}
				if out, code := v.run(args...); code == 0 || !strings.Contains(out, "outside the project") && !strings.Contains(out, "not a regular file") && !strings.Contains(out, "not a file") {
					t.Errorf("exit code %d:\n%s", code, out)
				}
			})
		}
	}
}

// TestAHostileRepositoryShowsTextOnly names its jobs and files so that they would act on a terminal, or read as something else.
func TestAHostileRepositoryShowsTextOnly(t *testing.T) {
	t.Parallel()
	const evil = `\e[2J\a\u202Eevil\u200B`
	v := newVictim(t)
	v.write(".gitlab-ci.yml", "workflow: {name: \"name "+evil+"\"}\nstages: [\"stage "+evil+"\"]\n\"job "+evil+"\":\n  stage: \"stage "+evil+"\"\n  script: [\"true\"]\n"+
		"  rules: [{if: '$CI', when: on_success}, {if: \"$X == 'a "+evil+"'\"}, {when: on_success}]\n")
	v.write("include.yml", "include: [\"missing "+evil+".yml\"]\n")
	v.write(".github/workflows/ci.yml", "name: \"name "+evil+"\"\non: push\njobs:\n  a:\n    name: \"job "+evil+"\"\n    runs-on: \"label "+evil+"\"\n"+
		"    steps: [{name: \"step "+evil+"\", run: 'true'}]\n")
	v.write("c/func.yml", "spec: {description: \"text "+evil+"\", inputs: {a: {type: string, default: \"value "+evil+"\"}}}\n---\n"+
		"run: [{name: n, title: \"title "+evil+"\", script: 'exit 1'}]\n")
	for _, args := range [][]string{
		{"local", "--list"}, {"local", "--list", "--all"}, {"local", "--list", "--json"}, {"local", "--dry-run"}, {"local", "include.yml", "--list"},
		{"local", ".github/workflows/ci.yml", "--list"}, {"local", ".github/workflows/ci.yml", "--list", "--json"}, {"local", ".github/workflows/ci.yml", "--dry-run"},
		{"describe", "./c"}, {"run", "./c", "-vv", "--output-file", "t.json"}, {"trace", "show", "t.json"}, {"replay", "t.json"}, {"check", "c/func.yml"},
	} {
		out, _ := v.run(args...)
		if strings.Contains(out, "internal error") || strings.ContainsAny(out, "\x1b\a\u202e\u200b") {
			t.Errorf("step-runner %s prints %q", strings.Join(args, " "), out)
		}
	}
}

// TestAHostileActionRunsNoFileOutsideOfTheProject has a main that climbs out of it.
func TestAHostileActionRunsNoFileOutsideOfTheProject(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.write("act/action.yml", "name: a\ndescription: d\nruns: {using: node20, main: ../../host.js}\n")
	v.write("steps.yml", "- {name: one, action: ./act}\n")
	if err := os.WriteFile(filepath.Join(v.dir, "host.js"), []byte("require('fs').writeFileSync('loot', '')\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := v.run("run", "steps.yml"); code == 0 || !strings.Contains(out, "outside of its package") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}
