package worktree_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/worktree"
)

// copyOf copies a repository, with nothing of the user's configuration.
func copyOf(t *testing.T, r *repo) (*repo, *worktree.Summary) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	s, err := worktree.Copy(t.Context(), r.dir, to, worktree.Options{Env: cleanEnv()})
	if err != nil {
		t.Fatal(err)
	}
	return &repo{t, to}, s
}

// filesOf lists a folder: files with mode and text, links with their target, folders with a slash; without .git.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if e.Name() == ".git" {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case e.IsDir():
			all[name+"/"] = ""
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			all[name] = "-> " + target
		default:
			info, err := e.Info()
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			all[name] = info.Mode().String() + " " + string(text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheCopyHasWhatAPersonSees(t *testing.T) {
	r := newRepo(t)
	r.write("tracked.txt", "tracked")
	r.write("folder/deep/tracked", "deep")
	r.write("gone", "gone")
	r.write("gonefolder/gone", "gone")
	r.write("forced.log", "tracked although it is ignored")
	r.write(".rung/tracked", "what Git tracks")
	r.write(".gitignore", "*.log\n/ignored/\n")
	r.write("program", "#!/bin/sh\n")
	if err := os.Chmod(r.path("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.write("replaced/inside", "was a file in a folder")
	r.commit("first")
	r.git("add", "--force", "forced.log")
	r.commit("second")

	for _, name := range []string{"gone", "gonefolder", "replaced"} {
		if err := os.RemoveAll(r.path(name)); err != nil {
			t.Fatal(err)
		}
	}
	r.write("tracked.txt", "changed")
	r.write("staged", "staged")
	r.git("add", "staged")
	r.write("untracked", "untracked")
	r.write("new/untracked", "")
	r.write("debug.log", "ignored")
	r.write("ignored/file", "ignored")
	r.write(".rung/cache/file", "our own state")
	r.write(".rung/sources.toml", "a setting of the project")
	r.write("sub/.rung/file", "somebody else's")

	// A folder that became a link: what Git knows in it is deleted, not what the link leads to.
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "inside"), []byte("outside"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"replaced": outside, "link": "tracked.txt", "dangling": "nowhere", "upward": "../.."} {
		if err := os.Symlink(target, r.path(name)); err != nil {
			t.Skipf("needs symbolic links: %v", err)
		}
	}

	copied, s := copyOf(t, r)
	want := map[string]string{
		".gitignore": "-rw-r--r-- *.log\n/ignored/\n", "tracked.txt": "-rw-r--r-- changed", "folder/": "", "folder/deep/": "",
		"folder/deep/tracked": "-rw-r--r-- deep", "forced.log": "-rw-r--r-- tracked although it is ignored", "program": "-rwxr-xr-x #!/bin/sh\n",
		"staged": "-rw-r--r-- staged", "untracked": "-rw-r--r-- untracked", "new/": "", "new/untracked": "-rw-r--r-- ",
		"sub/": "", "sub/.rung/": "", "sub/.rung/file": "-rw-r--r-- somebody else's",
		".rung/": "", ".rung/sources.toml": "-rw-r--r-- a setting of the project", ".rung/tracked": "-rw-r--r-- what Git tracks",
		"replaced": "-> " + outside, "link": "-> tracked.txt", "dangling": "-> nowhere", "upward": "-> ../..",
	}
	if diff := cmp.Diff(want, filesOf(t, copied.dir)); diff != "" {
		t.Errorf("files of the copy (-want +got):\n%s", diff)
	}
	if s.Files != 11 || s.Links != 4 || !s.Repository || s.Branch != "main" || s.Commit != strings.TrimSpace(r.git("rev-parse", "HEAD")) {
		t.Errorf("summary: %+v", s)
	}
	before := strings.ReplaceAll(r.git("status", "--porcelain=v2", "--branch"), "? .rung/cache/\n", "")
	if diff := cmp.Diff(before, copied.git("status", "--porcelain=v2", "--branch")); diff != "" {
		t.Errorf("git status (-original +copy):\n%s", diff)
	}
}

func TestNamesAreAnyBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs linux: other systems have rules for names")
	}
	r := newRepo(t)
	for _, name := range []string{"new\nline", "tab\there", "quote\"s'", "back\\slash", "\xff\xfe not utf-8", " space ", "-dash", "ümlaut", "*?[x]", "a\r", ":(top)x", "#x"} {
		r.write(name, "top")
		r.write("in "+name+"/folder/"+name, "inside")
	}
	copied, _ := copyOf(t, r)
	if diff := cmp.Diff(filesOf(t, r.dir), filesOf(t, copied.dir)); diff != "" {
		t.Errorf("untracked (-original +copy):\n%s", diff)
	}
	r.commit("all")
	copied, _ = copyOf(t, r)
	if diff := cmp.Diff(filesOf(t, r.dir), filesOf(t, copied.dir)); diff != "" {
		t.Errorf("tracked (-original +copy):\n%s", diff)
	}
	if got := copied.git("status", "--porcelain"); got != "" {
		t.Errorf("the copy is not clean:\n%s", got)
	}
}

// repositories are the states of a repository that a copy has to keep. Each is made in a fresh one and returns where the work tree is.
var repositories = []struct {
	name string
	init []string
	make func(t *testing.T, r *repo) *repo
}{
	{"one commit", nil, func(t *testing.T, r *repo) *repo { r.commit("one"); return r }},
	{"no commit", nil, func(t *testing.T, r *repo) *repo { return r }},
	{"no commit and staged files", nil, func(t *testing.T, r *repo) *repo { r.git("add", "--all"); return r }},
	{"a detached HEAD", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		r.write("b", "b")
		r.commit("two")
		r.git("checkout", "--quiet", "HEAD~1")
		return r
	}},
	{"sha256 objects", []string{"--object-format=sha256"}, func(t *testing.T, r *repo) *repo { r.commit("one"); return r }},
	{"packed refs and tags", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		r.git("tag", "light")
		r.git("tag", "--annotate", "--message", "m", "annotated")
		r.git("pack-refs", "--all")
		r.git("branch", "feature/x")
		r.git("tag", "--annotate", "--message", "m", "loose")
		r.git("update-ref", "refs/remotes/origin/main", "HEAD")
		r.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
		r.write("b", "b")
		r.commit("newer than the packed ref")
		return r
	}},
	{"a linked work tree", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		linked := &repo{r.t, filepath.Join(filepath.Dir(r.dir), "linked")}
		r.git("worktree", "add", "--quiet", "-b", "other", linked.dir)
		linked.write("only here", "x")
		linked.git("add", "--all")
		r.write("staged there", "x")
		r.git("add", "--all")
		return linked
	}},
	{"a shallow clone", nil, func(t *testing.T, r *repo) *repo {
		for _, text := range []string{"1", "2", "3"} {
			r.write("a", text)
			r.commit(text)
		}
		shallow := &repo{r.t, filepath.Join(filepath.Dir(r.dir), "shallow")}
		r.git("clone", "--quiet", "--depth=2", "file://"+r.dir, shallow.dir)
		return shallow
	}},
	{"a clone that borrows objects itself", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		borrower := &repo{r.t, filepath.Join(filepath.Dir(r.dir), "borrower")}
		r.git("clone", "--quiet", "--shared", r.dir, borrower.dir)
		borrower.write("b", "b")
		borrower.commit("two")
		return borrower
	}},
	{"an index of version 4", nil, func(t *testing.T, r *repo) *repo {
		r.write("folder/a", "a")
		r.write("folder/ab", "b")
		r.commit("one")
		r.git("update-index", "--index-version=4")
		return r
	}},
	{"an index in two parts", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		r.git("update-index", "--split-index")
		r.write("b", "b")
		r.git("add", "b")
		return r
	}},
	{"flags in the index", nil, func(t *testing.T, r *repo) *repo {
		r.write("b", "b")
		r.commit("one")
		r.git("update-index", "--skip-worktree", "b")
		r.git("update-index", "--assume-unchanged", "a")
		r.write("intended", "x")
		r.git("add", "--intent-to-add", "intended")
		return r
	}},
	{"a sparse checkout", nil, func(t *testing.T, r *repo) *repo {
		r.write("in/a", "a")
		r.write("out/b", "b")
		r.commit("one")
		r.git("sparse-checkout", "set", "--cone", "in")
		return r
	}},
	{"a merge with conflicts", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		r.git("checkout", "--quiet", "-b", "other")
		r.write("a", "theirs")
		r.commit("theirs")
		r.git("checkout", "--quiet", "main")
		r.write("a", "ours")
		r.commit("ours")
		if out, err := r.try("merge", "other"); err == nil {
			t.Fatalf("no conflict:\n%s", out)
		}
		return r
	}},
	{"the objects in a pack", nil, func(t *testing.T, r *repo) *repo {
		r.commit("one")
		r.git("gc", "--quiet")
		return r
	}},
}

func TestTheCopyIsTheSameRepository(t *testing.T) {
	for _, test := range repositories {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t, test.init...)
			r.write("a", "a")
			r = test.make(t, r)
			r.write("untracked", "x")
			copied, s := copyOf(t, r)
			for _, question := range [][]string{
				{"status", "--porcelain=v2", "--branch"}, {"for-each-ref"}, {"rev-parse", "--verify", "--quiet", "HEAD"}, {"symbolic-ref", "--quiet", "HEAD"},
				{"ls-files", "--stage", "-v"}, {"log", "--format=%H %s", "--all"}, {"describe", "--tags", "--always"}, {"rev-parse", "--is-shallow-repository"},
				{"diff", "HEAD"}, {"ls-files", "--unmerged"}, {"show-ref", "--dereference"}, {"fsck", "--no-dangling", "--connectivity-only"},
			} {
				before, errBefore := r.try(question...)
				after, errAfter := copied.try(question...)
				if (errBefore == nil) != (errAfter == nil) {
					t.Errorf("git %s: %v in the original, %v in the copy: %s", question[0], errBefore, errAfter, after)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("git %s (-original +copy):\n%s", strings.Join(question, " "), diff)
				}
			}
			commit, _ := r.try("rev-parse", "--verify", "--quiet", "HEAD")
			branch, _ := r.try("symbolic-ref", "--quiet", "--short", "HEAD")
			if s.Commit != strings.TrimSpace(commit) || s.Branch != strings.TrimSpace(branch) {
				t.Errorf("the summary says %q on %q, git %q on %q", s.Commit, s.Branch, commit, branch)
			}
		})
	}
}

func TestTheIndexVouchesForTheCopies(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs unix: there git compares the files")
	}
	for _, version := range []string{"2", "4"} {
		t.Run("version "+version, func(t *testing.T) {
			r := newRepo(t)
			r.write("old", "a")
			r.write("folder/old too", "a")
			r.write("changed", "a")
			old := longAgo()
			for _, name := range []string{"old", "folder/old too", "changed"} {
				if err := os.Chtimes(r.path(name), old, old); err != nil {
					t.Fatal(err)
				}
			}
			r.commit("one")
			r.git("update-index", "--index-version="+version)
			r.write("changed", "b")
			copied, _ := copyOf(t, r)
			// diff-files does not look into files: it names those whose times are not the index's.
			if got := copied.git("diff-files", "--name-only"); got != "changed\n" {
				t.Errorf("git would have to read these again: %q, not only what changed", got)
			}
			copied.write("old", "c")
			if got := copied.git("status", "--porcelain"); got != " M changed\n M old\n" {
				t.Errorf("a change in the copy is not seen: %q", got)
			}
		})
	}
}

// longAgo is older than any index.
func longAgo() time.Time { return time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC) }

func TestAJobCannotHarmTheOriginal(t *testing.T) {
	r := newRepo(t)
	r.write("a", "a")
	r.write("folder/b", "b")
	r.commit("one")
	r.git("branch", "other")
	r.git("tag", "v1")
	r.write("a", "not committed")
	before := filesOf(t, filepath.Join(r.dir, ".git"))
	files := filesOf(t, r.dir)

	copied, _ := copyOf(t, r)
	for name := range files {
		if strings.HasSuffix(name, "/") {
			continue
		}
		one, err := os.Stat(r.path(name))
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.Stat(copied.path(name))
		if err != nil {
			t.Fatal(err)
		}
		if os.SameFile(one, other) {
			t.Errorf("%s is a hard link", name)
		}
	}
	copied.write("folder/b", "written in place")
	copied.git("commit", "--quiet", "--all", "--message", "by the job")
	copied.git("checkout", "--quiet", "--orphan", "fresh")
	copied.git("branch", "--delete", "--force", "main", "other")
	copied.git("tag", "--delete", "v1")
	copied.git("rm", "--quiet", "-rf", ".")
	copied.git("config", "core.hooksPath", "/nowhere")
	copied.git("reflog", "expire", "--expire=now", "--all")
	copied.git("gc", "--quiet", "--aggressive", "--prune=now")
	copied.git("prune", "--expire=now")
	copied.git("repack", "-a", "-d", "--quiet")
	if err := os.RemoveAll(copied.dir); err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff(before, filesOf(t, filepath.Join(r.dir, ".git"))); diff != "" {
		t.Errorf("the repository changed:\n%s", diff)
	}
	if diff := cmp.Diff(files, filesOf(t, r.dir)); diff != "" {
		t.Errorf("the files changed:\n%s", diff)
	}
	r.git("fsck", "--strict")
}

func TestRepositoriesInside(t *testing.T) {
	library := newRepo(t)
	library.write("code", "code")
	library.write("deeper/.gitignore", "*.o\n")
	library.commit("library")

	r := newRepo(t)
	r.write("a", "a")
	r.commit("one")
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.dir, "modules/library")
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.dir, "modules/absent")
	r.commit("two")
	r.git("submodule", "--quiet", "deinit", "--force", "modules/absent")
	module := &repo{t, r.path("modules/library")}
	module.write("untracked", "x")
	module.write("deeper/x.o", "ignored")
	nested := &repo{t, r.path("nested")}
	r.git("init", "--quiet", nested.dir)
	nested.write("file", "x")
	nested.commit("nested")

	copied, s := copyOf(t, r)
	want := []string{"modules/library", "nested"}
	if diff := cmp.Diff(want, s.Submodules); diff != "" {
		t.Errorf("repositories inside (-want +got):\n%s", diff)
	}
	files := filesOf(t, r.dir)
	delete(files, "modules/library/deeper/x.o")
	if diff := cmp.Diff(files, filesOf(t, copied.dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	for _, question := range [][]string{{"status", "--porcelain=v2"}, {"submodule", "status"}} {
		if diff := cmp.Diff(r.git(question...), copied.git(question...)); diff != "" {
			t.Errorf("git %s (-original +copy):\n%s", question[0], diff)
		}
	}
	inner := &repo{t, copied.path("modules/library")}
	inner.git("commit", "--quiet", "--allow-empty", "--message", "in the copy")
	if diff := cmp.Diff(strings.TrimSpace(module.git("rev-parse", "HEAD")), strings.TrimSpace(inner.git("rev-parse", "HEAD~1"))); diff != "" {
		t.Errorf("the original's submodule moved:\n%s", diff)
	}
}

func TestSubmodulesCanBeLeftEmpty(t *testing.T) {
	t.Parallel()
	library, r := newRepo(t), newRepo(t)
	library.write("a.txt", "a")
	library.commit("one")
	r.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", library.dir, "library")
	r.commit("with a library")
	to := filepath.Join(t.TempDir(), "copy")
	if _, err := worktree.Copy(t.Context(), r.dir, to, worktree.Options{Env: cleanEnv(), NoSubmodules: true}); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(filepath.Join(to, "library")); err != nil || len(entries) != 0 {
		t.Errorf("the submodule's folder holds %v, %v", entries, err)
	}
}

func TestAFolderThatIsNoRepository(t *testing.T) {
	r := &repo{t, t.TempDir()}
	r.write("a", "a")
	r.write(".gitignore", "*.o\n")
	r.write("x.o", "not ignored: there is no Git")
	r.write(".rung/state", "x")
	r.write(".rung/sources.toml", "x")
	r.write("empty/file", "x")
	if err := os.Remove(r.path("empty/file")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.path(".git"), 0o777); err != nil { // an empty one is none
		t.Fatal(err)
	}
	want := filesOf(t, r.dir)
	for name := range want {
		if name == ".rung/state" {
			delete(want, name)
		}
	}
	copied, s := copyOf(t, r)
	if diff := cmp.Diff(want, filesOf(t, copied.dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(copied.path(".git")); s.Repository || !os.IsNotExist(err) {
		t.Errorf("the copy is a repository: %+v, %v", s, err)
	}
}

// Our own state can be on another disk.
func TestALinkToOurStateIsNotCopied(t *testing.T) {
	for name, c := range map[string]struct {
		git     bool
		tracked string
		options worktree.Options
	}{
		"no repository":              {},
		"a repository":               {git: true},
		"with what is ignored":       {git: true, options: worktree.Options{Ignored: true}},
		"where Git tracks the link":  {git: true, tracked: ".rung"},
		"where Git tracks a setting": {git: true, tracked: ".rung/sources.toml"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &repo{t, t.TempDir()}
			if c.git {
				r = newRepo(t)
			}
			r.write("a", "a")
			state := t.TempDir()
			for _, name := range []string{"state", "sources.toml"} {
				if err := os.WriteFile(filepath.Join(state, name), []byte("x"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			if c.tracked == ".rung/sources.toml" {
				r.write(c.tracked, "x")
				r.commit("a setting")
				if err := os.RemoveAll(r.path(".rung")); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(state, r.path(".rung")); err != nil {
				t.Skipf("needs symbolic links: %v", err)
			}
			if c.tracked == ".rung" {
				r.git("add", "--all")
				r.commit("a link")
			}
			c.options.Env = cleanEnv()
			to := filepath.Join(t.TempDir(), "copy")
			if _, err := worktree.Copy(t.Context(), r.dir, to, c.options); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"a"}, namesOf(filesOf(t, to))); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFolderInsideAWorkTree(t *testing.T) {
	r := newRepo(t)
	r.write("project/a", "a")
	r.write("project/.gitignore", "*.o\n")
	r.write("ignored/b", "b")
	r.write(".gitignore", "/ignored/\n")
	r.commit("one")
	r.write("project/x.o", "ignored")
	t.Run("is seen as Git sees it, and its copy is at no commit", func(t *testing.T) {
		copied, s := copyOf(t, &repo{t, r.path("project")})
		if diff := cmp.Diff([]string{".gitignore", "a"}, namesOf(filesOf(t, copied.dir))); diff != "" || s.Repository {
			t.Errorf("%+v, files (-want +got):\n%s", s, diff)
		}
	})
	t.Run("is copied whole where the repository ignores it", func(t *testing.T) {
		copied, s := copyOf(t, &repo{t, r.path("ignored")})
		if diff := cmp.Diff([]string{"b"}, namesOf(filesOf(t, copied.dir))); diff != "" || s.Repository {
			t.Errorf("%+v, files (-want +got):\n%s", s, diff)
		}
	})
	t.Run("the copy may be in the original", func(t *testing.T) {
		for _, to := range []string{".rung/jobs/1", "build"} {
			for range 2 {
				if err := os.RemoveAll(r.path(to)); err != nil {
					t.Fatal(err)
				}
				if _, err := worktree.Copy(t.Context(), r.dir, r.path(to), worktree.Options{Env: cleanEnv()}); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{".gitignore", "project/", "project/.gitignore", "project/a"}, namesOf(filesOf(t, r.path(to)))); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			}
			if err := os.RemoveAll(r.path(to)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func namesOf(files map[string]string) []string {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestWhatIsNotCopied(t *testing.T) {
	r := newRepo(t)
	r.write("a", "a")
	r.commit("one")
	bare := filepath.Join(t.TempDir(), "bare")
	r.git("clone", "--quiet", "--bare", r.dir, bare)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, ".git"), []byte("gitdir: /nowhere\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		name, from, to string
		ctx            context.Context
		env            []string
		want           string
	}{
		{"a bare repository", bare, "", nil, nil, "is a bare repository"},
		{"a folder that is not there", filepath.Join(full, "nowhere"), "", nil, nil, "no such file"},
		{"a file", filepath.Join(full, "x"), "", nil, nil, "is not a folder"},
		{"into a folder that is not empty", r.dir, full, nil, nil, "is not empty"},
		{"onto itself", full, full, nil, nil, "is not empty"},
		{"a repository that moved away", broken, "", nil, nil, "names a repository that does not exist: /nowhere"},
		{"without git", r.dir, "", nil, []string{"PATH=/no/such/folder"}, "there is no git in PATH, /no/such/folder; install git: it knows what the project ignores"},
		{"after a cancel", r.dir, "", stopped, nil, "context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.to == "" {
				test.to = filepath.Join(t.TempDir(), "copy")
			}
			if test.ctx == nil {
				test.ctx = t.Context()
			}
			if test.env == nil {
				test.env = cleanEnv()
			}
			_, err := worktree.Copy(test.ctx, test.from, test.to, worktree.Options{Env: test.env})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestWithWhatIsIgnoredNoGitIsNeeded(t *testing.T) {
	r := newRepo(t)
	r.write(".gitignore", "ignored\n")
	r.write("sub/file", "1")
	r.commit("one")
	r.write("ignored", "2")
	r.write(".rung/state", "ours")
	to := filepath.Join(t.TempDir(), "copy")
	s, err := worktree.Copy(t.Context(), r.dir, to, worktree.Options{Env: []string{"PATH=" + t.TempDir()}, Ignored: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ignored", "sub/file", ".gitignore"} {
		if _, err := os.Stat(filepath.Join(to, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, ".rung")); err == nil {
		t.Error("our own state came along")
	}
	if !s.Repository || s.Files != 3 {
		t.Errorf("the summary is %+v", s)
	}
	if out := (&repo{t, to}).git("status", "--porcelain"); out != "" {
		t.Errorf("git status says %q", out)
	}
}
