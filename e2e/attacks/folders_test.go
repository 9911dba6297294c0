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

// sources are the repository of jobs that find their project's folder as an earlier one has left it, with its submodule, and with that of this one.
type sources struct {
	served map[string]*gitserver.Repository // by their paths
	commit string
}

const (
	sourcesGroup = "/group/"
	sourcesPath  = sourcesGroup + "kept.git"
)

// hasGit says that the repository can be served.
func hasGit(*field) bool {
	_, err := exec.LookPath("git")
	return err == nil
}

// ServeHTTP lets jobs fetch.
func (s *sources) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, _, _ := strings.Cut(r.URL.Path, ".git/")
	served := s.served[path+".git"]
	switch {
	case served == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodGet:
		served.Info(w, r)
	default:
		served.UploadPack(w, r)
	}
}

// repository is made when the first job wants it.
func (f *field) repository() *sources {
	f.t.Helper()
	if f.sources.served != nil {
		return &f.sources
	}
	f.sources.served = map[string]*gitserver.Repository{}
	nested := f.serveRepository("nested", "", "")
	sub := f.serveRepository("sub", "nested", nested)
	f.sources.commit = f.serveRepository("kept", "sub", sub)
	return &f.sources
}

// serveRepository makes a repository with one file and, unless it is "", a submodule, which is another one, and returns its commit.
func (f *field) serveRepository(name, submodule, at string) string {
	f.t.Helper()
	folder := filepath.Join(f.dir, name)
	f.put(filepath.Join(folder, "tracked"), "as committed\n")
	if submodule != "" {
		f.put(filepath.Join(folder, ".gitmodules"), "[submodule \""+submodule+"\"]\n\tpath = "+submodule+"\n\turl = ../"+submodule+".git\n")
	}
	git := func(args ...string) {
		cmd := exec.CommandContext(f.t.Context(), "git", append([]string{"-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgSign=false"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			f.t.Fatalf("%v\n%s", err, out)
		}
	}
	git("init", "--quiet", "--initial-branch=main")
	git("add", ".")
	if submodule != "" {
		if err := os.Mkdir(filepath.Join(folder, submodule), 0o755); err != nil {
			f.t.Fatal(err)
		}
		git("update-index", "--add", "--cacheinfo", "160000,"+at+","+submodule)
	}
	git("commit", "--quiet", "--message", "one")
	made, err := gitserver.New(f.t.Context(), gitserver.Options{Folder: folder, Git: true, Dir: filepath.Join(f.dir, name+".git"), Env: os.Environ()})
	if err != nil {
		f.t.Fatal(err)
	}
	snapshot, err := made.Snapshot(f.t.Context(), 1, "main", "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.sources.served[sourcesGroup+name+".git"] = made
	return snapshot.Commit
}

// put writes a file.
func (f *field) put(file, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
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

// withSubmodules makes a job one of the same project that has its submodules, and keeps what is not of the commit.
func withSubmodules(f *field, j *gitlab.Job) {
	of(9, false, "fetch")(f, j)
	variable("GIT_SUBMODULE_STRATEGY", "recursive")(f, j)
	variable("GIT_CLEAN_FLAGS", "none")(f, j)
}

// armed makes a repository in the folder $R one that makes git run commands.
const armed = `mkdir -p $R/hooks
for h in post-checkout post-merge reference-transaction post-index-change; do printf '#!/bin/sh\necho HOOK''ED\n' >$R/hooks/$h; chmod +x $R/hooks/$h; done
grep -v worktree $R/config >config; mv config $R/config
cat >>$R/config <<'END'
[core]
	fsmonitor = "echo HOOKED >&2; false"
END
`

// What is left in the repositories of submodules: the first is one that has its configuration and its objects elsewhere, the other is where git expects
// a file that names one.
const (
	poisonElsewhere = `M=.git/modules/sub; R=evil; cp -r $M $R
` + armed + `rm -rf $M/objects $M/config $M/hooks; echo ../../../evil >$M/commondir`
	poisonNested = `R=sub/nested/.git; rm -f $R; cp -r .git/modules/sub/modules/nested $R
` + armed
	submodulesAsCommitted = `test "$(cat sub/tracked)" = "as committed" && test "$(cat sub/nested/tracked)" = "as committed" && test ! -d sub/nested/.git/hooks && echo spot''less`
)

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
