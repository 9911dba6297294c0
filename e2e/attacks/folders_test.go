//go:build linux

package attacks

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rungci/rung/dev/gitserver"
	"github.com/rungci/rung/manager/gitlab"
)

// sources is the repository of jobs that find their project's folder as an earlier one has left it.
type sources struct {
	*gitserver.Repository
	commit string
}

const sourcesPath = "/group/kept.git"

// hasGit says that the repository can be served.
func hasGit(*field) bool {
	_, err := exec.LookPath("git")
	return err == nil
}

// ServeHTTP lets jobs fetch.
func (s *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		s.Info(w, r)
		return
	}
	s.UploadPack(w, r)
}

// repository is made when the first job wants it.
func (f *field) repository() *sources {
	f.t.Helper()
	if f.sources.Repository != nil {
		return &f.sources
	}
	folder := filepath.Join(f.dir, "kept")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "tracked"), []byte("as committed\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
	made, err := gitserver.New(f.t.Context(), gitserver.Options{Folder: folder, Dir: filepath.Join(f.dir, "kept.git"), Env: os.Environ()})
	if err != nil {
		f.t.Fatal(err)
	}
	snapshot, err := made.Snapshot(f.t.Context(), 1, "main", "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.sources = sources{made, snapshot.Commit}
	return &f.sources
}

// of makes a job one of a project that goes on with the folder of the job before, if it may.
func of(project int64, protected bool, strategy string) func(*field, *gitlab.Job) {
	return func(f *field, j *gitlab.Job) {
		j.Info.ProjectID, j.AllowGitFetch = project, true
		j.Git = gitlab.GitInfo{
			RepoURL: f.url + sourcesPath, Ref: "main", SHA: f.repository().commit, Refspecs: []string{"+refs/heads/main:refs/remotes/origin/main"}, Protected: &protected,
		}
		for i := range j.Variables {
			if j.Variables[i].Key == "GIT_STRATEGY" {
				j.Variables[i].Value = strategy
			}
		}
	}
}

// poison leaves in a repository what makes git run commands, and files that are not of the commit.
const poison = `mkdir -p .git/hooks .git/info
for h in post-checkout post-merge reference-transaction pre-auto-gc post-index-change fsmonitor-watchman; do printf '#!/bin/sh\necho HOOK''ED; touch "$CI_PROJECT_DIR/.git/hooked"\n' >.git/hooks/$h; chmod +x .git/hooks/$h; done
cat >>.git/config <<'END'
[core]
	fsmonitor = "echo HOOKED >&2; touch .git/hooked; false"
	sshCommand = "echo HOOKED >&2; touch .git/hooked"
	gitProxy = "echo HOOKED >&2"
	hooksPath = .git/hooks
[filter "evil"]
	smudge = "touch .git/hooked; echo HOOKED"
	clean = "touch .git/hooked; echo HOOKED"
	process = "touch .git/hooked; echo HOOKED"
[credential]
	helper = "!touch .git/hooked; echo HOOKED >&2"
[include]
	path = /etc/passwd
[url "file:///nowhere"]
	insteadOf = http
END
printf '[core]\n\tworktree = %s\n' "$OUTSIDE" >>.git/config
echo '* filter=evil' >.git/info/attributes
touch .git/index.lock .git/shallow.lock; echo evil >tracked; echo evil >untracked; mkfifo pipe; ln -s / root; true`

// A job says that it is spotless if it finds its files as they are in the repository, or none. Git leaves a pipe: it is not in its way.
const (
	asCommitted = `test "$(cat tracked)" = "as committed" && test ! -e untracked && test ! -e root && test ! -e .git/hooked && echo spot''less`
	nothingLeft = `test ! -e left && echo spot''less`
)

// spoils is allowed where the next job has found what this one left, or was made to run it.
func spoils() func(*scene) verdict {
	return harms(func(s *scene) bool {
		return s.next.State != gitlab.Success || !strings.Contains(s.next.Log, "spotless") || strings.Contains(s.next.Log, "HOOKED") || !s.there("secret")
	})
}
