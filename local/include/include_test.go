package include_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/schematest"
	"github.com/rungci/rung/local/include"
	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
)

func TestLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("ci/build.yml", "build\n")
	w.write("ci/deep/er/test.yml", "test\n")
	w.write("ci/notes.md", "")
	w.write(".git/x.yml", "")
	w.write(".rung/y.yml", "")
	l := w.loader()
	at := func(path string) config.Place { return config.Place{Path: path} }

	t.Run("a file of the work tree is read as it is", func(t *testing.T) {
		t.Parallel()
		f := w.load(l, at("ci/build.yml"))
		if diff := cmp.Diff(config.File{Data: []byte("build\n"), Place: at("ci/build.yml")}, f); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("what is not a file of the project is an error", func(t *testing.T) {
		t.Parallel()
		for path, part := range map[string]string{"none.yml": "none.yml", "ci/build.yml/x.yml": "x.yml", "ci": "folder", ".git/x.yml": "belongs to Git"} {
			err := w.fails(l, at(path), part)
			if got, want := errors.Is(err, fs.ErrNotExist), strings.HasSuffix(part, ".yml"); got != want {
				t.Errorf("%s: fs.ErrNotExist is %v: %v", path, got, err)
			}
			if strings.Contains(err.Error(), w.dir) {
				t.Errorf("the error names a folder of this machine: %v", err)
			}
		}
	})
	t.Run("a link leads to files of the project only", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.write("real.yml", "real\n")
		write(t, filepath.Join(filepath.Dir(w.dir), "secret.yml"), "secret")
		for name, target := range map[string]string{"in.yml": "real.yml", "out.yml": "../secret.yml", "whole.yml": "/etc/hostname", "dir": ".."} {
			if err := os.Symlink(target, filepath.Join(w.dir, name)); err != nil {
				t.Skipf("needs symbolic links: %v", err)
			}
		}
		l := w.loader()
		if f := w.load(l, at("in.yml")); string(f.Data) != "real\n" {
			t.Errorf("got %q", f.Data)
		}
		for _, path := range []string{"out.yml", "whole.yml", "dir/secret.yml"} {
			w.fails(l, at(path), "leads outside the project")
		}
	})
	t.Run("stars find files that are not committed, and none of the run's own", func(t *testing.T) {
		t.Parallel()
		for pattern, want := range map[string][]string{
			"ci/*.yml": {"ci/build.yml"}, "ci/**.yml": {"ci/build.yml", "ci/deep/er/test.yml"}, "**.yml": {"ci/build.yml", "ci/deep/er/test.yml"},
			"none/*.yml": nil,
		} {
			got, err := l.Glob(t.Context(), at(pattern))
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v; want %q", pattern, got, err, want)
			}
		}
	})
	t.Run("nothing is noted of local files", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.write("a.yml", "")
		l := w.loader()
		w.load(l, at("a.yml"))
		w.save(l)
		if _, err := os.Stat(w.o.LockFile); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a lock file: %v", err)
		}
	})
}

func TestProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t).serve(sourcetest.GitOptions{})
	r, first := w.push("tools/ci", map[string]string{"a.yml": "one\n", "dir/b.yml": "b\n"})
	w.tag(r, first, "v1")
	_, second := w.push("tools/ci", map[string]string{"a.yml": "two\n", "dir/b.yml": "b\n"})

	t.Run("branches, tags, commits and the default branch", func(t *testing.T) {
		l := w.loader(withoutLock)
		for ref, want := range map[string]string{"": "two\n", "main": "two\n", "v1": "one\n", first: "one\n", second: "two\n", first[:10]: "one\n"} {
			if f := w.load(l, project("tools/ci", ref, "a.yml")); string(f.Data) != want {
				t.Errorf("%q: got %q, want %q", ref, f.Data, want)
			}
		}
	})
	t.Run("stars and lists of files", func(t *testing.T) {
		l := w.loader(withoutLock)
		got, err := l.Glob(t.Context(), project("tools/ci", "v1", "**.yml"))
		if err != nil || !slices.Equal(got, []string{"a.yml", "dir/b.yml"}) {
			t.Errorf("Glob = %q, %v", got, err)
		}
		if got, err = l.ProjectFiles(t.Context(), "tools/ci", ""); err != nil || len(got) != 2 {
			t.Errorf("ProjectFiles = %q, %v", got, err)
		}
	})
	t.Run("what is not there", func(t *testing.T) {
		l := w.loader(withoutLock)
		if err := w.fails(l, project("tools/ci", "main", "none.yml"), "none.yml"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error = %v", err)
		}
		for _, place := range []config.Place{project("tools/ci", "v9", "a.yml"), project("tools/none", "", "a.yml")} {
			err := w.fails(l, place, "tools/", "--project tools")
			if errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "step") {
				t.Errorf("error = %v", err)
			}
		}
		for _, name := range []string{"../x", "a//b", "a/../b", "a b", "", "a?x=y", "u:p@h"} {
			w.fails(l, project(name, "main", "a.yml"), "not the path of a project")
		}
	})
	t.Run("the own project at the commit that is checked out is the work tree", func(t *testing.T) {
		w.write("own.yml", "own\n")
		w.o.Repository.Branch = "feature"
		l := w.loader()
		f := w.load(l, project("Group/Project", "feature", "own.yml"))
		if string(f.Data) != "own\n" || f.Place.Kind != config.Local {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("a project that is asked for twice is fetched once", func(t *testing.T) {
		w := newWorld(t).serve(sourcetest.GitOptions{})
		w.push("a/b", map[string]string{"a.yml": "", "b.yml": ""})
		l := w.loader()
		w.load(l, project("a/b", "main", "a.yml"))
		w.http.Requests()
		w.load(l, project("a/b", "main", "b.yml"))
		if requests := w.http.Requests(); len(requests) != 0 {
			t.Errorf("the server was asked: %v", requests)
		}
	})
}

func TestLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t).serve(sourcetest.GitOptions{})
	w.push("a/b", map[string]string{"a.yml": "one\n"})
	place := project("a/b", "main", "a.yml")
	l := w.loader()
	w.load(l, place)
	w.save(l)
	w.push("a/b", map[string]string{"a.yml": "two\n"})
	text, err := os.ReadFile(w.o.LockFile)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("a later run gets the same, without asking", func(t *testing.T) {
		w.http.Requests()
		for _, change := range []func(*include.Options){func(*include.Options) {}, offline} {
			l := w.loader(change)
			if f := w.load(l, place); string(f.Data) != "one\n" {
				t.Errorf("got %q", f.Data)
			}
			w.save(l)
		}
		if requests := w.http.Requests(); len(requests) != 0 {
			t.Errorf("the server was asked: %v", requests)
		}
		if after, err := os.ReadFile(w.o.LockFile); err != nil || string(after) != string(text) {
			t.Errorf("the file was changed: %v\n%s", err, after)
		}
	})
	t.Run("another digest in the file is refused", func(t *testing.T) {
		w := *w
		w.o.LockFile = filepath.Join(t.TempDir(), "includes.lock")
		at := strings.Index(string(text), "sha256:")
		write(t, w.o.LockFile, string(text[:at])+"sha256:"+strings.Repeat("0", 64)+string(text[at+71:]))
		w.t = t
		err := w.fails(w.loader(), place, "it has changed", "--refresh")
		var denied *source.DeniedError
		if !errors.As(err, &denied) {
			t.Errorf("error = %T", err)
		}
	})
	t.Run("a refresh takes what is there now, and notes it", func(t *testing.T) {
		l := w.loader(refresh)
		if f := w.load(l, place); string(f.Data) != "two\n" {
			t.Errorf("got %q", f.Data)
		}
		w.save(l)
		if f := w.load(w.loader(), place); string(f.Data) != "two\n" {
			t.Errorf("got %q", f.Data)
		}
	})
	t.Run("a file that is not a lock file is an error that says so", func(t *testing.T) {
		for _, wrong := range []string{"x", "version = 2", "version = 1\nmore = 1", "version = 1\n[[include]]\nkind = \"x\"\nplace = \"p\"\npin = \"q\"",
			"version = 1\n[[include]]\nkind = \"project\"\nplace = \"p\"\npin = \"main\"", "version = 1\n[[include]]\nkind = \"remote\"\npin = \"q\""} {
			o := w.o
			o.LockFile = filepath.Join(t.TempDir(), "includes.lock")
			write(t, o.LockFile, wrong)
			if _, err := include.New(o); err == nil || !strings.Contains(err.Error(), o.LockFile) || !strings.Contains(err.Error(), "remove the file") {
				t.Errorf("%q: error = %v", wrong, err)
			}
		}
	})
	t.Run("what another run noted meanwhile stays", func(t *testing.T) {
		w := newWorld(t).serve(sourcetest.GitOptions{})
		w.push("a/one", map[string]string{"a.yml": ""})
		w.push("a/two", map[string]string{"a.yml": ""})
		one, two := w.loader(), w.loader()
		w.load(one, project("a/one", "main", "a.yml"))
		w.load(two, project("a/two", "main", "a.yml"))
		w.save(one)
		w.save(two)
		text, err := os.ReadFile(w.o.LockFile)
		if err != nil || !strings.Contains(string(text), "a/one") || !strings.Contains(string(text), "a/two") {
			t.Errorf("%v\n%s", err, text)
		}
		if err := schematest.Compile(t, include.LockSchema()).TOML(string(text)); err != nil {
			t.Errorf("it is not as its schema says: %v", err)
		}
	})
}

func TestOffline(t *testing.T) {
	t.Parallel()
	w := newWorld(t).serve(sourcetest.GitOptions{})
	w.push("a/b", map[string]string{"a.yml": "one\n"})
	place := project("a/b", "main", "a.yml")
	w.fails(w.loader(offline), place, "offline", "--project a/b=FOLDER")
	w.fails(w.loader(offline), config.Place{Kind: config.Remote, Path: "https://example.com/x.yml"}, "offline")
	w.fails(w.loader(offline), config.Place{Kind: config.Template, Path: "Go.gitlab-ci.yml"}, "offline")
	w.fails(w.loader(offline), component(w.host+"/a/b/c@~latest"), "offline")
	if len(w.http.Requests()) != 0 {
		t.Error("the server was asked")
	}
	w.load(w.loader(withoutLock), place)
	if f := w.load(w.loader(offline), place); string(f.Data) != "one\n" {
		t.Errorf("got %q", f.Data)
	}
}

func TestAccess(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t-passw0rd-of-me"
	t.Run("a host that is not there", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).serve(sourcetest.GitOptions{})
		w.http.Close()
		w.o.Rules.(*rules).places = map[string]string{"https://" + w.host: "https://me:" + secret + "@" + w.host}
		for _, place := range []config.Place{
			project("a/b", "main", "a.yml"), component(w.host + "/a/b/c@1.0.0"), component(w.host + "/a/b/c@1"),
			{Kind: config.Remote, Path: "https://me:" + secret + "@" + w.host + "/x.yml?private_token=" + secret},
		} {
			err := w.fails(w.loader(), place, "cannot be reached", "--offline")
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds a secret: %v", err)
			}
		}
	})
	t.Run("a server that wants credentials", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).serve(sourcetest.GitOptions{User: "me", Password: secret})
		w.push("a/b", map[string]string{"a.yml": "one\n"})
		w.fails(w.loader(), project("a/b", "main", "a.yml"), "a/b", "credential")
		w.o.Rules.(*rules).places = map[string]string{"https://" + w.host: "https://me:" + secret + "@" + w.host}
		l := w.loader()
		w.load(l, project("a/b", "main", "a.yml"))
		w.save(l)
		if text, err := os.ReadFile(w.o.LockFile); err != nil || strings.Contains(string(text), secret) {
			t.Errorf("%v\n%s", err, text)
		}
	})
	t.Run("what the user's sources deny or demand holds for includes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).serve(sourcetest.GitOptions{})
		_, commit := w.push("a/b", map[string]string{"a.yml": "one\n"})
		with := func(r rules) *include.Loader {
			return w.loader(withoutLock, func(o *include.Options) { r.client = w.http.Client; o.Rules = &r })
		}
		w.fails(with(rules{deny: "https://" + w.host + "/a"}), project("a/b", "main", "a.yml"), "deny")
		err := w.fails(with(rules{deny: "https://example.com"}), config.Place{Kind: config.Remote, Path: "https://example.com/a.yml?token=" + secret}, "deny")
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds a secret: %v", err)
		}
		pinned := rules{trust: source.Trust{Pinned: true}}
		w.fails(with(pinned), project("a/b", "main", "a.yml"), "immutable references")
		w.load(with(pinned), project("a/b", commit, "a.yml"))
		signed := rules{trust: source.Trust{Verify: func([]byte, string) ([]string, error) { return nil, nil }}}
		w.fails(with(signed), project("a/b", commit, "a.yml"), "signatures")
	})
}

func TestOverride(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := filepath.Join(filepath.Dir(w.dir), "copy")
	for name, text := range map[string]string{"a.yml": "copy\n", "templates/build.yml": "spec", "lib/gitlab/ci/templates/Go.gitlab-ci.yml": "go\n"} {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	l := w.loader(func(o *include.Options) {
		o.Projects = map[string]string{"Tools/CI": dir, "other.example.com/x/y": dir, "gitlab-org/gitlab": dir}
	})
	if f := w.load(l, project("tools/ci", "whatever", "a.yml")); string(f.Data) != "copy\n" {
		t.Errorf("got %q", f.Data)
	}
	if f := w.load(l, component("other.example.com/x/y/build@~latest")); string(f.Data) != "spec" || f.Component.Name != "build" {
		t.Errorf("got %+v", f)
	}
	f := w.load(l, component(w.host+"/tools/ci/build@1.2.3"))
	if f.Component.Version != "1.2.3" || f.Component.Reference != "1.2.3" {
		t.Errorf("got %+v", f.Component)
	}
	if got := w.load(l, config.Place{Kind: f.Place.Kind, Project: f.Place.Project, Ref: f.Place.Ref, Path: "a.yml"}); string(got.Data) != "copy\n" {
		t.Errorf("a local file of the component: %q", got.Data)
	}
	if f := w.load(l, config.Place{Kind: config.Template, Path: "Go.gitlab-ci.yml"}); string(f.Data) != "go\n" {
		t.Errorf("got %q", f.Data)
	}
	if err := w.fails(l, config.Place{Kind: config.Template, Path: "None.gitlab-ci.yml"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
	if notes := l.Notes(); len(notes) == 0 || !strings.Contains(strings.Join(notes, "\n"), dir) {
		t.Errorf("notes = %q", notes)
	}
	if runtime.GOOS != "windows" {
		write(t, filepath.Join(filepath.Dir(dir), "secret.yml"), "secret")
		if err := os.Symlink("../secret.yml", filepath.Join(dir, "out.yml")); err != nil {
			t.Fatal(err)
		}
		fresh := w.loader(func(o *include.Options) { o.Projects = map[string]string{"tools/ci": dir} })
		w.fails(fresh, project("tools/ci", "", "out.yml"), "leads out")
	}
}
