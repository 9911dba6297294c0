package repository_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// repo is a repository on disk, made with the git program.
type repo struct {
	tb  testing.TB
	dir string
	env []string
}

// environment is one in which git has no settings of the person who runs the tests.
func environment(tb testing.TB) []string {
	tb.Helper()
	home := tb.TempDir()
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "USERPROFILE=" + home, "SYSTEMROOT=" + os.Getenv("SYSTEMROOT"), "USER=jane",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE=2026-01-31T16:47:55+02:00", "GIT_COMMITTER_DATE=2026-01-31T16:47:55+02:00"}
}

// newGit makes a repository with one commit on main.
func newGit(tb testing.TB) *repo {
	tb.Helper()
	g := emptyGit(tb)
	g.write("a.txt", "a\n")
	g.commit("first")
	return g
}

// emptyGit makes a repository without commits.
func emptyGit(tb testing.TB, options ...string) *repo {
	tb.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		tb.Skipf("needs git: %v", err)
	}
	dir, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	g := &repo{tb, filepath.Join(dir, "my project"), environment(tb)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	g.git(append([]string{"init", "-q", "-b", "main"}, options...)...)
	g.git("config", "user.name", "Jane Doe")
	g.git("config", "user.email", "jane@example.com")
	return g
}

func (g *repo) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = g.dir, g.env
	return cmd
}

func (g *repo) git(args ...string) string {
	g.tb.Helper()
	out, err := g.command(args...).CombinedOutput()
	if err != nil {
		g.tb.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (g *repo) write(name, content string) {
	g.tb.Helper()
	file := filepath.Join(g.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		g.tb.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		g.tb.Fatal(err)
	}
}

// commit commits all there is, and returns the commit.
func (g *repo) commit(message string) string {
	g.tb.Helper()
	g.git("add", "-A")
	g.git("commit", "-q", "--allow-empty", "-m", message)
	return g.git("rev-parse", "HEAD")
}

func (g *repo) open() *repository.Repository {
	g.tb.Helper()
	return g.openAt(g.dir)
}

func (g *repo) openAt(dir string) *repository.Repository {
	g.tb.Helper()
	r, err := repository.Open(context.Background(), dir, g.env)
	if err != nil {
		g.tb.Fatal(err)
	}
	return r
}

func facts(tb testing.TB, r *repository.Repository, e repository.Event) *repository.Facts {
	tb.Helper()
	f, err := r.Facts(context.Background(), e)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// value is a variable's value, "unset" where there is none.
func value(variables []variable.Variable, name string) string {
	if v, ok := variable.New(variables...).Get(name); ok {
		return v.Value
	}
	return "unset"
}
