package worktree_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/internal/worktree"
)

// refused copies a repository whose .git a stranger has made, and checks that nothing of another place is in the copy.
func refused(t *testing.T, r *repo, canary, why string) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	_, err := worktree.Copy(t.Context(), r.dir, to, worktree.Options{Env: cleanEnv()})
	if refused := (*worktree.RefusedError)(nil); !errors.As(err, &refused) || !strings.Contains(err.Error(), why) {
		t.Errorf("the error is %v, and should say %q", err, why)
	}
	err = filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), canary) {
			t.Errorf("%s has it", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNoLinkInARepositoryIsFollowed has links in .git to a file of the user, and to folders with one.
func TestNoLinkInARepositoryIsFollowed(t *testing.T) {
	t.Parallel()
	canary := strings.Repeat("c0ffee", 7)[:40] // which could be a ref, too
	for _, name := range []string{"MERGE_MSG", "MERGE_HEAD", "info/exclude", "info", "shallow", "refs/heads/x", "refs/tags/x", "refs", "packed-refs", "objects", "config", "HEAD", "."} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			r.write("a", "a")
			r.commit("one")
			outside := t.TempDir()
			for _, file := range []string{"secret", "exclude", "heads/x"} {
				if err := errors.Join(os.MkdirAll(filepath.Join(outside, "heads"), 0o700), os.WriteFile(filepath.Join(outside, file), []byte(canary), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			leads := filepath.Join(outside, "secret")
			switch name {
			case "info", "refs", "objects":
				leads = outside
			case "config":
				if err := os.WriteFile(leads, []byte("[core]\n\trepositoryformatversion = 0\n[branch \"x\"]\n\tremote = "+canary+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(r.dir, ".git", name)
			if name == "." { // a whole .git
				if err := os.Rename(r.path(".git"), filepath.Join(outside, "other")); err != nil {
					t.Fatal(err)
				}
				leads, link = filepath.Join(outside, "other"), r.path(".git")
			}
			if err := errors.Join(os.RemoveAll(link), os.Symlink(leads, link)); err != nil {
				t.Skipf("needs symbolic links: %v", err)
			}
			why := "is a symbolic link"
			if link == r.path(".git") {
				why = "core.worktree is not this folder"
			}
			refused(t, r, canary, why)
		})
	}
}

// TestAnotherRepositoryIsNotHandedOut has a .git that leads to a repository of the user which is not that of the project.
func TestAnotherRepositoryIsNotHandedOut(t *testing.T) {
	t.Parallel()
	for name, lead := range map[string]func(private, r *repo) (why string){
		"a file": func(private, r *repo) string {
			r.write(".git", "gitdir: "+private.path(".git")+"\n")
			return "core.worktree is not this folder"
		},
		"a work tree of it": func(private, r *repo) string {
			private.git("worktree", "add", "--quiet", filepath.Join(filepath.Dir(private.dir), "linked"))
			r.write(".git", "gitdir: "+private.path(".git/worktrees/linked")+"\n")
			return "git worktree repair"
		},
		"a made-up work tree": func(private, r *repo) string {
			r.write("worktrees/x/HEAD", "ref: refs/heads/main\n")
			r.write("worktrees/x/gitdir", r.path(".git")+"\n")
			r.write("worktrees/x/commondir", private.path(".git")+"\n")
			r.write(".git", "gitdir: worktrees/x\n")
			return "git worktree repair"
		},
		"a folder with a common one": func(private, r *repo) string {
			r.git("init", "--quiet")
			r.write(".git/commondir", private.path(".git")+"\n")
			r.write(".git/gitdir", r.path(".git")+"\n")
			return "git worktree repair"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			private, r := newRepo(t), &repo{t, t.TempDir()}
			canary := private.commit("private")
			why := lead(private, r)
			refused(t, r, canary, why)
			if err := worktree.Check(r.dir); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("checked: %v", err)
			}
		})
	}
}

// TestARepositoryElsewhereThatKnowsItsWorkTreeIsRead has a .git that is a link or a file, as git-annex and `git init --separate-git-dir` make it.
func TestARepositoryElsewhereThatKnowsItsWorkTreeIsRead(t *testing.T) {
	t.Parallel()
	for _, link := range []bool{false, true} {
		r := newRepo(t)
		r.write("a", "a")
		want := r.commit("one")
		r.git("config", "core.worktree", r.dir)
		elsewhere := filepath.Join(filepath.Dir(r.dir), "elsewhere")
		if err := os.Rename(r.path(".git"), elsewhere); err != nil {
			t.Fatal(err)
		}
		if !link {
			r.write(".git", "gitdir: ../elsewhere\n")
		} else if err := os.Symlink(elsewhere, r.path(".git")); err != nil {
			t.Skipf("needs symbolic links: %v", err)
		}
		if _, s := copyOf(t, r); s.Commit != want {
			t.Errorf("link %v: it is at %q", link, s.Commit)
		}
	}
}
