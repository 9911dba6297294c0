package git

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/steps/source/sourcetest"
)

// link makes a symbolic link in the place of a file of the work directory.
func (j *job) link(target, name string) {
	j.t.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.RemoveAll(path); err != nil {
		j.t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		j.t.Fatal(err)
	}
}

// pipe makes a named pipe in the place of a file of the work directory: whoever opens it waits.
func (j *job) pipe(name string) {
	j.t.Helper()
	path := filepath.Join(j.dir, name)
	if err := os.RemoveAll(path); err != nil {
		j.t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		j.t.Fatal(err)
	}
	if out, err := exec.Command("mkfifo", path).CombinedOutput(); err != nil {
		j.t.Fatalf("%v\n%s", err, out)
	}
}

// hook writes a program that tells that it ran.
func (j *job) hook(name string) string {
	j.t.Helper()
	j.write(name, "#!/bin/sh\necho RAN >&2\ntouch "+filepath.Join(filepath.Dir(j.dir), "ran")+"\n")
	path := filepath.Join(j.dir, name)
	if err := os.Chmod(path, 0o755); err != nil {
		j.t.Fatal(err)
	}
	return path
}

func TestAHostileEarlierJob(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs scripts of a POSIX shell")
	}
	s := serve(t, sourcetest.GitOptions{})
	inBothWays(t, func(t *testing.T, newJob func(*testing.T) *job) { testAHostileEarlierJob(t, s, newJob) })
}

func testAHostileEarlierJob(t *testing.T, s *server, newJob func(*testing.T) *job) {
	in := map[string]any{"url": s.project(), "ref": "main"}
	config := func(lines ...string) func(*job) {
		return func(j *job) {
			program := j.hook(".git/evil")
			for i := 0; i < len(lines); i += 2 {
				j.git("config", lines[i], strings.ReplaceAll(lines[i+1], "PROGRAM", program))
			}
		}
	}
	for name, leave := range map[string]func(*job){
		"a file monitor": config("core.fsmonitor", "PROGRAM"),
		"a folder of hooks in its settings": func(j *job) {
			j.hook(".git/evil/post-checkout")
			j.git("config", "core.hooksPath", filepath.Join(j.dir, ".git/evil"))
		},
		"hooks": func(j *job) {
			for _, name := range []string{"post-checkout", "reference-transaction", "post-index-change"} {
				j.hook(".git/hooks/" + name)
			}
		},
		"a link in the place of hooks": func(j *job) { j.hook(".git/evil/post-checkout"); j.link("evil", ".git/hooks") },
		"a filter": func(j *job) {
			config("filter.x.smudge", "PROGRAM", "filter.x.clean", "PROGRAM")(j)
			j.write(".git/info/attributes", "* filter=x\n")
		},
		"aliases and credential helpers": config("alias.fetch", "!PROGRAM", "alias.checkout", "!PROGRAM", "credential.helper", "!PROGRAM"),
		"programs for the transport":     config("core.sshCommand", "PROGRAM", "core.gitProxy", "PROGRAM", "remote.origin.uploadpack", "PROGRAM", "core.pager", "PROGRAM"),
		"another work tree":              config("core.worktree", "/nowhere"),
		"a configuration that is included": func(j *job) {
			config("core.fsmonitor", "PROGRAM")(j)
			j.git("config", "include.path", "evil.config")
			j.write(".git/evil.config", "[core]\n\tfsmonitor = "+j.hook(".git/evil")+"\n")
		},
		"a repository elsewhere": func(j *job) {
			program := j.hook(".git/evil")
			other := filepath.Join(filepath.Dir(j.dir), "other")
			gitIn(t, filepath.Dir(j.dir), "init", "--quiet", "--bare", other)
			gitIn(t, other, "config", "core.fsmonitor", program)
			j.write(".git/commondir", other+"\n")
		},
		"a link in the place of the repository": func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			gitIn(t, filepath.Dir(j.dir), "clone", "--quiet", s.project(), other)
			gitIn(t, other, "config", "core.fsmonitor", j.hook("evil"))
			j.link(other, ".git")
		},
		"a file in the place of the repository": func(j *job) {
			_ = os.RemoveAll(filepath.Join(j.dir, ".git"))
			j.write(".git", "gitdir: /nowhere\n")
		},
		"locks": func(j *job) {
			j.write(".git/index.lock", "")
			j.write(".git/config.lock", "")
			j.write(".git/shallow.lock", "")
		},
		"an index that says that nothing has changed": func(j *job) {
			j.git("update-index", "--assume-unchanged", "a")
			j.git("update-index", "--skip-worktree", "folder/b")
			j.write("a", "evil")
			j.write("folder/b", "evil")
		},
		"other objects in the place of the commit's": func(j *job) {
			j.write("a", "evil")
			j.git("add", "a")
			j.git("commit", "--quiet", "--message", "evil")
			j.git("replace", s.main, "HEAD")
			j.git("pack-refs", "--all")
		},
		"attributes that change files": func(j *job) { j.write(".git/info/attributes", "* text eol=crlf\n"); j.write("a", "x") },
		"files that it excludes":       func(j *job) { j.write(".git/info/exclude", "evil\n"); j.write("evil", "x") },
		"links in the place of files and folders": func(j *job) {
			outside := filepath.Join(filepath.Dir(j.dir), "outside")
			writeFile(j.t, filepath.Join(outside, "b"), "outside")
			j.link(outside, "folder")
			j.link(filepath.Join(outside, "b"), "a")
		},
		"folders for reading only": func(j *job) {
			for _, name := range []string{"folder", ".git/objects", ".git/refs", ".git"} {
				if err := os.Chmod(filepath.Join(j.dir, name), 0o500); err != nil {
					t.Fatal(err)
				}
			}
		},
		"attributes in the work tree": func(j *job) {
			j.write(".gitattributes", "* working-tree-encoding=UTF-16LE\n")
			j.write("a", "2\x00") // which is what the commit has, so encoded
			j.write("folder/b", "evil")
		},
		"attributes in a folder of the work tree": func(j *job) {
			j.write("folder/.gitattributes", "* working-tree-encoding=UTF-16LE\n")
			j.write("folder/b", "b\x00")
		},
		"pipes that nobody writes to": func(j *job) {
			j.pipe(".gitattributes")
			j.pipe("folder/.gitattributes")
			j.pipe(".gitmodules")
			for _, name := range []string{"HEAD", "packed-refs", "shallow", "objects/info/alternates", "index"} {
				j.pipe(".git/" + name)
			}
		},
		"a pipe in the place of an object": func(j *job) {
			j.pipe(".git/objects/" + s.main[:2] + "/" + s.main[2:])
		},
		"a pipe in the place of a branch": func(j *job) { j.pipe(".git/refs/remotes/origin/main") },
		"a HEAD that is none":             func(j *job) { j.write(".git/HEAD", "evil\n") },
		"an index that is none":           func(j *job) { j.write(".git/index", "evil") },
		"a history that is cut off":       func(j *job) { j.write(".git/shallow", s.main+"\n") },
		"objects elsewhere":               func(j *job) { j.write(".git/objects/info/alternates", "/nowhere\n") },
		"an object store that is broken": func(j *job) {
			_ = os.RemoveAll(filepath.Join(j.dir, ".git", "objects"))
			j.link("/nowhere", ".git/objects")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.must(in)
			leave(j)
			if got := j.must(in); got != s.main {
				t.Errorf("sha %q", got)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(j.dir), "ran")); err == nil {
				t.Errorf("it ran what the earlier job left:\n%s", j.output.String())
			}
			j.wantFiles("a", "folder/b")
			for name, want := range map[string]string{"a": "2", "folder/b": "b"} {
				path := filepath.Join(j.dir, name)
				info, err := os.Lstat(path)
				text, readErr := os.ReadFile(path)
				if err != nil || !info.Mode().IsRegular() || readErr != nil || string(text) != want {
					t.Errorf("%s is %q, %v, %v", name, text, err, readErr)
				}
			}
			if text, err := os.ReadFile(filepath.Join(filepath.Dir(j.dir), "outside", "b")); err == nil && string(text) != "outside" {
				t.Errorf("it wrote outside: %q", text)
			}
			if status := j.git("status", "--porcelain", "--ignored"); status != "" {
				t.Errorf("it is not clean: %s", status)
			}
		})
	}
}

func TestFilesThatAreThoseOfTheCommitAreNotWrittenAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	j := newJob(t)
	in := map[string]any{"url": s.project(), "ref": "main"}
	j.must(in)
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(filepath.Join(j.dir, "a"), old, old); err != nil {
		t.Fatal(err)
	}
	j.must(in)
	if info, err := os.Stat(filepath.Join(j.dir, "a")); err != nil || !info.ModTime().Equal(old) {
		t.Errorf("a is of %v, %v, not of %v", info.ModTime(), err, old)
	}
}

// serveNested adds a repository to a server that has inner as a submodule, which has nested as one.
func serveNested(t *testing.T, s *server) (url string) {
	t.Helper()
	base := t.TempDir()
	of := s.project()
	for _, level := range []struct{ name, submodule string }{{"middle", "nested"}, {"outer", "inner"}} {
		dir := filepath.Join(base, level.name)
		gitIn(t, base, "init", "--quiet", "--initial-branch=main", dir)
		gitIn(t, dir, "-c", "protocol.allow=always", "submodule", "--quiet", "add", of, level.submodule)
		writeFile(t, filepath.Join(dir, "folder", "b"), "b")
		gitIn(t, dir, "add", "folder")
		gitIn(t, dir, "commit", "--quiet", "--message", "one")
		gitIn(t, dir, "clone", "--quiet", "--bare", dir, filepath.Join(s.repos, level.name+".git"))
		of = s.URL + "/" + level.name + ".git"
	}
	return of
}

func TestAHostileEarlierJobInSubmodulesOfSubmodules(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs scripts of a POSIX shell")
	}
	s := serve(t, sourcetest.GitOptions{})
	url := serveNested(t, s)
	const modules, nested = ".git/modules/inner", ".git/modules/inner/modules/nested"
	// arm makes a repository one that runs a program.
	arm := func(j *job, dir string) {
		gitIn(t, j.dir, "config", "--file", filepath.Join(dir, "config"), "core.fsmonitor", j.hook("../evil")+"; false")
		for _, name := range []string{"post-checkout", "reference-transaction", "post-index-change"} {
			j.link(j.hook("../evil"), strings.TrimPrefix(filepath.Join(dir, "hooks", name), j.dir+"/"))
		}
	}
	move := func(from, to string) {
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(filepath.Dir(to), 0o777), os.Rename(from, to)); err != nil {
			t.Fatal(err)
		}
	}
	// elsewhere moves the configuration and the objects of a repository.
	elsewhere := func(dir string) func(*job) {
		return func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			move(filepath.Join(j.dir, dir), other)
			gitIn(t, j.dir, "config", "--file", filepath.Join(other, "config"), "--unset", "core.worktree")
			if err := os.MkdirAll(filepath.Join(other, "hooks"), 0o777); err != nil {
				t.Fatal(err)
			}
			program := j.hook("../evil")
			gitIn(t, j.dir, "config", "--file", filepath.Join(other, "config"), "core.fsmonitor", program+"; false")
			for _, name := range []string{"post-checkout", "reference-transaction"} {
				if err := os.Symlink(program, filepath.Join(other, "hooks", name)); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(filepath.Join(other, "HEAD"))
			if err != nil {
				t.Fatal(err)
			}
			j.write(dir+"/HEAD", string(text))
			j.write(dir+"/commondir", other+"\n")
		}
	}
	// inside moves a repository of .git/modules to the work tree that it is of.
	inside := func(dir, workTree string) func(*job) {
		return func(j *job) {
			git := filepath.Join(j.dir, workTree, ".git")
			move(filepath.Join(j.dir, dir), git)
			gitIn(t, j.dir, "config", "--file", filepath.Join(git, "config"), "--unset", "core.worktree")
			arm(j, git)
		}
	}
	for name, leave := range map[string]func(*job){
		"a submodule's configuration elsewhere":                  elsewhere(modules),
		"a configuration elsewhere, of a submodule of submodule": elsewhere(nested),
		"a repository in a submodule":                            inside(modules, "inner"),
		"a repository in a submodule's submodule":                inside(nested, "inner/nested"),
		"a repository in a submodule of a folder for reading only": func(j *job) {
			inside(nested, "inner/nested")(j)
			for _, name := range []string{"inner/nested/.git", "inner/nested", "inner"} {
				if err := os.Chmod(filepath.Join(j.dir, name), 0o500); err != nil {
					t.Fatal(err)
				}
			}
		},
		"a file that names another repository": func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			inside(nested, "inner/nested")(j)
			move(filepath.Join(j.dir, "inner/nested/.git"), other)
			j.write("inner/nested/.git", "gitdir: "+other+"\n")
		},
		"a link to another repository": func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			inside(nested, "inner/nested")(j)
			move(filepath.Join(j.dir, "inner/nested/.git"), other)
			j.link(other, "inner/nested/.git")
		},
		"hooks and settings": func(j *job) { arm(j, filepath.Join(j.dir, modules)); arm(j, filepath.Join(j.dir, nested)) },
		"a list of worktrees": func(j *job) {
			gitIn(t, filepath.Join(j.dir, "inner"), "worktree", "add", "-q", filepath.Join(filepath.Dir(j.dir), "w"))
		},
		"settings of one work tree": func(j *job) {
			gitIn(t, filepath.Join(j.dir, "inner"), "config", "extensions.worktreeConfig", "true")
			gitIn(t, filepath.Join(j.dir, "inner"), "config", "--worktree", "core.fsmonitor", j.hook("../evil"))
		},
		"objects elsewhere": func(j *job) { j.write(nested+"/objects/info/alternates", "/nowhere\n") },
		"attributes":        func(j *job) { j.write("inner/nested/folder/.gitattributes", "* working-tree-encoding=UTF-16LE\n") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, flags := range [][]string{{"-ffdx"}, {}} {
				j := newJob(t)
				in := map[string]any{"url": url, "ref": "main", "submodules": "recursive", "clean_flags": flags}
				j.must(in)
				leave(j)
				j.must(in)
				if _, err := os.Stat(filepath.Join(filepath.Dir(j.dir), "ran")); err == nil {
					t.Errorf("clean flags %q: it ran what the earlier job left:\n%s", flags, j.output.String())
				}
				for name, want := range map[string]string{"folder/b": "b", "inner/folder/b": "b", "inner/nested/a": "2", "inner/nested/folder/b": "b"} {
					if text, err := os.ReadFile(filepath.Join(j.dir, name)); err != nil || string(text) != want {
						t.Errorf("clean flags %q: %s is %q, %v", flags, name, text, err)
					}
				}
			}
		})
	}
}

func TestWhatIsBuiltInASubmoduleStays(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	j := newJob(t)
	in := map[string]any{"url": serveNested(t, s), "ref": "main", "submodules": "recursive", "clean_flags": []string{}}
	j.must(in)
	j.write("inner/built", "x")
	j.write("inner/nested/built", "x")
	j.must(in)
	for _, name := range []string{"inner/built", "inner/nested/built"} {
		if _, err := os.Stat(filepath.Join(j.dir, name)); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(j.output.String(), "WARNING") {
		t.Errorf("it began again:\n%s", j.output.String())
	}
}

func TestAttributesOfSubmodulesThatAreNotBroughtStay(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	url := serveNested(t, s)
	for name, c := range map[string]struct {
		second map[string]any
		stays  bool
	}{
		"no submodules":    {map[string]any{}, true},
		"other submodules": {map[string]any{"submodules": "normal", "submodule_paths": []string{":(exclude)inner"}}, true},
		"no files":         {map[string]any{"submodules": "normal", "checkout": false}, true},
		"this submodule":   {map[string]any{"submodules": "normal", "submodule_paths": []string{"inner"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			in := map[string]any{"url": url, "ref": "main", "clean_flags": []string{}}
			first, second := maps.Clone(in), maps.Clone(in)
			first["submodules"] = "recursive"
			maps.Copy(second, c.second)
			j.must(first)
			for _, folder := range []string{"inner", "inner/folder", "inner/nested"} {
				j.write(folder+"/.gitattributes", "* text\n")
			}
			j.must(second)
			for _, folder := range []string{"inner", "inner/folder", "inner/nested"} {
				if _, err := os.Lstat(filepath.Join(j.dir, folder, ".gitattributes")); (err == nil) != c.stays {
					t.Errorf("%s: %v", folder, err)
				}
			}
			if _, err := os.Lstat(filepath.Join(j.dir, "inner", "nested", ".git")); err == nil && c.second["checkout"] == nil {
				t.Error("the work tree of the submodule is still a repository")
			}
		})
	}
}

// The names in refs are those of branches.
func TestABranchWithTheNameOfAFileOfGit(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	j := newJob(t)
	in := map[string]any{"url": s.project(), "ref": "main", "clean_flags": []string{}}
	j.must(in)
	for _, name := range []string{"commondir", "x/commondir", "x/y", "z/objects", "z/config"} {
		j.git("update-ref", "--create-reflog", "refs/remotes/origin/"+name, "HEAD")
	}
	if err := cleanRepository(filepath.Join(j.dir, ".git"), true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"main", "commondir", "x/commondir", "x/y", "z/objects", "z/config"} {
		j.git("rev-parse", "--verify", "refs/remotes/origin/"+name)
		if _, err := os.Stat(filepath.Join(j.dir, ".git", "logs", "refs", "remotes", "origin", name)); err != nil {
			t.Error(err)
		}
	}
}

func TestNothingRunsWithTheStrategyNone(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs scripts of a POSIX shell")
	}
	s := serve(t, sourcetest.GitOptions{})
	in := map[string]any{"url": s.project(), "ref": "main"}
	none := map[string]any{"strategy": "none"}
	for name, c := range map[string]struct {
		leave func(*job)
		want  string
	}{
		"a commit that a server has": {func(j *job) {
			program := j.hook("../evil")
			for _, pair := range [][2]string{
				{"core.repositoryFormatVersion", "1"}, {"extensions.partialClone", "origin"}, {"remote.origin.promisor", "true"}, {"remote.origin.uploadpack", program},
				{"core.fsmonitor", program}, {"remote.origin.url", "file://" + j.dir},
			} {
				j.git("config", pair[0], pair[1])
			}
			j.write(".git/HEAD", strings.Repeat("1", 40)+"\n")
		}, strings.Repeat("1", 40)},
		"a branch":             {func(j *job) { j.git("checkout", "--quiet", "-b", "x") }, s.main},
		"a branch with others": {func(j *job) { j.git("checkout", "--quiet", "-b", "x"); j.git("pack-refs", "--all") }, s.main},
		"a ref that leads to another": {func(j *job) {
			j.git("symbolic-ref", "refs/heads/x", "refs/remotes/origin/main")
			j.git("symbolic-ref", "HEAD", "refs/heads/x")
		}, s.main},
		"refs that lead to each other": {func(j *job) {
			j.write(".git/refs/heads/x", "ref: refs/heads/x\n")
			j.write(".git/HEAD", "ref: refs/heads/x\n")
		}, ""},
		"a linked work tree": {func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			gitIn(t, filepath.Dir(j.dir), "clone", "--quiet", s.project(), other)
			if err := os.RemoveAll(j.dir); err != nil {
				j.t.Fatal(err)
			}
			gitIn(t, other, "worktree", "add", "--quiet", "-b", "x", j.dir)
		}, s.main},
		"a repository elsewhere": {func(j *job) {
			other := filepath.Join(filepath.Dir(j.dir), "other")
			if err := os.Rename(filepath.Join(j.dir, ".git"), other); err != nil {
				j.t.Fatal(err)
			}
			j.write(".git", "gitdir: ../other\n")
		}, s.main},
		"a link to a repository elsewhere": {func(j *job) { j.link("/nowhere", ".git") }, ""},
		"a branch without commits":         {func(j *job) { j.git("checkout", "--quiet", "--orphan", "x") }, ""},
		"a name outside":                   {func(j *job) { j.write(".git/HEAD", "ref: refs/../../evil\n"); j.write("evil", s.main+"\n") }, ""},
		"a link in the place of HEAD":      {func(j *job) { j.link("/etc/hostname", ".git/HEAD") }, ""},
		"a pipe in the place of HEAD":      {func(j *job) { j.pipe(".git/HEAD") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t)
			j.must(in)
			c.leave(j)
			if got := j.must(none); got != c.want {
				t.Errorf("sha %q", got)
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(j.dir), "ran")); err == nil {
				t.Errorf("it ran what the earlier job left:\n%s", j.output.String())
			}
		})
	}
}

func TestASubmoduleOfAHostileEarlierJob(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	base := t.TempDir()
	dir := filepath.Join(base, "outer")
	gitIn(t, base, "init", "--quiet", "--initial-branch=main", dir)
	gitIn(t, dir, "-c", "protocol.allow=always", "submodule", "--quiet", "add", s.project(), "inner")
	gitIn(t, dir, "commit", "--quiet", "--message", "one")
	gitIn(t, dir, "clone", "--quiet", "--bare", dir, filepath.Join(s.repos, "outer.git"))
	in := map[string]any{"url": s.URL + "/outer.git", "ref": "main", "submodules": "normal"}
	for name, leave := range map[string]func(*job){
		"an index that says that nothing has changed": func(j *job) {
			gitIn(t, filepath.Join(j.dir, "inner"), "update-index", "--assume-unchanged", "a")
			gitIn(t, filepath.Join(j.dir, "inner"), "update-index", "--skip-worktree", "folder/b")
			j.write("inner/a", "evil")
			j.write("inner/folder/b", "evil")
		},
		"attributes": func(j *job) {
			j.write("inner/.gitattributes", "* working-tree-encoding=UTF-16LE\n")
			j.write("inner/a", "2\x00")
		},
		"pipes":          func(j *job) { j.pipe("inner/.gitattributes"); j.pipe(".git/modules/inner/HEAD") },
		"another folder": func(j *job) { gitIn(t, filepath.Join(j.dir, "inner"), "config", "core.worktree", "/nowhere") },
		"another list of submodules": func(j *job) {
			j.write(".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = http://127.0.0.1:1/evil.git\n\tupdate = !touch ../ran\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if runtime.GOOS == "windows" {
				t.Skip("needs named pipes")
			}
			j := newJob(t)
			j.must(in)
			leave(j)
			j.must(in)
			j.wantFiles(".gitmodules", "inner/a", "inner/folder/b")
			for name, want := range map[string]string{"a": "2", "folder/b": "b"} {
				if text, err := os.ReadFile(filepath.Join(j.dir, "inner", name)); err != nil || string(text) != want {
					t.Errorf("%s is %q, %v", name, text, err)
				}
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(j.dir), "ran")); err == nil {
				t.Errorf("it ran what the earlier job left:\n%s", j.output.String())
			}
		})
	}
}
