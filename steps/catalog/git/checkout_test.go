package git

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// job is a folder that files are brought into, and what was said about it.
type job struct {
	t       *testing.T
	dir     string // the work directory
	env     []string
	output  bytes.Buffer
	outputs string // the file of outputs
	gitless bool   // there is no git in env
}

func newJob(t *testing.T) *job {
	t.Helper()
	if _, err := sourcetest.GitProgram(); err != nil {
		t.Skipf("needs git: %v", err)
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j := &job{t: t, dir: filepath.Join(base, "work"), outputs: filepath.Join(base, "outputs")}
	for _, dir := range []string{j.dir, filepath.Join(base, "tmp"), filepath.Join(base, "home")} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	j.env = append(cleanEnv(), "TMPDIR="+filepath.Join(base, "tmp"), "HOME="+filepath.Join(base, "home"))
	return j
}

// cleanEnv is an environment in which nothing of the user's configuration counts.
func cleanEnv() []string {
	env := []string{"GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "PATH=" + os.Getenv("PATH"), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	if root := os.Getenv("SYSTEMROOT"); root != "" {
		env = append(env, "SYSTEMROOT="+root)
	}
	return env
}

// defaults are those of func.yml.
func defaults() map[string]any {
	return map[string]any{
		"url": "", "username": "gitlab-ci-token", "token": "", "work_tree": "", "excludes_file": "", "tracking": "", "path": "", "sha": "", "ref": "", "refspecs": []string{},
		"object_format": "sha1", "strategy": "fetch", "checkout": true, "depth": 0, "clean_flags": []string{"-ffdx"},
		"fetch_flags": []string{"--prune", "--quiet"}, "clone_flags": []string{}, "submodules": "none", "submodule_paths": []string{},
		"submodule_depth": 0, "submodule_update_flags": []string{}, "submodule_force_https": false, "lfs_skip_smudge": false, "attempts": 1, "user_agent": "",
		"clean_config": true, "safe_directory": false,
	}
}

// run brings the files and returns the output sha.
func (j *job) run(more map[string]any) (sha string, err error) {
	j.t.Helper()
	return j.runIn(j.t.Context(), more)
}

func (j *job) runIn(ctx context.Context, more map[string]any) (sha string, err error) {
	j.t.Helper()
	in := defaults()
	for name, v := range more {
		in[name] = v
	}
	text, err := json.Marshal(in)
	if err != nil {
		j.t.Fatal(err)
	}
	if err := os.WriteFile(j.outputs, nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	j.output.Reset()
	call := &program.Call{Inputs: text, WorkDir: j.dir, Env: j.env, Stdout: &j.output, Stderr: &j.output, OutputFile: j.outputs}
	if err := Checkout(ctx, call); err != nil {
		return "", err
	}
	data, err := os.ReadFile(j.outputs)
	if err != nil {
		j.t.Fatal(err)
	}
	var entry struct{ Name, Value string }
	if err := json.Unmarshal(data, &entry); err != nil || entry.Name != "sha" {
		j.t.Fatalf("outputs: %v: %s", err, data)
	}
	return entry.Value, nil
}

// must is run that has to work.
func (j *job) must(more map[string]any) string {
	j.t.Helper()
	sha, err := j.run(more)
	if err != nil {
		j.t.Fatalf("%v\n%s", err, j.output.String())
	}
	return sha
}

// inBothWays runs a test with the program git, and in an environment that has none.
func inBothWays(t *testing.T, test func(t *testing.T, newJob func(*testing.T) *job)) {
	t.Helper()
	t.Run("with git", func(t *testing.T) { t.Parallel(); test(t, newJob) })
	t.Run("without git", func(t *testing.T) { t.Parallel(); test(t, newGitlessJob) })
}

// newGitlessJob is a job in whose environment there are no programs at all.
func newGitlessJob(t *testing.T) *job {
	t.Helper()
	j := newJob(t)
	j.env = append(slices.DeleteFunc(j.env, func(pair string) bool { return strings.HasPrefix(pair, "PATH=") }), "PATH="+t.TempDir())
	j.gitless = true
	return j
}

// git runs git in the work directory.
func (j *job) git(args ...string) string {
	j.t.Helper()
	return gitIn(j.t, j.dir, args...)
}

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, append(cleanEnv(), "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (j *job) write(name, text string) {
	j.t.Helper()
	writeFile(j.t, filepath.Join(j.dir, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// files are the names of all files in the work directory, without those of .git.
func (j *job) files() []string {
	j.t.Helper()
	var names []string
	err := filepath.WalkDir(j.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".git" {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !e.IsDir() {
			name, err := filepath.Rel(j.dir, path)
			if err != nil {
				return err
			}
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		j.t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func (j *job) wantFiles(want ...string) {
	j.t.Helper()
	if diff := cmp.Diff(want, j.files(), cmp.Transformer("nil", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		j.t.Errorf("files (-want +got):\n%s", diff)
	}
}

// server is a server with a repository of three commits: on main, with a tag, and on a branch.
type server struct {
	*sourcetest.GitHTTP
	repos             string
	first, main, side string // commits
}

func serve(t *testing.T, o sourcetest.GitOptions) *server {
	t.Helper()
	s := &server{repos: t.TempDir()}
	o.Repos = s.repos
	repo, err := sourcetest.NewGitRepo(filepath.Join(s.repos, "project.git"))
	if err != nil {
		t.Fatal(err)
	}
	push := func(branch string, files map[string]sourcetest.GitFile) string {
		commit, err := repo.Push(branch, "commit on "+branch, files)
		if err != nil {
			t.Fatal(err)
		}
		return commit
	}
	s.first = push("main", map[string]sourcetest.GitFile{"a": {Content: "1"}})
	if err := repo.Set("refs/heads/side", s.first); err != nil {
		t.Fatal(err)
	}
	s.side = push("side", map[string]sourcetest.GitFile{"side": {Content: "s"}})
	s.main = push("main", map[string]sourcetest.GitFile{"a": {Content: "2"}, "folder/b": {Content: "b"}})
	tag, err := repo.Annotate("v1", "commit", s.first)
	if err != nil {
		t.Fatal(err)
	}
	for ref, object := range map[string]string{"refs/tags/v1": tag, "refs/merge-requests/7/head": s.side} {
		if err := repo.Set(ref, object); err != nil {
			t.Fatal(err)
		}
	}
	if s.GitHTTP, err = sourcetest.StartGitHTTP(o); err != nil {
		t.Skipf("needs git: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func (s *server) project() string { return s.URL + "/project.git" }

func TestWhatIsCheckedOut(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testWhatIsCheckedOut(t, s, newJob) })
}

func testWhatIsCheckedOut(t *testing.T, s *server, newJob func(*testing.T) *job) {
	all := []string{"a", "folder/b"}
	for _, test := range []struct {
		name  string
		in    map[string]any
		sha   string
		files []string
		refs  []string
	}{
		{"nothing said: the default branch", nil, s.main, all, []string{"refs/remotes/origin/main", "refs/remotes/origin/side", "refs/tags/v1"}},
		{"a branch", map[string]any{"ref": "side"}, s.side, []string{"side"}, []string{"refs/remotes/origin/side", "refs/tags/v1"}},
		{"a branch by its whole name", map[string]any{"ref": "refs/heads/side"}, s.side, []string{"side"}, []string{"refs/remotes/origin/side", "refs/tags/v1"}},
		{"an annotated tag", map[string]any{"ref": "v1"}, s.first, []string{"a"}, []string{"refs/tags/v1"}},
		{"a ref of another kind", map[string]any{"ref": "refs/merge-requests/7/head"}, s.side, []string{"side"}, []string{"refs/merge-requests/7/head", "refs/tags/v1"}},
		{"a commit", map[string]any{"sha": s.first}, s.first, []string{"a"}, []string{"refs/remotes/origin/main", "refs/remotes/origin/side", "refs/tags/v1"}},
		{"the beginning of a commit", map[string]any{"sha": s.first[:10]}, s.first, []string{"a"}, []string{"refs/remotes/origin/main", "refs/remotes/origin/side", "refs/tags/v1"}},
		{"a commit of a branch that moved on", map[string]any{"sha": s.first, "ref": "main"}, s.first, []string{"a"}, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		{"a commit beyond the depth", map[string]any{"sha": s.first, "ref": "main", "depth": 1}, s.first, []string{"a"}, []string{"refs/remotes/origin/main"}},
		{
			"what a runner is told", map[string]any{"sha": s.side, "ref": "side", "refspecs": []string{"+" + s.side + ":refs/pipelines/1", "+refs/heads/side:refs/remotes/origin/side"}, "depth": 20},
			s.side,
			[]string{"side"},
			[]string{"refs/pipelines/1", "refs/remotes/origin/side", "refs/tags/v1"},
		},
		{"refspecs without a commit", map[string]any{"ref": "main", "refspecs": []string{"+refs/heads/main:refs/remotes/origin/main"}}, s.main, all, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		{"without a checkout", map[string]any{"ref": "main", "checkout": false}, "", nil, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		{"a fresh clone", map[string]any{"ref": "main", "strategy": "clone"}, s.main, all, []string{"refs/remotes/origin/main", "refs/tags/v1"}},
		{"a fresh clone with arguments", map[string]any{"ref": "side", "strategy": "clone", "clone_flags": []string{"--quiet", "--single-branch", "--branch=side", "--no-tags"}}, s.side, []string{"side"}, []string{"refs/heads/side", "refs/remotes/origin/side"}},
		{"into another folder", map[string]any{"ref": "main", "path": "x/y"}, s.main, []string{"x/y/a", "x/y/folder/b"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			in := maps.Clone(test.in)
			if in == nil {
				in = map[string]any{}
			}
			in["url"] = s.project()
			if in["clone_flags"] != nil && j.gitless {
				if _, err := j.run(in); err == nil || !strings.Contains(err.Error(), "use an image that has the program git") {
					t.Errorf("error %v", err)
				}
				return
			}
			if got := j.must(in); got != test.sha {
				t.Errorf("sha %q, want %q", got, test.sha)
			}
			j.wantFiles(test.files...)
			if test.refs == nil {
				return
			}
			if got := strings.Fields(j.git("for-each-ref", "--format=%(refname)")); !slices.Equal(got, test.refs) {
				t.Errorf("refs %q, want %q", got, test.refs)
			}
			if got := j.git("status", "--porcelain"); test.sha != "" && got != "" {
				t.Errorf("it is not clean: %s", got)
			}
			j.git("fsck", "--strict", "--no-dangling")
		})
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testHistory(t, s, newJob(t)) })
}

func testHistory(t *testing.T, s *server, j *job) {
	in := map[string]any{"url": s.project(), "ref": "main", "depth": 1}
	j.must(in)
	if got := j.git("rev-list", "--count", "HEAD"); got != "1" {
		t.Errorf("%s commits with depth 1", got)
	}
	in["depth"] = 0
	j.must(in)
	if got := j.git("rev-list", "--count", "HEAD"); got != "2" {
		t.Errorf("%s commits with depth 0, after depth 1", got)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	const secret = "glcbt-SECRET-tokén'$x"
	s := serve(t, sourcetest.GitOptions{User: "gitlab-ci-token", Password: secret})
	withUser := strings.Replace(s.project(), "http://", "http://gitlab-ci-token:glcbt-SECRET-tok%C3%A9n%27%24x@", 1)
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testCredentials(t, s, withUser, secret, newJob) })
	t.Run("are not on a command line", func(t *testing.T) {
		t.Parallel()
		c, err := newCheckout(&program.Call{WorkDir: t.TempDir()}, inputs{URL: withUser, Strategy: strategyFetch})
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.Join(c.command([]string{"fetch", c.remote.url}), " "); strings.Contains(line, "SECRET") {
			t.Errorf("%s", line)
		}
	})
	t.Run("are for their server only", func(t *testing.T) {
		t.Parallel()
		r, err := remoteOf(&inputs{URL: "https://example.com:8443/g/p.git?x#y", Token: "x"})
		if err != nil || r.base != "https://example.com:8443" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func testCredentials(t *testing.T, s *server, withUser, secret string, newJob func(*testing.T) *job) {
	for _, test := range []struct {
		name string
		in   map[string]any
	}{
		{"as inputs", map[string]any{"url": s.project(), "token": secret}},
		{"in the address", map[string]any{"url": withUser}},
		{"with a clone", map[string]any{"url": withUser, "strategy": "clone", "clone_flags": []string{"--quiet"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			if got := j.must(test.in); got != s.main {
				t.Errorf("sha %q", got)
			}
			if strings.Contains(j.output.String(), "SECRET") {
				t.Errorf("the log has it:\n%s", j.output.String())
			}
			err := filepath.WalkDir(filepath.Dir(j.dir), func(path string, e fs.DirEntry, err error) error {
				if err != nil || e.IsDir() {
					return err
				}
				data, err := os.ReadFile(path)
				if bytes.Contains(data, []byte("SECRET")) {
					t.Errorf("%s has it", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := j.git("config", "remote.origin.url"), s.project(); got != want {
				t.Errorf("the remote is %s, want %s", got, want)
			}
		})
	}
	t.Run("wrong ones fail, and are not told", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		_, err := j.run(map[string]any{"url": strings.Replace(withUser, "SECRET", "SECRET2", 1)})
		if err == nil || strings.Contains(err.Error()+j.output.String(), "SECRET") || !strings.Contains(err.Error(), s.project()) {
			t.Errorf("error %v\n%s", err, j.output.String())
		}
	})
}

func TestWhatAnEarlierJobLeft(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testWhatAnEarlierJobLeft(t, s, newJob) })
}

func testWhatAnEarlierJobLeft(t *testing.T, s *server, newJob func(*testing.T) *job) {
	in := map[string]any{"url": s.project(), "ref": "main"}

	t.Run("is updated and cleaned", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.must(in)
		j.write("a", "changed")
		j.write("untracked/x", "x")
		j.write(".git/index.lock", "")
		j.write(".git/HEAD.lock", "")
		j.write(".git/refs/remotes/origin/main.lock", "")
		j.write(".git/objects/info/commit-graphs/commit-graph-chain.lock", "")
		j.write(".git/hooks/post-checkout", "#!/bin/sh\necho HOOKED\n")
		if err := os.Chmod(filepath.Join(j.dir, ".git", "hooks", "post-checkout"), 0o755); err != nil {
			t.Fatal(err)
		}
		j.git("config", "core.fsmonitor", "echo FSMONITOR >&2; false")
		j.git("config", "url.http://127.0.0.1:1/.insteadOf", s.URL)
		s.Requests()
		if got := j.must(in); got != s.main {
			t.Errorf("sha %q", got)
		}
		j.wantFiles("a", "folder/b")
		if out := j.output.String(); strings.Contains(out, "HOOKED") || strings.Contains(out, "FSMONITOR") {
			t.Errorf("it ran what the earlier job left:\n%s", out)
		}
		if out, want := j.output.String(), "Reinitialized existing Git repository in "+filepath.Join(j.dir, ".git"); strings.Count(out, want) != 1 && !j.gitless {
			t.Errorf("it does not say that it goes on with the repository:\n%s", out)
		}
		if text, err := os.ReadFile(filepath.Join(j.dir, "a")); err != nil || string(text) != "2" {
			t.Errorf("a is %q, %v", text, err)
		}
	})
	t.Run("is configured as it was, if that is wanted", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		if j.gitless {
			return // everything goes
		}
		j.must(in)
		j.git("config", "rung.kept", "yes")
		j.must(map[string]any{"url": s.project(), "ref": "main", "clean_config": false})
		if text, err := os.ReadFile(filepath.Join(j.dir, ".git", "config")); err != nil || !strings.Contains(string(text), "kept = yes") {
			t.Errorf("%v\n%s", err, text)
		}
		j.must(in)
		if text, err := os.ReadFile(filepath.Join(j.dir, ".git", "config")); err != nil || strings.Contains(string(text), "kept = yes") {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("stays where nothing is cleaned", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		if j.gitless {
			return // TestWithoutGitNothingIsKept: everything goes
		}
		j.must(in)
		j.write("untracked", "x")
		j.must(map[string]any{"url": s.project(), "ref": "main", "clean_flags": []string{}})
		j.wantFiles("a", "folder/b", "untracked")
		j.must(map[string]any{"url": s.project(), "ref": "main", "clean_flags": []string{"-ffdx", "-e", "untracked"}})
		j.wantFiles("a", "folder/b", "untracked")
	})
	t.Run("goes with the strategy clone", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.write("readonly/x", "x")
		if err := os.Chmod(filepath.Join(j.dir, "readonly"), 0o500); err != nil {
			t.Fatal(err)
		}
		j.must(map[string]any{"url": s.project(), "ref": "main", "strategy": "clone"})
		j.wantFiles("a", "folder/b")
	})
	t.Run("goes with the strategy empty", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.must(in)
		if got := j.must(map[string]any{"strategy": "empty"}); got != "" {
			t.Errorf("sha %q", got)
		}
		j.wantFiles()
	})
	t.Run("stays with the strategy none", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.write("mine", "x")
		if got := j.must(map[string]any{"strategy": "none", "url": s.project()}); got != "" {
			t.Errorf("sha %q", got)
		}
		j.wantFiles("mine")
		j.must(in)
		j.write("mine", "x")
		if got := j.must(map[string]any{"strategy": "none"}); got != s.main {
			t.Errorf("sha %q", got)
		}
		j.wantFiles("a", "folder/b", "mine")
	})
	t.Run("a repository of another object format is begun again", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.git("init", "--quiet", "--object-format=sha256")
		if got := j.must(in); got != s.main {
			t.Errorf("sha %q", got)
		}
	})
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testAttempts(t, s, newJob) })
}

func testAttempts(t *testing.T, s *server, newJob func(*testing.T) *job) {
	broken := func(j *job) {
		j.must(map[string]any{"url": s.project(), "ref": "main"})
		j.write(".git/HEAD", "this is not a HEAD\n")
	}
	t.Run("a broken repository of an earlier job is begun again", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		broken(j)
		if got := j.must(map[string]any{"url": s.project(), "ref": "main"}); got != s.main {
			t.Errorf("sha %q", got)
		}
	})
	t.Run("the pauses double, and the last error counts", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		call := &program.Call{WorkDir: j.dir, Env: j.env, Stdout: &j.output, Stderr: &j.output}
		c, err := newCheckout(call, inputs{URL: s.URL + "/nowhere.git", Strategy: strategyFetch, Attempts: 4, Ref: "main"})
		if err != nil {
			t.Fatal(err)
		}
		var pauses []time.Duration
		c.pause = func(_ context.Context, d time.Duration) bool { pauses = append(pauses, d); return true }
		if _, err := c.run(t.Context()); err == nil {
			t.Error("no error")
		}
		if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, pauses); diff != "" {
			t.Errorf("pauses (-want +got):\n%s", diff)
		}
	})
}

func TestGitTrustsTheFolderInLaterSteps(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	for _, trusted := range []bool{false, true} {
		j := newJob(t)
		for range 2 { // the second one adds nothing
			j.must(map[string]any{"url": s.project(), "ref": "main", "safe_directory": trusted})
		}
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(j.dir), "home", ".gitconfig"))
		if n := strings.Count(string(text), "directory = "+j.dir+"\n"); n != map[bool]int{true: 1}[trusted] {
			t.Errorf("safe_directory %v:\n%s", trusted, text)
		}
	}
}

func TestARepositoryWithoutCommits(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	if _, err := sourcetest.NewGitRepo(filepath.Join(s.repos, "empty.git")); err != nil {
		t.Fatal(err)
	}
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) {
		for _, ref := range []string{"", "main"} {
			j := newJob(t)
			if got := j.must(map[string]any{"url": s.URL + "/empty.git", "ref": ref, "submodules": "recursive"}); got != "" {
				t.Errorf("ref %q: sha %q", ref, got)
			}
			if got := j.git("symbolic-ref", "HEAD"); got != "refs/heads/main" {
				t.Errorf("HEAD is %s", got)
			}
		}
	})
}

func TestSHA256(t *testing.T) {
	t.Parallel()
	j := newJob(t)
	origin := filepath.Join(t.TempDir(), "origin")
	gitIn(t, filepath.Dir(origin), "init", "--quiet", "--object-format=sha256", "--initial-branch=main", origin)
	writeFile(t, filepath.Join(origin, "a"), "a")
	gitIn(t, origin, "add", "a")
	gitIn(t, origin, "commit", "--quiet", "--message", "one")
	want := gitIn(t, origin, "rev-parse", "HEAD")
	if got := j.must(map[string]any{"url": "file://" + filepath.ToSlash(origin), "sha": want, "ref": "main", "object_format": "sha256"}); got != want || len(got) != 64 {
		t.Errorf("sha %q, want %q", got, want)
	}
	j.wantFiles("a")
}

func TestSubmodules(t *testing.T) {
	t.Parallel()
	const token = "SECRET"
	s := serve(t, sourcetest.GitOptions{User: "gitlab-ci-token", Password: token})
	base := t.TempDir()
	authorized := strings.Replace(s.URL, "http://", "http://gitlab-ci-token:"+token+"@", 1)
	// outer has library, which has project; and other by an SSH address.
	makeRepo := func(name string, modules map[string]string) {
		dir := filepath.Join(base, name)
		gitIn(t, base, "init", "--quiet", "--initial-branch=main", dir)
		writeFile(t, filepath.Join(dir, name+".txt"), "x")
		host := strings.TrimPrefix(s.URL, "http://")
		host, _, _ = strings.Cut(host, ":")
		for path, target := range modules {
			gitIn(t, dir, "-c", "protocol.allow=always", "clone", "--quiet", authorized+"/"+target+".git", path)
			gitIn(t, dir, "config", "--file", ".gitmodules", "submodule."+path+".path", path)
			address := "../" + target + ".git"
			if path == "ssh" {
				address = "git@" + host + ":" + target + ".git"
			}
			gitIn(t, dir, "config", "--file", ".gitmodules", "submodule."+path+".url", address)
		}
		gitIn(t, dir, "-c", "advice.addEmbeddedRepo=false", "add", "--all")
		gitIn(t, dir, "commit", "--quiet", "--message", "one")
		gitIn(t, dir, "clone", "--quiet", "--bare", dir, filepath.Join(s.repos, name+".git"))
	}
	if _, err := sourcetest.GitProgram(); err != nil {
		t.Skipf("needs git: %v", err)
	}
	makeRepo("library", map[string]string{"inner": "project"})
	makeRepo("outer", map[string]string{"library": "library", "other": "project"})
	makeRepo("secure", map[string]string{"ssh": "project"})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testSubmodules(t, s, token, newJob) })
}

func testSubmodules(t *testing.T, s *server, token string, newJob func(*testing.T) *job) {
	in := func(name string, more map[string]any) map[string]any {
		all := map[string]any{"url": s.URL + "/" + name + ".git", "token": token, "ref": "main"}
		for k, v := range more {
			all[k] = v
		}
		return all
	}
	for _, test := range []struct {
		name  string
		in    map[string]any
		files []string
	}{
		{"none", in("outer", nil), []string{".gitmodules", "outer.txt"}},
		{"normal", in("outer", map[string]any{"submodules": "normal"}), []string{".gitmodules", "library/.gitmodules", "library/library.txt", "other/a", "other/folder/b", "outer.txt"}},
		{"recursive", in("outer", map[string]any{"submodules": "recursive"}), []string{".gitmodules", "library/.gitmodules", "library/inner/a", "library/inner/folder/b", "library/library.txt", "other/a", "other/folder/b", "outer.txt"}},
		{"some paths", in("outer", map[string]any{"submodules": "recursive", "submodule_paths": []string{":(exclude)other"}}), []string{".gitmodules", "library/.gitmodules", "library/inner/a", "library/inner/folder/b", "library/library.txt", "outer.txt"}},
		{"depth and arguments", in("outer", map[string]any{"submodules": "normal", "submodule_depth": 1, "submodule_update_flags": []string{"--jobs", "2"}}), []string{".gitmodules", "library/.gitmodules", "library/library.txt", "other/a", "other/folder/b", "outer.txt"}},
		{"SSH addresses by HTTP", in("secure", map[string]any{"submodules": "normal", "submodule_force_https": true}), []string{".gitmodules", "secure.txt", "ssh/a", "ssh/folder/b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.must(test.in)
			j.wantFiles(test.files...)
			if test.in["submodules"] == nil {
				return
			}
			// The next job finds the submodules as it left them: changed, with hooks and settings of its own.
			err := filepath.WalkDir(j.dir, func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() && e.Name() == "a" {
					writeFile(t, path, "changed")
					writeFile(t, path+".untracked", "x")
				}
				if err == nil && e.Name() == "config" && !e.IsDir() {
					f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
					if err != nil {
						return err
					}
					defer f.Close()
					_, err = f.WriteString("[core]\n\tfsmonitor = \"echo FSMONITOR >&2; false\"\n")
					return err
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			j.must(test.in)
			j.wantFiles(test.files...)
			if out := j.output.String(); strings.Contains(out, "FSMONITOR") || strings.Contains(out, "WARNING") != j.gitless {
				t.Errorf("log:\n%s", out)
			}
			if got := j.git("status", "--porcelain"); got != "" {
				t.Errorf("it is not clean: %s", got)
			}
			if got := j.git("submodule", "foreach", "--recursive", "--quiet", "git status --porcelain"); got != "" {
				t.Errorf("submodules are not clean: %s", got)
			}
		})
	}
	t.Run("one that is not there fails after a second try", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		if j.gitless {
			_, err := j.run(in("secure", map[string]any{"submodules": "normal"}))
			if err == nil || !strings.Contains(err.Error(), "the submodule ssh: only repositories behind http and https") {
				t.Errorf("error %v", err)
			}
			return
		}
		_, err := j.run(in("secure", map[string]any{"submodules": "normal", "submodule_update_flags": []string{"--no-such-argument"}}))
		if err == nil || !strings.Contains(err.Error(), "updating the submodules") || !strings.Contains(j.output.String(), "trying once more") {
			t.Errorf("error %v\n%s", err, j.output.String())
		}
	})
}

func TestWorkTree(t *testing.T) {
	t.Parallel()
	newProject := func(j *job) string {
		dir := filepath.Join(filepath.Dir(j.dir), "project")
		gitIn(t, filepath.Dir(j.dir), "init", "--quiet", "--initial-branch=main", dir)
		writeFile(t, filepath.Join(dir, "a"), "a")
		writeFile(t, filepath.Join(dir, ".gitignore"), "*.o\n")
		return dir
	}
	t.Run("its files come as they are", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		dir := newProject(j)
		gitIn(t, dir, "add", "--all")
		gitIn(t, dir, "commit", "--quiet", "--message", "one")
		writeFile(t, filepath.Join(dir, "untracked"), "x")
		writeFile(t, filepath.Join(dir, "x.o"), "x")
		j.write("left", "by an earlier job")
		if got := j.must(map[string]any{"work_tree": dir}); got != gitIn(t, dir, "rev-parse", "HEAD") {
			t.Errorf("sha %q", got)
		}
		j.wantFiles(".gitignore", "a", "untracked")
		if got := j.git("status", "--porcelain"); got != "?? untracked" {
			t.Errorf("status %q", got)
		}
	})
	t.Run("the branch of the remote can be where it would be after a push", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		dir := newProject(j)
		gitIn(t, dir, "add", "--all")
		gitIn(t, dir, "commit", "--quiet", "--message", "one")
		sha := j.must(map[string]any{"work_tree": dir, "tracking": "a/b"})
		if got := j.git("rev-parse", "refs/remotes/origin/a/b"); got != sha {
			t.Errorf("it is at %q, and the work tree at %q", got, sha)
		}
		if _, err := j.run(map[string]any{"work_tree": dir, "tracking": "../../config"}); err == nil || !strings.Contains(err.Error(), "not the name of a branch") {
			t.Error(err)
		}
	})
	t.Run("what the user ignores everywhere can stay behind", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		dir := newProject(j)
		writeFile(t, filepath.Join(dir, "notes.private"), "x")
		patterns := filepath.Join(filepath.Dir(dir), "ignore")
		writeFile(t, patterns, "*.private\n")
		j.must(map[string]any{"work_tree": dir, "excludes_file": patterns})
		j.wantFiles(".gitignore", "a")
	})
	t.Run("without commits", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		if got := j.must(map[string]any{"work_tree": newProject(j)}); got != "" {
			t.Errorf("sha %q", got)
		}
		j.wantFiles(".gitignore", "a")
	})
	t.Run("the strategy none leaves the folder", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.write("mine", "x")
		j.must(map[string]any{"work_tree": newProject(j), "strategy": "none"})
		j.wantFiles("mine")
	})
	t.Run("is never what would be cleared", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		j.write("project/a", "a")
		for _, from := range []string{j.dir, filepath.Join(j.dir, "project"), "project", "."} {
			if _, err := j.run(map[string]any{"work_tree": from}); err == nil || !strings.Contains(err.Error(), "is in the folder that it would be copied to") {
				t.Errorf("%s: error %v", from, err)
			}
		}
		j.wantFiles("project/a")
	})
}

func TestLargeFiles(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	// git-lfs is often not there. A program of that name notes how it was called.
	withLFS := func(j *job) (log string) {
		bin := t.TempDir()
		log = filepath.Join(bin, "log")
		text := "#!/bin/sh\necho \"$*, skip smudge: $GIT_LFS_SKIP_SMUDGE\" >>'" + log + "'\n"
		if err := os.WriteFile(filepath.Join(bin, "git-lfs"), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		j.env = slices.DeleteFunc(j.env, func(pair string) bool { return strings.HasPrefix(pair, "PATH=") })
		j.env = append(j.env, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		return log
	}
	for _, test := range []struct {
		name string
		skip bool
		want string
	}{
		{"are fetched after the checkout, all at once", false, "version, skip smudge: 1\npull, skip smudge: 1\n"},
		{"stay pointers where that is asked for", true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			j := newJob(t)
			if _, err := exec.LookPath("sh"); err != nil {
				t.Skip("needs sh")
			}
			log := withLFS(j)
			j.must(map[string]any{"url": s.project(), "ref": "main", "lfs_skip_smudge": test.skip})
			got, err := os.ReadFile(log)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if string(got) != test.want {
				t.Errorf("calls %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheUserAgent(t *testing.T) {
	t.Parallel()
	got := make(chan string, 16)
	s := serve(t, sourcetest.GitOptions{Handle: handleAgents(got)})
	for _, j := range []*job{newJob(t), newGitlessJob(t)} {
		j.must(map[string]any{"url": s.project(), "ref": "main", "user_agent": "rung/1.0 linux"})
		for range 2 { // the refs, and the pack
			if agent := <-got; agent != "rung/1.0 linux" {
				t.Errorf("user agent %q", agent)
			}
		}
		for len(got) > 0 {
			<-got
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testWhatIsRefused(t, s, newJob) })
}

func testWhatIsRefused(t *testing.T, s *server, newJob func(*testing.T) *job) {
	for _, test := range []struct {
		name string
		in   map[string]any
		want string
	}{
		{"no repository at all", map[string]any{}, "give url or work_tree"},
		{"a commit that is an argument", map[string]any{"url": s.project(), "sha": "--help"}, "is not a commit"},
		{"a ref that is an argument", map[string]any{"url": s.project(), "ref": "--upload-pack=x"}, "is not the name of a branch"},
		{"a refspec that is an argument", map[string]any{"url": s.project(), "refspecs": []string{"--upload-pack=x"}}, "refspecs"},
		{"an address that is an argument", map[string]any{"url": "--upload-pack=x"}, "not the address"},
		{"an address that is none, and is not told", map[string]any{"url": "http://user:SECRET@%zz/"}, "url: this is not the address of a repository"},
		{"a path above the work directory", map[string]any{"url": s.project(), "path": "../x"}, "leaves the work directory"},
		{"the whole file system", map[string]any{"url": s.project(), "path": "/"}, "whole file system"},
		{"half an attempt", map[string]any{"url": s.project(), "attempts": 0.5}, "not a whole number"},
		{"a branch that is not there", map[string]any{"url": s.project(), "ref": "nowhere"}, `has no branch or tag "nowhere"`},
		{"a commit that is not there", map[string]any{"url": s.project(), "sha": strings.Repeat("1", 40)}, "a larger depth may reach it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			_, err := j.run(test.in)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	t.Run("a cancel ends it", func(t *testing.T) {
		t.Parallel()
		j := newJob(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := j.runIn(ctx, map[string]any{"url": s.project(), "attempts": 3}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}
