// Package actions runs test actions that are built on the real packages of GitHub's toolkit, unmodified: whatever these ask of a
// runner must work here as it does there.
package actions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// root is the repository's.
var root = filepath.Join("..", "..")

// runTimeout is how long all jobs may take together.
const runTimeout = 5 * time.Minute

// actionFolders are the test actions.
var actionFolders = []string{"artifact", "cache", "core", "exec", "github", "glob", "tool-cache"}

func TestTheToolkitsPackagesWorkUnmodified(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	for _, program := range []string{"git", "node", "npm", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs node and npm, git and tar: there is no %s", program)
		}
	}
	modules := packages(t)
	bin := build(t)
	project := newProject(t, modules)
	traces := t.TempDir()

	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "local", ".github/workflows/toolkit.yml", "--isolation", "none", "--progress", "plain", "--secret", "SECRET", "--output-dir", traces)
	cmd.Dir = project
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "SECRET=the-secret-that-is-given", "LANG=C.UTF-8"}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	t.Run("every job succeeds", func(t *testing.T) {
		for _, job := range []string{"core (@actions/core)", "core (core-1)", "programs", "cache (@actions/cache)", "cache (cache-4)", "cache (cache-3)", "artifact (@actions/artifact)", "artifact (artifact-2)", "later", "github"} {
			if !regexp.MustCompile(`(?m)^✓ ` + regexp.QuoteMeta(job) + ` +success`).MatchString(log.String()) {
				t.Errorf("%s does not", job)
			}
		}
	})
	t.Run("no secret is in the log or in a trace", func(t *testing.T) {
		all := log.String() + everything(t, traces) + everything(t, filepath.Join(project, ".rung"))
		for name, secret := range map[string]*regexp.Regexp{
			"the one that is given":         regexp.MustCompile(`the-secret-that-is-given`),
			"the one that an action makes":  regexp.MustCompile(`a secret that is made up`),
			"a token of the job's services": regexp.MustCompile(`\bghs_[0-9A-Za-z]{20,}|\beyJ[0-9A-Za-z_-]{20,}\.eyJ`),
			"a signature of an address":     regexp.MustCompile(`sig=[0-9a-f]{64}`),
		} {
			if found := secret.FindString(all); found != "" {
				t.Errorf("%s is: %s", name, found)
			}
		}
	})
	for name, text := range map[string]string{
		"groups":                                  "│ second group",
		"an error with its place":                 "src/app.js:3",
		"an error's text":                         "of two lines: 100%",
		"a variable that the post step sees":      "post: of the action",
		"what a token opens that GitHub does not": "would have been sent to GitHub: POST /repos/octo/hello/statuses/",
		"a file of an earlier job":                "found what an earlier job left: left-by-1",
	} {
		t.Run("the log tells of "+name, func(t *testing.T) {
			if !strings.Contains(log.String(), text) {
				t.Errorf("%q is not in it", text)
			}
		})
	}
	t.Run("the trace has the summary and the annotations", func(t *testing.T) {
		all := everything(t, traces)
		for _, text := range []string{`<h1>Results</h1>`, `A title: with, signs`, `"a notice"`} {
			if escaped := strings.NewReplacer("<", `\u003c`, ">", `\u003e`).Replace(text); !strings.Contains(all, text) && !strings.Contains(all, escaped) {
				t.Errorf("%q is not in it", text)
			}
		}
	})
}

// TestTheLockFileNamesNoRegistry keeps the lock file usable with every registry.
func TestTheLockFileNamesNoRegistry(t *testing.T) {
	text, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(`"resolved"`)) {
		t.Error("it says where packages were fetched: run npm install in this folder, which has an .npmrc")
	}
}

// packages installs what the lock file says, once for each lock file, and returns the folder.
func packages(t *testing.T) string {
	t.Helper()
	sum := sha256.New()
	files := []string{"package.json", "package-lock.json", ".npmrc"}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	kept, err := filepath.Abs(filepath.Join(root, "build", "actions-"+hex.EncodeToString(sum.Sum(nil))[:16]))
	if err != nil {
		t.Fatal(err)
	}
	modules := filepath.Join(kept, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if err := os.MkdirAll(filepath.Dir(kept), 0o755); err != nil {
		t.Fatal(err)
	}
	fresh, err := os.MkdirTemp(filepath.Dir(kept), "actions-new-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh) // when it did not get its name
	for _, name := range files {
		copyFile(t, name, filepath.Join(fresh, name))
	}
	cmd := exec.CommandContext(t.Context(), "npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-progress")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("needs node and npm, and a registry: npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(fresh, kept); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, statErr := os.Stat(modules); statErr != nil { // nobody else was faster
			t.Fatal(err)
		}
	}
	return modules
}

func build(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "step-runner")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/step-runner")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building step-runner: %v\n%s", err, out)
	}
	return bin
}

// newProject makes the repository octo/hello with the workflow, the test actions, and a branch that is one commit ahead.
func newProject(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range actionFolders {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(name)); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, "package.json", filepath.Join(dir, "package.json"))
	copyFile(t, "toolkit.yml", filepath.Join(dir, ".github", "workflows", "toolkit.yml"))
	writeFile(t, filepath.Join(dir, "src", "hello.txt"), "hello\n")
	git(t, dir, "init", "-q", "-b", "main")
	git(t, dir, "remote", "add", "origin", "https://github.com/octo/hello.git")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	git(t, dir, "checkout", "-q", "-b", "feature/x")
	writeFile(t, filepath.Join(dir, "src", "new.txt"), "new\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "new")
	git(t, dir, "checkout", "-q", "main")
	// A link is enough for node, and part of the work tree that jobs get.
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=Mona", "GIT_AUTHOR_EMAIL=mona@example.com",
		"GIT_COMMITTER_NAME=Mona", "GIT_COMMITTER_EMAIL=mona@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, to, string(text))
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// everything is the text of all files of a folder that are no archives of artifacts or caches.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".zip" || filepath.Ext(path) == ".cache" {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
