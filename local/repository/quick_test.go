package repository_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rungci/rung/local/repository"
)

func TestWithoutGitTheSameIsRead(t *testing.T) {
	for _, test := range []struct {
		name  string
		with  func(*repo)
		quick bool // no git program is needed
	}{
		{"a commit that has a file of its own", func(*repo) {}, true},
		{"one in a pack, with packed refs", func(g *repo) { g.git("gc", "-q") }, true},
		{"a message of several lines", func(g *repo) { g.commit("title ü\n\nmore\nand more\n") }, true},
		{"a merge, on another branch", func(g *repo) {
			g.git("checkout", "-q", "-b", "side/way")
			g.commit("side")
			g.git("checkout", "-q", "main")
			g.commit("main")
			g.git("checkout", "-q", "side/way")
			g.git("merge", "-q", "--no-edit", "main")
		}, true},
		{"a remote with a default branch, and an upstream", func(g *repo) {
			g.git("remote", "add", "origin", "git@github.com:octo/demo.git")
			g.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
			g.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/trunk")
			g.git("config", "branch.main.remote", "origin")
			g.git("config", "branch.main.merge", "refs/heads/trunk")
			g.git("config", "--global", "core.excludesFile", "~/mine")
			g.git("config", "--global", "user.email", "other@example.com")
		}, true},
		{"a value in quotes is for git to read", func(g *repo) { g.git("config", "user.name", "a # b") }, false},
		{"a detached HEAD is for git", func(g *repo) { g.git("checkout", "-q", "--detach") }, false},
		{"so is what is included", func(g *repo) { g.git("config", "include.path", "other") }, false},
		{"and a branch without commits", func(g *repo) { g.git("checkout", "-q", "--orphan", "new") }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGit(t)
			test.with(g)
			env := slices.DeleteFunc(g.env, func(v string) bool { return strings.HasPrefix(v, "GIT_CONFIG") })
			want, err := repository.Open(t.Context(), g.dir, env)
			if err != nil {
				t.Fatal(err)
			}
			if test.quick {
				bin := t.TempDir() // a git that cannot be run
				if err := os.WriteFile(filepath.Join(bin, "git"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				env = append(env, "PATH="+bin)
			}
			got, err := repository.OpenQuick(t.Context(), g.dir, env)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(repository.Repository{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCommitsSinceOne(t *testing.T) {
	g := newGit(t)
	first := g.git("rev-parse", "HEAD")
	g.commit("second\n\nmore")
	last := g.commit("third")
	got, err := g.open().Commits(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Title != "second" || got[0].Parent != first || got[1].SHA != last || got[1].Author != "Jane Doe <jane@example.com>" {
		t.Errorf("%+v", got)
	}
}
