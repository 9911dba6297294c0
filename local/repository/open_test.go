package repository_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local/repository"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	g := emptyGit(t)
	g.write("a.txt", "a\n")
	first := g.commit("first")
	g.write("b.txt", "b\n")
	sha := g.commit("A title\n\nThe rest,\nin two lines.")
	g.git("remote", "add", "origin", "git@gitlab.example.com:group/sub/name.git")
	g.git("update-ref", "refs/remotes/origin/trunk", sha)
	g.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
	g.git("tag", "v1.2.0")
	g.git("tag", "-a", "-m", "ten", "v1.10.0")
	g.git("tag", "nightly")
	g.write("sub/c.txt", "c\n")

	t.Run("a folder in a work tree is enough to know all of it", func(t *testing.T) {
		t.Parallel()
		r := g.openAt(filepath.Join(g.dir, "sub"))
		want := &repository.Commit{
			SHA: sha, ShortSHA: sha[:8], Parent: first, Author: "Jane Doe <jane@example.com>",
			Timestamp: time.Date(2026, 1, 31, 16, 47, 55, 0, time.FixedZone("", 2*60*60)),
			Title:     "A title", Description: "\nThe rest,\nin two lines.", Message: "A title\n\nThe rest,\nin two lines.\n",
		}
		if diff := cmp.Diff(want, r.Commit); diff != "" {
			t.Error(diff)
		}
		type known struct {
			Root, Branch, Default, Remote, URL, Format string
			Git, Shallow                               bool
			Tags                                       []string
			Server                                     repository.Server
			Project                                    repository.Project
			User                                       repository.User
			Notes                                      []string
		}
		got := known{r.Root, r.Branch, r.DefaultBranch, r.Remote, r.RemoteURL, r.ObjectFormat, r.Git, r.Shallow, r.Tags, r.Server, r.Project, r.User, r.Notes}
		if diff := cmp.Diff(known{
			Root: g.dir, Branch: "main", Default: "trunk", Remote: "origin", URL: "git@gitlab.example.com:group/sub/name.git", Format: "sha1", Git: true,
			Tags:    []string{"v1.10.0", "v1.2.0", "nightly"},
			Server:  repository.Server{Protocol: "https", Host: "gitlab.example.com", Port: "443", SSHHost: "gitlab.example.com", SSHPort: "22"},
			Project: "group/sub/name",
			User:    repository.User{Login: "jane", Name: "Jane Doe", Email: "jane@example.com"},
		}, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("variables of a hook do not make it another repository", func(t *testing.T) {
		t.Parallel()
		other := newGit(t)
		env := append(slices.Clone(g.env), "GIT_DIR="+filepath.Join(other.dir, ".git"), "GIT_INDEX_FILE="+filepath.Join(other.dir, ".git", "index"))
		r, err := repository.Open(t.Context(), g.dir, env)
		if err != nil || r.SHA() != sha {
			t.Errorf("SHA = %v, %v; want %s", r, err, sha)
		}
	})
	t.Run("signatures, colours and other settings change nothing", func(t *testing.T) {
		t.Parallel()
		env := append(slices.Clone(g.env), "GIT_CONFIG_COUNT=4", "GIT_CONFIG_KEY_0=log.showSignature", "GIT_CONFIG_VALUE_0=true",
			"GIT_CONFIG_KEY_1=color.ui", "GIT_CONFIG_VALUE_1=always", "GIT_CONFIG_KEY_2=log.excludeDecoration", "GIT_CONFIG_VALUE_2=refs/tags/*",
			"GIT_CONFIG_KEY_3=diff.relative", "GIT_CONFIG_VALUE_3=true")
		r, err := repository.Open(t.Context(), g.dir, env)
		if err != nil || r.Commit == nil || r.Commit.Title != "A title" || r.Tag() != "v1.10.0" {
			t.Errorf("got %+v, %v", r.Commit, err)
		}
	})
	t.Run("a folder that is not there is an error", func(t *testing.T) {
		t.Parallel()
		if _, err := repository.Open(t.Context(), filepath.Join(g.dir, "none"), g.env); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("error = %v", err)
		}
		if _, err := repository.Open(t.Context(), filepath.Join(g.dir, "a.txt"), g.env); err == nil || !strings.Contains(err.Error(), "not a folder") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("a context that ended is an error", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := repository.Open(ctx, g.dir, g.env); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
	})
}

// noted reports whether one of the notes holds a text.
func noted(notes []string, text string) bool {
	return slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, text) })
}

func TestUnusualRepositories(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 40)
	t.Run("a repository without commits has a branch and a SHA of zeros", func(t *testing.T) {
		t.Parallel()
		g := emptyGit(t)
		g.git("symbolic-ref", "HEAD", "refs/heads/begin/here")
		g.write("x.txt", "")
		r := g.open()
		if r.Commit != nil || r.Branch != "begin/here" || r.DefaultBranch != "begin/here" || r.SHA() != zeros || !noted(r.Notes, "has no commits") {
			t.Errorf("got %+v", r)
		}
		f := facts(t, r, repository.Event{})
		if got := value(f.Variables, "CI_COMMIT_SHA"); got != zeros {
			t.Errorf("CI_COMMIT_SHA = %s", got)
		}
		if files, err := r.Files(t.Context()); err != nil || !slices.Equal(files, []string{"x.txt"}) {
			t.Errorf("Files = %q, %v", files, err)
		}
	})
	t.Run("a branch without commits beside others knows them", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("checkout", "-q", "--orphan", "new")
		if r := g.open(); r.Commit != nil || r.Branch != "new" || r.DefaultBranch != "main" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a detached HEAD has no branch, and the pipeline runs for one at the same commit", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("checkout", "-q", "--detach")
		r := g.open()
		f := facts(t, r, repository.Event{})
		if r.Branch != "" || f.Pipeline.Ref != "main" || !noted(f.Notes, "detached") {
			t.Errorf("branch = %q, ref = %q, notes = %q", r.Branch, f.Pipeline.Ref, f.Notes)
		}
		g.commit("beside all branches")
		if f = facts(t, g.open(), repository.Event{}); f.Pipeline.Ref != "HEAD" || value(f.Variables, "CI_COMMIT_REF_PROTECTED") != "false" {
			t.Errorf("ref = %q", f.Pipeline.Ref)
		}
		if f = facts(t, g.open(), repository.Event{Ref: "feature"}); f.Pipeline.Ref != "feature" {
			t.Errorf("ref = %q", f.Pipeline.Ref)
		}
	})
	t.Run("a detached HEAD without any branch is not a repository without commits", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("checkout", "-q", "--detach")
		g.git("branch", "-q", "-D", "main")
		if r := g.open(); r.Commit == nil || r.Branch != "" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("names in a sha256 repository are longer", func(t *testing.T) {
		t.Parallel()
		g := emptyGit(t, "--object-format=sha256")
		if r := g.open(); len(r.SHA()) != 64 {
			t.Errorf("SHA = %s", r.SHA())
		}
		sha := g.commit("first")
		if r := g.open(); r.SHA() != sha || r.ObjectFormat != "sha256" || len(sha) != 64 {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a shallow clone says that its history ends", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		first := g.git("rev-parse", "HEAD")
		g.commit("second")
		clone := &repo{t, filepath.Join(t.TempDir(), "clone"), g.env}
		g.git("clone", "-q", "--depth=1", "file://"+filepath.ToSlash(g.dir), clone.dir)
		r := clone.open()
		if !r.Shallow || !noted(r.Notes, "shallow") || r.DefaultBranch != "main" || r.Commit.Parent != "" {
			t.Errorf("got %+v", r)
		}
		if _, err := r.Facts(t.Context(), repository.Event{Since: first}); err == nil || !strings.Contains(err.Error(), "unshallow") {
			t.Errorf("error = %v", err)
		}
	})
	t.Run("a worktree has its own branch", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		tree := filepath.Join(filepath.Dir(g.dir), "tree")
		g.git("worktree", "add", "-q", "-b", "other", tree)
		if r := g.openAt(tree); r.Branch != "other" || r.Root != tree || len(r.SHA()) != 40 || noted(r.Notes, "submodule") {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a path in a submodule is of the submodule", func(t *testing.T) {
		t.Parallel()
		g, inner := newGit(t), newGit(t)
		g.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", inner.dir, "mod")
		g.commit("with a submodule")
		dir := filepath.Join(g.dir, "mod")
		if r := g.openAt(dir); r.Root != dir || !noted(r.Notes, "submodule") {
			t.Errorf("got %+v", r)
		}
		files, err := g.open().Files(t.Context())
		if err != nil || !slices.Equal(files, []string{".gitmodules", "a.txt"}) {
			t.Errorf("Files = %q, %v", files, err)
		}
	})
	t.Run("a root whose name has a line break is found", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS == "windows" {
			t.Skip("needs names with line breaks: Windows has none")
		}
		g := newGit(t)
		dir := filepath.Join(filepath.Dir(g.dir), "two\nlines\n")
		if err := os.Rename(g.dir, dir); err != nil {
			t.Fatal(err)
		}
		r := g.openAt(dir)
		if r.Root != dir || r.Branch != "main" || r.Project != "local/two-lines" {
			t.Errorf("got %+v", r)
		}
	})
	t.Run("a repository without a work tree is said to be one", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		if r := g.openAt(filepath.Join(g.dir, ".git")); r.Git || !noted(r.Notes, "work tree") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestWithoutGit(t *testing.T) {
	t.Parallel()
	t.Run("a folder that is no repository has a branch main and its files", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		for _, name := range []string{"b.txt", "a/x", ".rung/cache/y", ".gitlab-ci.yml"} {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		env := append(environment(t), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
		r, err := repository.Open(t.Context(), dir, env)
		if err != nil {
			t.Fatal(err)
		}
		if r.Git || r.Branch != "main" || r.DefaultBranch != "main" || len(r.Notes) == 0 {
			t.Errorf("got %+v", r)
		}
		if files, err := r.Files(t.Context()); err != nil || !slices.Equal(files, []string{".gitlab-ci.yml", "a/x", "b.txt"}) {
			t.Errorf("Files = %q, %v", files, err)
		}
		f := facts(t, r, repository.Event{})
		if f.Base != "" || f.Pipeline.Ref != "main" {
			t.Errorf("got %+v", f)
		}
		if id, err := r.CacheKeys(t.Context()).Blob("b.txt"); err != nil || id != "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391" {
			t.Errorf("Blob = %s, %v", id, err)
		}
		if _, err := r.Changed(t.Context(), "main"); err == nil {
			t.Error("there is nothing to compare with, and no error")
		}
	})
	t.Run("without the git program, branch, commit and remote are read from files", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		sha := g.git("rev-parse", "HEAD")
		g.git("remote", "add", "origin", "https://jane:secret@gitlab.example.com:8443/group/name.git")
		bare := []string{"PATH=" + t.TempDir(), "USER=jane"}
		for _, how := range []string{"loose", "packed"} {
			r, err := repository.Open(t.Context(), g.dir, bare)
			if err != nil {
				t.Fatal(err)
			}
			if r.Git || !r.NoGit || r.Branch != "main" || r.SHA() != sha || r.Server.FQDN() != "gitlab.example.com:8443" || r.Project != "group/name" || !noted(r.Notes, "git cannot be run") {
				t.Errorf("%s: got %+v", how, r)
			}
			if strings.Contains(r.RemoteURL, "secret") {
				t.Errorf("the URL holds a password: %s", r.RemoteURL)
			}
			g.git("pack-refs", "--all")
		}
		g.git("checkout", "-q", "--detach")
		if r, err := repository.Open(t.Context(), g.dir, bare); err != nil || r.Branch != "" || r.SHA() != sha {
			t.Errorf("got %+v, %v", r, err)
		}
		tree := filepath.Join(filepath.Dir(g.dir), "tree")
		g.git("worktree", "add", "-q", "-b", "other", tree)
		if r, err := repository.Open(t.Context(), tree, bare); err != nil || r.Branch != "other" || r.SHA() != sha || r.Project != "group/name" {
			t.Errorf("got %+v, %v", r, err)
		}
	})
}

func TestDefaultBranch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commands [][]string
		want     string
	}{
		"main, where it is there":              {[][]string{{"checkout", "-q", "-b", "feature"}}, "main"},
		"master, where there is no main":       {[][]string{{"branch", "-m", "master"}, {"branch", "feature"}, {"branch", "other"}}, "master"},
		"the one that is set for new ones":     {[][]string{{"branch", "trunk"}, {"config", "init.defaultBranch", "trunk"}}, "trunk"},
		"the only one there is":                {[][]string{{"branch", "-m", "develop"}}, "develop"},
		"main, where nothing tells":            {[][]string{{"branch", "-m", "one"}, {"branch", "two"}}, "main"},
		"that of a remote with another name":   {[][]string{{"remote", "add", "up", "https://h/g/p"}, {"update-ref", "refs/remotes/up/dev", "HEAD"}, {"symbolic-ref", "refs/remotes/up/HEAD", "refs/remotes/up/dev"}}, "dev"},
		"not that of an origin without branch": {[][]string{{"remote", "add", "origin", "https://h/g/p"}, {"symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone"}}, "main"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGit(t)
			for _, args := range c.commands {
				g.git(args...)
			}
			if r := g.open(); r.DefaultBranch != c.want {
				t.Errorf("the default branch is %q, want %q", r.DefaultBranch, c.want)
			}
		})
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	t.Run("origin counts before the remote of the branch, and that before the first one", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("remote", "add", "a", "https://a.example.com/g/a")
		if r := g.open(); r.Remote != "a" {
			t.Errorf("remote = %s", r.Remote)
		}
		g.git("remote", "add", "b", "https://b.example.com/g/b")
		g.git("config", "branch.main.remote", "b")
		if r := g.open(); r.Remote != "b" || r.Project != "g/b" {
			t.Errorf("remote = %s", r.Remote)
		}
		g.git("remote", "add", "origin", "https://c.example.com/g/c")
		if r := g.open(); r.Remote != "origin" || r.Server.Host != "c.example.com" {
			t.Errorf("remote = %s", r.Remote)
		}
	})
	t.Run("insteadOf is applied", func(t *testing.T) {
		t.Parallel()
		g := newGit(t)
		g.git("config", "url.https://gitlab.example.com/.insteadOf", "gl:")
		g.git("config", "url.https://gitlab.example.com/deep/.insteadOf", "gl:d/")
		g.git("remote", "add", "origin", "gl:d/p")
		if r := g.open(); r.RemoteURL != "https://gitlab.example.com/deep/p" {
			t.Errorf("URL = %s", r.RemoteURL)
		}
	})
	t.Run("a repository without a remote is one of gitlab.com, and says so", func(t *testing.T) {
		t.Parallel()
		if r := newGit(t).open(); r.Server.URL() != "https://gitlab.com" || r.Project != "local/my-project" || !noted(r.Notes, "no remote") {
			t.Errorf("got %+v", r)
		}
	})
}

func TestTheUsersOwnIgnoredFiles(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	home := ""
	for _, v := range g.env {
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			home = value
		}
	}
	file := func(name string) string {
		path := filepath.Join(home, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("*.own\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	expect := func(what, want string) {
		t.Helper()
		if got := g.open().Excludes; got != want {
			t.Errorf("%s: got %q, want %q", what, got, want)
		}
	}
	expect("without one there is none", "")
	byDefault := file(".config/git/ignore")
	expect("the default one is found", byDefault)
	g.git("config", "--global", "core.excludesFile", "~/nothing")
	expect("one that is named counts, even if it is not there", "")
	g.git("config", "--global", "core.excludesFile", "~/mine")
	expect("~ is the home folder", file("mine"))
	g.git("config", "--global", "--unset", "core.excludesFile")
	g.env = append(g.env, "XDG_CONFIG_HOME="+filepath.Join(home, "xdg"))
	expect("XDG_CONFIG_HOME moves the default one", file("xdg/git/ignore"))
}
