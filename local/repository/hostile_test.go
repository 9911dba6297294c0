package repository_test

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/internal/worktree"
	"github.com/rungci/rung/local/repository"
)

// TestNothingThatARepositoryNamesRuns asks all there is to ask about a repository whose configuration names programs.
func TestNothingThatARepositoryNamesRuns(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	outside := t.TempDir()
	ran := func(name string) string { return "touch " + filepath.Join(outside, name) + "; cat" }
	submodule := newGit(t)
	g := newGit(t)
	g.write(".gitattributes", "*.txt filter=evil diff=evil\n*.x filter=a=b\n")
	g.write("b.x", "b\n")
	g.git("-c", "protocol.allow=always", "submodule", "--quiet", "add", submodule.dir, "sub")
	first := g.commit("second")
	g.commit("third")
	pairs := []string{"core.sshCommand", ran("ssh"), "core.fsmonitor", ran("fsmonitor"), "core.pager", ran("pager"), "diff.external", ran("external"),
		"diff.evil.textconv", ran("textconv"), "diff.evil.command", ran("command"), "credential.helper", "!" + ran("credential"), "log.showSignature", "true", "gpg.program", ran("gpg"),
		"remote.origin.url", "ssh://127.0.0.1:1/x", "remote.origin.promisor", "true", "remote.origin.uploadpack", ran("uploadpack"), "core.repositoryFormatVersion", "1", "extensions.partialClone", "origin"}
	for _, filter := range []string{"evil", "a=b"} {
		pairs = append(pairs, "filter."+filter+".clean", ran("clean"), "filter."+filter+".smudge", ran("smudge"), "filter."+filter+".required", "true")
	}
	for i := 0; i < len(pairs); i += 2 {
		g.git("config", pairs[i], pairs[i+1])
	}
	g.git("config", "--file", filepath.Join(g.dir, ".git", "modules", "sub", "config"), "filter.evil.clean", ran("submodule"))
	g.git("config", "--file", filepath.Join(g.dir, ".git", "modules", "sub", "config"), "core.fsmonitor", ran("submodule"))
	g.write("sub/.gitattributes", "* filter=evil\n")
	later := time.Now().Add(time.Hour)
	for _, name := range []string{"a.txt", "b.x", "sub/a.txt"} { // so that git has to compare them
		if err := os.Chtimes(filepath.Join(g.dir, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	r := g.open()
	for _, from := range []string{first, strings.Repeat("1", 40)} {
		changed, err := r.Changed(t.Context(), from)
		if from == first && (err != nil || slices.Contains(changed, "a.txt") || slices.Contains(changed, "b.x")) {
			t.Errorf("changed: %q, %v", changed, err)
		}
	}
	if _, err := r.Files(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := worktree.Copy(t.Context(), g.dir, filepath.Join(t.TempDir(), "copy"), worktree.Options{Env: g.env}); err != nil {
		t.Error(err)
	}
	// An object that only the server has.
	blob := strings.TrimSpace(g.git("rev-parse", "HEAD^{tree}"))
	if err := os.Remove(filepath.Join(g.dir, ".git", "objects", blob[:2], blob[2:])); err != nil {
		t.Fatal(err)
	}
	if _, err := g.open().Changed(t.Context(), "HEAD"); err == nil {
		t.Error("it compared with a commit whose files are not here")
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) > 0 {
		t.Errorf("it ran %v, %v", left, err)
	}
}

// TestAnotherRepositoryOfTheUserIsNotRead opens a folder whose .git leads to one that does not know it.
func TestAnotherRepositoryOfTheUserIsNotRead(t *testing.T) {
	t.Parallel()
	private := newGit(t)
	private.commit("private plans")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".git"), []byte("gitdir: "+filepath.Join(private.dir, ".git")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := repository.Open(t.Context(), dir, private.env)
	if err != nil {
		t.Fatal(err)
	}
	if r.Git || r.Commit != nil || len(r.Notes) == 0 || !strings.Contains(r.Notes[0], "this Git repository is not read: ") {
		t.Errorf("git %v, commit %+v, notes %q", r.Git, r.Commit, r.Notes)
	}
}
