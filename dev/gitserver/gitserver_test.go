package gitserver_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/dev/gitserver"
)

// git runs git as somebody who has configured nothing.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// serve makes a repository of a folder and serves it.
func serve(t *testing.T, folder string, isGit bool) (*gitserver.Repository, string) {
	t.Helper()
	r, err := gitserver.New(t.Context(), gitserver.Options{Folder: folder, Git: isGit, Dir: filepath.Join(t.TempDir(), "served.git"), Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /p.git/info/refs", r.Info)
	mux.HandleFunc("POST /p.git/git-upload-pack", r.UploadPack)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return r, server.URL + "/p.git"
}

// everything is all that there is below a folder: what it holds, and when it was written. Git gives an object that it would write again a new time.
func everything(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[path] = info.Mode().String() + string(text)
			if !strings.Contains(path, "/objects/") {
				out[path] += info.ModTime().String()
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What local runs keep can be on another disk.
func TestStateBehindALinkIsNotServed(t *testing.T) {
	for name, tracked := range map[string]bool{"git ignores it": false, "git tracks a setting in its place": true} {
		t.Run(name, func(t *testing.T) {
			folder, state := t.TempDir(), t.TempDir()
			git(t, folder, "init", "-q", "-b", "main")
			write(t, folder, map[string]string{"kept": "1"})
			if tracked {
				write(t, folder, map[string]string{".rung/sources.toml": "1"})
			}
			git(t, folder, "add", ".")
			git(t, folder, "commit", "-qm", "first")
			write(t, state, map[string]string{"sources.toml": "2", "traces/a.json": "{}"})
			if err := os.RemoveAll(filepath.Join(folder, ".rung")); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(state, filepath.Join(folder, ".rung")); err != nil {
				t.Skipf("needs symbolic links: %v", err)
			}
			r, url := serve(t, folder, true)
			snapshot, err := r.Snapshot(t.Context(), 7, "main", "")
			if err != nil {
				t.Fatal(err)
			}
			clone := t.TempDir()
			git(t, clone, "init", "-q")
			git(t, clone, "fetch", "-q", url, "+refs/pipelines/7:refs/pipelines/7")
			if files := git(t, clone, "ls-tree", "-r", "--name-only", snapshot.Commit); files != "kept" {
				t.Errorf("the snapshot has %s", files)
			}
		})
	}
}

func TestTheWorkTreeIsServedAsItIs(t *testing.T) {
	folder := t.TempDir()
	git(t, folder, "init", "-q", "-b", "main")
	write(t, folder, map[string]string{"kept": "1", "gone": "1", "changed": "1", ".gitignore": "ignored\n"})
	git(t, folder, "add", ".")
	git(t, folder, "commit", "-qm", "first")
	git(t, folder, "tag", "v1")
	git(t, folder, "branch", "other")
	write(t, folder, map[string]string{"changed": "2", "new/one": "1", "ignored": "1", ".rung/variables.yml": "A: b"})
	if err := os.Remove(filepath.Join(folder, "gone")); err != nil {
		t.Fatal(err)
	}
	before := everything(t, folder)
	r, url := serve(t, folder, true)
	snapshot, err := r.Snapshot(t.Context(), 7, "main", "")
	if err != nil {
		t.Fatal(err)
	}
	if !snapshot.Changed || snapshot.Commit == git(t, folder, "rev-parse", "HEAD") {
		t.Errorf("%+v", snapshot)
	}
	clone := t.TempDir()
	git(t, clone, "init", "-q")
	git(t, clone, "fetch", "-q", "--depth", "1", url, "+refs/pipelines/7:refs/pipelines/7", "+refs/heads/main:refs/remotes/origin/main")
	git(t, clone, "checkout", "-q", snapshot.Commit)
	if diff := cmp.Diff(".gitignore\nchanged\nkept\nnew/one", git(t, clone, "ls-files")); diff != "" {
		t.Error(diff)
	}
	for _, protocol := range []string{"0", "1", "2"} {
		refs := git(t, clone, "-c", "protocol.version="+protocol, "ls-remote", url)
		for _, want := range []string{"refs/heads/other", "refs/tags/v1", "refs/pipelines/7", snapshot.Commit + "\trefs/heads/main"} {
			if !strings.Contains(refs, want) {
				t.Errorf("version %s: there is no %s in\n%s", protocol, want, refs)
			}
		}
	}
	if parent := git(t, folder, "rev-parse", "HEAD"); !strings.Contains(git(t, clone, "cat-file", "-p", snapshot.Commit), "parent "+parent) {
		t.Error("the commit does not follow the one that is checked out")
	}
	if diff := cmp.Diff(before, everything(t, folder)); diff != "" {
		t.Errorf("the folder was changed: %s", diff)
	}

	// What is committed is the commit itself.
	git(t, folder, "add", ".gitignore", "new", "changed", "gone")
	git(t, folder, "commit", "-qm", "second")
	if snapshot, err = r.Snapshot(t.Context(), 8, "main", ""); err != nil || snapshot.Changed || snapshot.Commit != git(t, folder, "rev-parse", "HEAD") {
		t.Errorf("%+v, %v", snapshot, err)
	}
	full := t.TempDir()
	git(t, full, "clone", "-q", url, ".")
	if log := git(t, full, "log", "--format=%s"); log != "second\nfirst" {
		t.Errorf("the history is %q", log)
	}
}

func TestAFolderNeedsNoRepository(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, map[string]string{"a": "1", "b/c": "2"})
	r, url := serve(t, folder, false)
	snapshot, err := r.Snapshot(t.Context(), 1, "main", "")
	if err != nil || !snapshot.Changed {
		t.Fatal(snapshot, err)
	}
	clone := t.TempDir()
	git(t, clone, "clone", "-q", url, ".")
	if files := git(t, clone, "ls-files"); files != "a\nb/c" {
		t.Errorf("the files are %q", files)
	}
	if _, err := os.Stat(filepath.Join(folder, ".git")); err == nil {
		t.Error("the folder has become a repository")
	}
}

func TestNobodyCanWrite(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, map[string]string{"a": "1"})
	r, url := serve(t, folder, false)
	if _, err := r.Snapshot(t.Context(), 1, "main", ""); err != nil {
		t.Fatal(err)
	}
	got, err := http.Get(url + "/info/refs?service=git-receive-pack")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusForbidden {
		t.Errorf("the status is %s", got.Status)
	}
}
