package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/archive"
)

// elsewhere is an environment with files of its own, in a folder that stands for its file system.
type elsewhere struct {
	executor.Environment
	root string
}

// Layout is that of a container.
func (*elsewhere) Layout() executor.Layout {
	return executor.Layout{Project: "/builds/p", Temp: "/builds/p.tmp"}
}

// Done and Check are those of an environment that lasts.
func (*elsewhere) Done() <-chan struct{}       { return nil }
func (*elsewhere) Check(context.Context) error { return nil }

func newElsewhere(t *testing.T) *elsewhere {
	t.Helper()
	root := t.TempDir()
	return &elsewhere{root: root}
}

func (e *elsewhere) Send(ctx context.Context, dir string, in io.Reader) error {
	return archive.Unpack(ctx, in, filepath.Join(e.root, filepath.FromSlash(dir)))
}

func (e *elsewhere) Fetch(ctx context.Context, path string, out io.Writer) error {
	return archive.Pack(ctx, out, filepath.Join(e.root, filepath.FromSlash(path)))
}

// lost is an environment that ends while files are fetched.
type lost struct{ *elsewhere }

func (*lost) Fetch(context.Context, string, io.Writer) error {
	return &executor.Gone{Reason: "its step-runner is not running any more", Err: &fs.PathError{Op: "dial", Path: "s", Err: fs.ErrNotExist}}
}

func TestAnEnvironmentThatIsGoneIsNotOneWithoutTheFolder(t *testing.T) {
	if err := Fetch(t.Context(), &lost{newElsewhere(t)}, "/out/pages", t.TempDir()); !errors.Is(err, executor.ErrGone) {
		t.Errorf("the error is %v", err)
	}
}

func (e *elsewhere) read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e.root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestParcelsArriveUnderTheirNewNames(t *testing.T) {
	env, dir := newElsewhere(t), t.TempDir()
	write(t, filepath.Join(dir, "artifacts.zip"), "an archive")
	write(t, filepath.Join(dir, "key", "cache.zip"), "a cache")
	err := Send(t.Context(), env, []Parcel{
		{filepath.Join(dir, "artifacts.zip"), "incoming/build.zip"},
		{filepath.Join(dir, "key"), "cache/group/key"},
		{filepath.Join(dir, "no such file"), "incoming/none"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := env.read(t, "/builds/p.tmp/store/incoming/build.zip"); got != "an archive" {
		t.Errorf("the archive holds %q", got)
	}
	if got := env.read(t, "/builds/p.tmp/store/cache/group/key/cache.zip"); got != "a cache" {
		t.Errorf("the cache holds %q", got)
	}
}

func TestWhatIsFetchedReplacesFilesAndLeavesLinksOut(t *testing.T) {
	env, to := newElsewhere(t), t.TempDir()
	from := filepath.Join(env.root, "out", "pages")
	write(t, filepath.Join(from, "index.html"), "new")
	write(t, filepath.Join(from, "deep", "a"), "a")
	if err := os.Symlink("/etc/passwd", filepath.Join(from, "link")); err != nil {
		t.Skip("needs symbolic links: ", err)
	}
	write(t, filepath.Join(to, "index.html"), "old")
	write(t, filepath.Join(to, "other"), "stays")
	if err := Fetch(t.Context(), env, "/out/pages", to); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"index.html": "new", "deep/a": "a", "other": "stays"} {
		if got, err := os.ReadFile(filepath.Join(to, filepath.FromSlash(name))); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(to, "link")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the link came along: %v", err)
	}
	if err := Fetch(t.Context(), env, "/out/nothing", to); err != nil {
		t.Errorf("a folder that is not there is an error: %v", err)
	}
}

func TestAProjectArrivesWithItsHistoryAndWithoutItsSettings(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git: ", err)
	}
	root, env := t.TempDir(), newElsewhere(t)
	write(t, filepath.Join(root, "committed"), "1")
	write(t, filepath.Join(root, ".gitignore"), "ignored\n")
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command(git, append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run(root, "init", "-q", "-b", "main", ".")
	run(root, "add", "-A")
	run(root, "commit", "-qm", "first")
	write(t, filepath.Join(root, "new"), "2")
	write(t, filepath.Join(root, "ignored"), "3")
	write(t, filepath.Join(root, ".rung", "variables.yml"), "SECRET: x")
	if err := SendTree(t.Context(), env, env.Layout().Project, root, t.TempDir(), false); err != nil {
		t.Fatal(err)
	}
	if env.read(t, "/builds/p/committed") != "1" || env.read(t, "/builds/p/new") != "2" {
		t.Error("the files are not there")
	}
	there := filepath.Join(env.root, "builds", "p")
	for _, name := range []string{"ignored", ".rung"} {
		if _, err := os.Stat(filepath.Join(there, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there", name)
		}
	}
	// It must not need the objects of the original.
	if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
		t.Fatal(err)
	}
	if out := run(there, "log", "--oneline"); !strings.Contains(out, "first") {
		t.Errorf("the history is %q", out)
	}
	run(there, "fsck", "--full")
}
