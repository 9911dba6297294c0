package git

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// run runs the git program, for repositories as it makes them.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	program, err := sourcetest.GitProgram()
	if err != nil {
		t.Skip("needs git to make a repository: " + err.Error())
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestLocalRepositories(t *testing.T) {
	// made is a repository as git makes them, with a work tree.
	made := func(t *testing.T) string {
		dir := filepath.Join(t.TempDir(), "project")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		run(t, dir, "init", "-q", "-b", "main")
		for _, version := range []string{"one", "two", "three"} {
			text := version + "\n" + strings.Repeat("the same line\n", 1000)
			if err := os.WriteFile(filepath.Join(dir, "step.yml"), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			run(t, dir, "add", ".")
			run(t, dir, "commit", "-q", "-m", version)
			run(t, dir, "tag", "-a", "-m", version, version)
		}
		return dir
	}
	begins := func(t *testing.T, url, rev, want string) {
		t.Helper()
		got, err := load(t, newFetcher(t), location(url, rev))
		if err != nil || !strings.HasPrefix(got["step.yml"], want+"\n") {
			t.Errorf("got %.20q, %v", got["step.yml"], err)
		}
	}

	t.Run("with a work tree", func(t *testing.T) { begins(t, made(t), "main", "three") })
	t.Run("by its folder of Git's own", func(t *testing.T) { begins(t, filepath.Join(made(t), ".git"), "two", "two") })
	t.Run("packed", func(t *testing.T) {
		dir := made(t)
		run(t, dir, "gc", "-q", "--aggressive", "--prune=now")
		begins(t, dir, "one", "one")
		begins(t, dir, "HEAD", "three")
		begins(t, dir, run(t, dir, "rev-parse", "two^{commit}")[:9], "two")
	})
	t.Run("bare, and named without its suffix", func(t *testing.T) {
		dir := made(t)
		run(t, dir, "clone", "-q", "--bare", dir, dir+"-bare.git")
		begins(t, "file://"+filepath.ToSlash(dir)+"-bare", "main", "three")
	})
	t.Run("with a work tree of its own", func(t *testing.T) {
		dir := made(t)
		run(t, dir, "worktree", "add", "-q", "-b", "side", dir+"-side", "one")
		begins(t, dir+"-side", "HEAD", "one")
		begins(t, dir+"-side", "main", "three")
	})
	t.Run("with its folder elsewhere", func(t *testing.T) {
		dir := made(t)
		run(t, dir, "init", "-q", "--separate-git-dir", dir+"-elsewhere")
		begins(t, dir, "main", "three")
	})
	t.Run("that borrows objects from another", func(t *testing.T) {
		dir := made(t)
		run(t, dir, "clone", "-q", "--bare", "--shared", dir, dir+"-shared.git")
		run(t, dir, "clone", "-q", "--bare", "--shared", dir+"-shared.git", dir+"-twice.git")
		begins(t, dir+"-twice.git", "two", "two")
		begins(t, dir+"-twice.git", run(t, dir, "rev-parse", "two^{commit}")[:9], "two")
	})
	t.Run("whose settings are hostile", func(t *testing.T) {
		dir := made(t)
		proof := filepath.Join(t.TempDir(), "proof")
		for _, setting := range []string{"core.fsmonitor", "core.sshCommand", "core.gitProxy", "uploadpack.packObjectsHook", "filter.evil.smudge", "core.alternateRefsCommand"} {
			run(t, dir, "config", setting, "touch "+proof+" #")
		}
		run(t, dir, "config", "url.file:///nowhere.insteadOf", "file://"+filepath.ToSlash(dir))
		if err := os.WriteFile(filepath.Join(dir, ".git", "hooks", "post-checkout"), []byte("#!/bin/sh\ntouch "+proof+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		begins(t, "file://"+filepath.ToSlash(dir), "main", "three")
		if _, err := os.Stat(proof); err == nil {
			t.Error("one of them was followed")
		}
	})
	t.Run("that borrows from itself", func(t *testing.T) {
		r := newRepo(t, t.TempDir(), "project")
		r.push("main", files{"step.yml": "one\n"})
		if err := os.WriteFile(filepath.Join(r.Dir, "objects", "info", "alternates"), []byte(filepath.Join(r.Dir, "objects")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := load(t, newFetcher(t), location(r.Dir, "main"))
		if err == nil || !strings.Contains(err.Error(), "more than 16 repositories") {
			t.Errorf("got %v", err)
		}
	})
	for name, config := range map[string]string{
		"objects are named by sha256":   "[extensions]\n\tobjectFormat = sha256\n",
		"refs are stored as reftable":   "[extensions]\n\trefStorage = reftable\n",
		"":                              "[core\n",
		"there is no repository at all": "",
	} {
		t.Run("where its "+name, func(t *testing.T) {
			r := newRepo(t, t.TempDir(), "project")
			r.push("main", files{"step.yml": "one\n"})
			if err := os.WriteFile(filepath.Join(r.Dir, "config"), []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			dir := r.Dir
			if config == "" {
				dir = t.TempDir()
			}
			_, err := load(t, newFetcher(t), location(dir, "main"))
			var missing *source.NotFoundError
			switch {
			case name == "" && err != nil:
				t.Errorf("settings that do not matter: %v", err)
			case config == "" && !errors.As(err, &missing):
				t.Errorf("got %v", err)
			case name != "" && config != "" && (err == nil || !strings.Contains(err.Error(), name)):
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSubmodules(t *testing.T) {
	// project is a repository with a submodule at an address.
	project := func(t *testing.T, repos, address string) *repo {
		inner := newRepo(t, repos, "group/inner")
		innermost := newRepo(t, repos, "group/innermost")
		deep := innermost.push("main", files{"deep": "deep"})
		commit := inner.must(inner.Push("main", "m", map[string]sourcetest.GitFile{
			"lib":         {Content: "inner"},
			"up":          {Mode: "120000", Content: "../outer"},
			"further":     {Mode: "160000", Content: deep},
			".gitmodules": {Content: "[submodule \"further\"]\n\tpath = further\n\turl = ./../innermost.git\n"},
		}))
		outer := newRepo(t, repos, "group/outer")
		outer.must(outer.Push("main", "m", map[string]sourcetest.GitFile{
			"step.yml":    {Content: "outer"},
			"vendor/lib":  {Mode: "160000", Content: commit},
			".gitmodules": {Content: "[submodule \"lib\"]\n\tpath = vendor/lib\n\turl = " + address + "\n"},
		}))
		return outer
	}
	t.Run("are left out", func(t *testing.T) {
		got, err := load(t, newFetcher(t), location(project(t, t.TempDir(), "../inner.git").Dir, "main"))
		if err != nil || got["step.yml"] != "outer" || got["vendor/lib/lib"] != "" {
			t.Errorf("got %v, %v", got, err)
		}
	})
	for _, over := range []string{"file", "http", "ssh"} {
		t.Run("are fetched over "+over+" when asked for, and theirs as well", func(t *testing.T) {
			repos := t.TempDir()
			project(t, repos, "../inner.git")
			at := servers[over](t, repos)("main")
			at.URL = strings.Replace(at.URL, "project", "group/outer", 1)
			at.Access.Submodules = true
			got, err := load(t, newFetcher(t), at)
			if err != nil || got["step.yml"] != "outer" || got["vendor/lib/lib"] != "inner" || got["vendor/lib/further/deep"] != "deep" {
				t.Errorf("got %v, %v", got, err)
			}
			if _, there := got["l vendor/lib/up"]; there {
				t.Error("a link that leaves the submodule is there")
			}
		})
	}
	for name, c := range map[string]struct{ url, want string }{
		"on another host":            {"https://example.com/inner.git", "is on another host"},
		"reached in another way":     {"git@example.com:inner.git", "is on another host"},
		"that is to run something":   {"ext::sh -c evil", "cannot be used"},
		"that begins with a dash":    {"-u./evil", "cannot be used"},
		"without an address":         {"", "has no address"},
		"that is its own repository": {"../outer.git", "no such commit"},
	} {
		t.Run(name+" are refused", func(t *testing.T) {
			at := location(project(t, t.TempDir(), c.url).Dir, "main")
			at.Access.Submodules = true
			_, err := load(t, newFetcher(t), at)
			var denied *source.DeniedError
			var missing *source.NotFoundError
			if !errors.As(err, &denied) && !errors.As(err, &missing) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("may not be too many deep", func(t *testing.T) {
		repos := t.TempDir()
		name, commit := "", ""
		for _, next := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			r := newRepo(t, repos, next)
			all := map[string]sourcetest.GitFile{"step.yml": {Content: next}}
			if name != "" {
				all["sub"] = sourcetest.GitFile{Mode: "160000", Content: commit}
				all[".gitmodules"] = sourcetest.GitFile{Content: "[submodule \"s\"]\n\tpath = sub\n\turl = ../" + name + ".git\n"}
			}
			name, commit = next, r.must(r.Push("main", "m", all))
		}
		at := location(filepath.Join(repos, "g.git"), "main")
		at.Access.Submodules = true
		_, err := load(t, newFetcher(t), at)
		if err == nil || !strings.Contains(err.Error(), "more than 5 submodules deep") {
			t.Errorf("got %v", err)
		}
	})
}
