package repository_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local/repository"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/frontend/gitlabci/when"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	g.write(".gitignore", "ignored\n")
	g.write("gone.txt", "")
	g.write("dir/b.txt", "")
	g.write(".rung/config.yml", "") // committed, so part of the project
	g.commit("files")
	g.git("rm", "-q", "--cached", "a.txt")
	if err := os.Remove(filepath.Join(g.dir, "gone.txt")); err != nil {
		t.Fatal(err)
	}
	g.write("ignored", "")
	g.write("new file", "")
	g.write(".rung/artifacts/x.zip", "")
	g.write("inner/.git/HEAD", "ref: refs/heads/main\n")
	want := []string{".gitignore", ".rung/config.yml", "a.txt", "dir/b.txt", "new file"}
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" { // whose file systems do not keep such names
		g.write("line\nbreak", "")
		g.write("not \xff UTF-8", "")
		want = []string{".gitignore", ".rung/config.yml", "a.txt", "dir/b.txt", "inner/.git/HEAD", "line\nbreak", "new file", "not \xff UTF-8"}
	}
	r := g.openAt(filepath.Join(g.dir, "dir"))
	got, err := r.Files(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got = slices.DeleteFunc(slices.Clone(got), func(name string) bool { return strings.HasPrefix(name, "inner/") })
	want = slices.DeleteFunc(want, func(name string) bool { return strings.HasPrefix(name, "inner/") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFilesOfAConflict(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	g.git("checkout", "-q", "-b", "other")
	g.write("a.txt", "other\n")
	g.commit("other")
	g.git("checkout", "-q", "main")
	g.write("a.txt", "main\n")
	g.commit("main")
	if err := g.command("merge", "other").Run(); err == nil {
		t.Fatal("the merge has no conflict")
	}
	if files, err := g.open().Files(t.Context()); err != nil || !slices.Equal(files, []string{"a.txt"}) {
		t.Errorf("Files = %q, %v", files, err)
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	g.write("kept.txt", "k\n")
	g.write("moved.txt", strings.Repeat("m\n", 50))
	g.write("removed.txt", "r\n")
	g.write("unstaged.txt", "u\n")
	base := g.commit("base")
	g.write("committed.txt", "")
	g.git("mv", "moved.txt", "to.txt")
	g.commit("change")
	g.write("unstaged.txt", "changed\n")
	g.write("staged.txt", "")
	g.git("add", "staged.txt")
	g.write("untracked.txt", "")
	g.write(".rung/cache/x", "")
	if err := os.Remove(filepath.Join(g.dir, "removed.txt")); err != nil {
		t.Fatal(err)
	}
	r := g.open()
	for range 2 { // the second time from memory
		got, err := r.Changed(t.Context(), base)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"committed.txt", "moved.txt", "removed.txt", "staged.txt", "to.txt", "unstaged.txt", "untracked.txt"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := r.Changed(t.Context(), "none"); err == nil {
		t.Error("no error for a commit that is not there")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	g, _ := newFeature(t)
	g.write("docs/index.md", "")
	f := facts(t, g.open(), repository.Event{Source: "merge_request"})
	f.ProjectFiles = func(_ context.Context, project, ref string) ([]string, error) {
		if project != "other/project" {
			return nil, errors.New("unreachable")
		}
		return []string{"Dockerfile", "at-" + ref}, nil
	}
	for _, c := range []struct {
		changes when.Changes
		yes     bool
		why     string
	}{
		{when.Changes{Paths: []string{"*.txt"}}, true, "b.txt was changed since it left main"},
		{when.Changes{Paths: []string{"docs/**/*"}}, true, "docs/index.md was changed since it left main"},
		{when.Changes{Paths: []string{"a.txt"}}, false, "no a.txt was changed since it left main"},
		{when.Changes{Paths: []string{"a.txt", "c.txt"}}, false, "none of a.txt and 1 more was changed since it left main"},
		{when.Changes{Paths: []string{"b.txt"}, CompareTo: "feature"}, false, "no b.txt was changed since it left feature"},
		{when.Changes{Paths: []string{"b.txt"}, CompareTo: "refs/heads/main"}, true, "b.txt was changed since it left main"},
	} {
		got, err := f.Changed(t.Context(), c.changes)
		if diff := cmp.Diff(when.Answer{Yes: c.yes, Why: c.why}, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", c.changes, err, diff)
		}
	}
	if _, err := f.Changed(t.Context(), when.Changes{Paths: []string{"x"}, CompareTo: "nowhere"}); err == nil || !strings.Contains(err.Error(), "compare_to") {
		t.Errorf("error = %v", err)
	}
	for _, c := range []struct {
		exists when.Exists
		yes    bool
		why    string
	}{
		{when.Exists{Paths: []string{"a.txt"}}, true, "a.txt exists"},
		{when.Exists{Paths: []string{"docs/*"}}, true, "docs/index.md exists"},
		{when.Exists{Paths: []string{"docs"}}, false, "no docs exists"},
		{when.Exists{Paths: []string{"docs/"}}, true, "docs/ exists"},
		{when.Exists{Paths: []string{"doc/", "docs/index.md/"}}, false, "none of doc/ and 1 more exists"},
		{when.Exists{Paths: []string{"*.md"}}, false, "no *.md exists"},
		{when.Exists{Paths: []string{"**/*.md"}}, true, "docs/index.md exists"},
		{when.Exists{Paths: []string{"a.txt"}, Project: "group/name"}, true, "a.txt exists"},
		{when.Exists{Paths: []string{"Dockerfile"}, Project: "/other/project"}, true, "Dockerfile exists in other/project"},
		{when.Exists{Paths: []string{"at-v1"}, Project: "other/project", Ref: "v1"}, true, "at-v1 exists in other/project@v1"},
	} {
		got, err := f.Exists(t.Context(), c.exists)
		if diff := cmp.Diff(when.Answer{Yes: c.yes, Why: c.why}, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", c.exists, err, diff)
		}
	}
	if _, err := f.Exists(t.Context(), when.Exists{Project: "a/b"}); err == nil || !strings.Contains(err.Error(), "a/b: unreachable") {
		t.Errorf("error = %v", err)
	}
	f.ProjectFiles = nil
	if _, err := f.Exists(t.Context(), when.Exists{Project: "a/b", Ref: "c"}); err == nil || !strings.Contains(err.Error(), "a/b@c") {
		t.Errorf("error = %v", err)
	}
}

func TestPathPatterns(t *testing.T) {
	t.Parallel()
	g, _ := newFeature(t)
	g.write("docs/index.md", "")
	g.write("docs/a\nsrc.go", "")
	f := facts(t, g.open(), repository.Event{Source: "merge_request"})
	for _, c := range []struct {
		pattern, changed, exists string // the reasons
	}{
		{`ndex`, "docs/index.md was changed since it left main", "docs/index.md exists"},
		{`\Aindex`, `no file that matches /\Aindex/ was changed since it left main`, `no file that matches /\Aindex/ exists`},
		{`^src\.go$`, `"docs/a\nsrc.go" was changed since it left main`, `"docs/a\nsrc.go" exists`},
		{`\Aa\.txt\z`, `no file that matches /\Aa\.txt\z/ was changed since it left main`, "a.txt exists"},
	} {
		changed, err := f.Changed(t.Context(), when.Changes{Regexp: c.pattern})
		if err != nil || changed.Why != c.changed {
			t.Errorf("changes %s: %+v, %v", c.pattern, changed, err)
		}
		exists, err := f.Exists(t.Context(), when.Exists{Regexp: c.pattern})
		if err != nil || exists.Why != c.exists {
			t.Errorf("exists %s: %+v, %v", c.pattern, exists, err)
		}
	}
	if _, err := f.Exists(t.Context(), when.Exists{Regexp: strings.Repeat("a", when.MaxPathPattern+1)}); err == nil || !strings.Contains(err.Error(), "limit is 255") {
		t.Errorf("error = %v", err)
	}
	f.ProjectFiles = func(context.Context, string, string) ([]string, error) {
		return append(slices.Repeat([]string{"deep/file"}, when.MaxMatchedFiles+1), "top"), nil
	}
	for _, c := range []struct {
		exists when.Exists
		yes    bool
	}{
		{when.Exists{Project: "g/p", Regexp: "none"}, true},
		{when.Exists{Project: "g/p", Paths: []string{"none*/*"}}, true},
		{when.Exists{Project: "g/p", Paths: []string{"none*"}}, false}, // only files at the top count
	} {
		if got, err := f.Exists(t.Context(), c.exists); err != nil || got.Yes != c.yes {
			t.Errorf("%+v: %+v, %v", c.exists, got, err)
		}
	}
}

func TestANameThatCannotBeShownIsQuoted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs names with line breaks: Windows has none")
	}
	g := newGit(t)
	g.write("x\ny", "")
	f := facts(t, g.open(), repository.Event{})
	if got, err := f.Exists(t.Context(), when.Exists{Paths: []string{"x?y"}}); err != nil || got.Why != `"x\ny" exists` {
		t.Errorf("answer = %+v, %v", got, err)
	}
}

func TestCacheKeys(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	g.write("go.sum", "one\n")
	g.write("-x", "dash\n")
	sha := g.commit("locks")
	g.write("other.txt", "")
	g.commit("other")
	key := func(f cachekey.Files) string {
		t.Helper()
		got, err := f.Key(0, g.open().CacheKeys(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	byFile, byCommit := cachekey.Files{Files: []string{"go.sum"}}, cachekey.Files{Commits: []string{"go.sum"}}
	before := key(byFile)

	blobs := g.open().CacheKeys(t.Context())
	for _, name := range []string{"go.sum", "-x"} {
		if id, err := blobs.Blob(name); err != nil || id != g.git("rev-parse", "HEAD:"+name) {
			t.Errorf("Blob(%s) = %s, %v", name, id, err)
		}
	}
	if id, err := blobs.LastCommit("go.sum"); err != nil || id != sha {
		t.Errorf("LastCommit = %s, %v; want %s", id, err, sha)
	}
	for _, name := range []string{"none", "", "*"} {
		if id, err := blobs.Blob(name); err != nil || id != "" {
			t.Errorf("Blob(%q) = %s, %v", name, id, err)
		}
		if id, err := blobs.LastCommit(name); err != nil || id != "" {
			t.Errorf("LastCommit(%q) = %s, %v", name, id, err)
		}
	}

	commit := key(byCommit)
	g.write("go.sum", "two\n")
	changed := key(byFile)
	if changed == before {
		t.Error("a changed file does not change the key")
	}
	if got := key(byCommit); got != commit {
		t.Error("a change that is not committed changes a key that depends on commits")
	}
	g.commit("committed")
	if got := key(byFile); got != changed {
		t.Error("committing changes the key of the same content")
	}
	g.write("go.sum", "one\n")
	if got := key(byFile); got != before {
		t.Error("the same content has another key than before")
	}
	g.write("new.sum", "new\n")
	if id, err := g.open().CacheKeys(t.Context()).Blob("new.sum"); err != nil || id != g.git("hash-object", "new.sum") {
		t.Errorf("Blob of an untracked file = %s, %v", id, err)
	}
}
