//go:build unix

package manager_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor/executortest/enginetest"
	"github.com/rungci/rung/manager/gitlab"
)

// project is a repository that jobs get their sources from.
type project struct {
	t   *testing.T
	dir string
}

func newProject(t *testing.T) *project {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		enginetest.Skip(t, "git")
	}
	p := &project{t: t, dir: filepath.Join(t.TempDir(), "project")}
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p.git("init", "--quiet", "--initial-branch=main")
	p.commit("tracked", "first")
	return p
}

func (p *project) git(args ...string) string {
	p.t.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com", "-C", p.dir}, args...)...)
	out, err := c.CombinedOutput()
	if err != nil {
		p.t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (p *project) commit(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.git("add", ".")
	p.git("commit", "--quiet", "--message", text)
}

// job is one of the project's latest commit. Each of the variables is NAME=value.
func (p *project) job(protected bool, variables []string, lines ...string) gitlab.Job {
	p.t.Helper()
	j := script(lines...)
	j.AllowGitFetch = true
	j.Git = gitlab.GitInfo{RepoURL: "file://" + filepath.ToSlash(p.dir), Ref: "main", SHA: p.git("rev-parse", "HEAD"), Refspecs: []string{"+refs/heads/main:refs/remotes/origin/main"}, Protected: &protected}
	j.Variables = []gitlab.Variable{{Key: "FF_TIMESTAMPS", Value: "false"}}
	for _, text := range variables {
		name, value, _ := strings.Cut(text, "=")
		j.Variables = append(j.Variables, gitlab.Variable{Key: name, Value: value})
	}
	return j
}

func TestAJobFindsWhatTheOneBeforeItHasLeft(t *testing.T) {
	t.Parallel()
	p := newProject(t)
	w := newWorld(t)
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", ""))
	const reinitialized = "Reinitialized existing Git repository in "
	dirty := []string{"echo evil >tracked; echo x >untracked; printf '[core]\\n\\tfsmonitor = echo HOOK''ED >&2; false\\n' >>.git/config; touch .git/index.lock"}
	for _, step := range []struct {
		name      string
		protected bool
		variables []string
		lines     []string
		goesOn    bool // with the repository that is there
	}{
		{"the first begins empty", false, nil, append(dirty, "test ! -e old"), false},
		{"the next fetches and cleans", false, nil, append([]string{`test "$(cat tracked)" = first; test ! -e untracked`}, dirty...), true},
		{"without cleaning, what is not of the commit stays", false, []string{"GIT_CLEAN_FLAGS=none"}, []string{`test "$(cat tracked)" = first; test -e untracked; echo x >left`}, true},
		{"none leaves the folder as it is", false, []string{"GIT_STRATEGY=none"}, []string{"test -e left; test -e untracked"}, false},
		{"a protected ref has a folder of its own", true, nil, []string{"test ! -e left; echo x >left"}, false},
		{"that its next job finds", true, []string{"GIT_STRATEGY=none"}, []string{"test -e left; test ! -e untracked"}, false},
		{"clone begins empty", false, []string{"GIT_STRATEGY=clone"}, []string{"test ! -e left; test ! -e untracked; echo x >cloned"}, false},
		{"and leaves nothing", false, []string{"GIT_STRATEGY=none"}, []string{"test ! -e cloned; test -e left"}, false},
		{"nor does one that is cleaned up behind", false, []string{"FF_ENABLE_JOB_CLEANUP=true"}, []string{"test ! -e left; echo x >behind"}, false},
		{"empty begins empty", false, []string{"GIT_STRATEGY=empty"}, []string{`test -z "$(ls -A)"`}, false},
		{"what is hard to remove is in nobody's way", false, nil, []string{"mkdir -p locked/in; touch locked/in/file; chmod 000 locked/in locked; (chattr +i locked/in/file locked/in . || true) 2>/dev/null"}, true},
		{"it is gone", false, nil, []string{"test ! -e locked"}, true},
		{"a damaged repository is fetched again", false, nil, []string{"rm -r .git/objects; echo broken >.git/refs/heads/main; ln -s /nowhere .git/objects"}, true},
		{"which the log says, or git repairs", false, nil, []string{`test "$(cat tracked)" = first`}, true},
	} {
		r := w.result(w.server.Enqueue(p.job(step.protected, step.variables, step.lines...)))
		if r.State != gitlab.Success || strings.Contains(r.Log, "HOOKED") {
			t.Errorf("%s: the job is %s %s\n%s", step.name, r.State, r.FailureReason, r.Log)
		}
		if got := strings.Contains(r.Log, reinitialized); got != step.goesOn {
			t.Errorf("%s: it goes on with the repository that is there: %t\n%s", step.name, got, r.Log)
		}
	}
}
