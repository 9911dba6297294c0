package git

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// repository adds a bare repository to a server.
func (s *server) repository(t *testing.T, name string) *sourcetest.GitRepo {
	t.Helper()
	r, err := sourcetest.NewGitRepo(filepath.Join(s.repos, name+".git"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestWithoutGitTheResultIsThatOfGit compares work trees and repositories. With git is the judge: the program git itself.
func TestWithoutGitTheResultIsThatOfGit(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{Config: []string{"uploadpack.allowAnySHA1InWant=true"}})
	r := s.repository(t, "mixed")
	files := map[string]sourcetest.GitFile{
		"plain": {Content: "x"}, "empty": {}, "run.sh": {Mode: "100755", Content: "#!/bin/sh\n"}, "old": {Mode: "100664", Content: "mode of an old git"},
		"link": {Mode: "120000", Content: "plain"}, "up": {Mode: "120000", Content: "../../outside"}, "nowhere": {Mode: "120000", Content: "/nowhere"},
		"dir/link": {Mode: "120000", Content: ".."}, "a/b/c/d/e": {Content: strings.Repeat("deep\n", 10_000)}, "a.b": {Content: "sorts before a/"}, "a-b": {Content: "x"},
		"name with spaces": {Content: "x"}, "ünïcode": {Content: "x"}, "crlf": {Content: "a\r\nb\r\n"}, "binary": {Content: "\x00\xff\x00"},
		".gitignore": {Content: "*.o\n"}, "ignored.o": {Content: "tracked all the same"}, "module": {Mode: "160000", Content: s.main},
	}
	if runtime.GOOS == "linux" {
		for _, name := range []string{"back\\slash", "co:lon", "line\nbreak", "not\xffutf8", "CON", "-dash"} {
			files[name] = sourcetest.GitFile{Content: name}
		}
	}
	must[string](t)(r.Push("main", "one", map[string]sourcetest.GitFile{"old": {Content: "1"}}))
	tip := must[string](t)(r.Push("main", "two", files))
	must[string](t)(r.Annotate("v2", "commit", tip))
	in := map[string]any{"url": s.URL + "/mixed.git", "ref": "main", "sha": tip}
	for name, more := range map[string]map[string]any{
		"all history":   {},
		"depth 1":       {"depth": 1},
		"as GitLab":     {"depth": 20, "refspecs": []string{"+" + tip + ":refs/pipelines/9", "+refs/heads/main:refs/remotes/origin/main"}, "strategy": "clone"},
		"no tags":       {"fetch_flags": []string{"--quiet", "--no-tags"}},
		"all refs":      {"ref": "", "sha": tip},
		"depth of all":  {"ref": "", "sha": tip, "depth": 1},
		"a short one":   {"sha": tip[:8]},
		"no checkout":   {"checkout": false},
		"several specs": {"refspecs": []string{"refs/heads/*:refs/x/*", "main:refs/y", tip}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with, without := newJob(t), newGitlessJob(t)
			for _, j := range []*job{with, without} {
				all := map[string]any{}
				for _, m := range []map[string]any{in, more} {
					for k, v := range m {
						all[k] = v
					}
				}
				j.must(all)
			}
			if diff := cmp.Diff(described(with), described(without)); diff != "" {
				t.Errorf("(-with git, +without):\n%s", diff)
			}
			if said := strings.ReplaceAll(without.output.String(), "There is no program git here: the sources are fetched without it\n", ""); said != with.output.String() {
				t.Errorf("it says\n%s, and not\n%s", said, with.output.String())
			}
			without.git("fsck", "--strict", "--no-dangling")
			without.git("gc", "--quiet")
		})
	}
}

// described is what a program can see of a checkout: files with their modes and contents, and what git says about it.
func described(j *job) map[string]string {
	j.t.Helper()
	d := map[string]string{}
	err := filepath.WalkDir(j.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.Name() == ".git" && e.IsDir() {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += " " + string(data)
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			text += " " + target
		}
		d[strings.TrimPrefix(path, j.dir)] = text
		return nil
	})
	if err != nil {
		j.t.Fatal(err)
	}
	for _, command := range []string{
		"for-each-ref --format=%(objectname)%(refname)", "rev-list --all --parents", "ls-files --stage", "status --porcelain --ignored", "diff-files", "config --get-regexp ^(remote|fetch|gc|credential)[.]",
		"symbolic-ref --quiet HEAD", "rev-parse --verify --quiet HEAD", "rev-parse --is-shallow-repository",
	} {
		call := &program.Call{WorkDir: j.dir, Env: cleanEnv(), Stderr: os.Stderr}
		out, err := call.Read(j.t.Context(), "", nil, append([]string{"git"}, strings.Fields(command)...)...)
		d["git "+command] = fmt.Sprintln(out, err)
	}
	return d
}

func TestWithoutGitAHostileRepositoryWritesNothingElsewhere(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	s := serve(t, sourcetest.GitOptions{})
	blob := func(r *sourcetest.GitRepo, text string) string {
		return must[string](t)(r.Object("blob", []byte(text)))
	}
	tree := func(r *sourcetest.GitRepo, entries ...sourcetest.GitEntry) string {
		return must[string](t)(r.Tree(entries...))
	}
	named := func(name string) func(*sourcetest.GitRepo, string) string { // a file, in a folder of that name
		return func(r *sourcetest.GitRepo, _ string) string {
			hooks := tree(r, sourcetest.GitEntry{Mode: "100755", Name: "post-checkout", Hash: blob(r, "#!/bin/sh\ntouch ran\n")})
			return tree(r, sourcetest.GitEntry{Mode: "40000", Name: name, Hash: tree(r, sourcetest.GitEntry{Mode: "40000", Name: "hooks", Hash: hooks})})
		}
	}
	modules := func(name, path string) func(*sourcetest.GitRepo, string) string {
		return func(r *sourcetest.GitRepo, _ string) string {
			text := fmt.Sprintf("[submodule %q]\n\tpath = %s\n\turl = ../project.git\n", name, path)
			return tree(r, sourcetest.GitEntry{Mode: "100644", Name: ".gitmodules", Hash: blob(r, text)}, sourcetest.GitEntry{Mode: "160000", Name: "sub", Hash: s.main})
		}
	}
	for i, test := range []struct {
		name string
		tree func(r *sourcetest.GitRepo, outside string) string
		want string // of the error; "" is none
	}{
		{"a folder above", named(".."), "is not the name of a file"},
		{"the folder itself", named("."), "is not the name of a file"},
		{"an absolute path", named("/tmp"), "is not the name of a file"},
		{"a path", named("a/../../b"), "is not the name of a file"},
		{"no name, which servers refuse to send", named(""), "possible repository corruption"},
		{"Git's folder", named(".git"), "could be taken for a .git folder"},
		{"Git's folder in capitals", named(".GIT"), "could be taken for a .git folder"},
		{"Git's folder as NTFS knows it", named("git~1"), "could be taken for a .git folder"},
		{"Git's folder as a stream of NTFS", named(".git::$INDEX_ALLOCATION"), "could be taken for a .git folder"},
		{"Git's folder with what NTFS ignores", named(".git . "), "could be taken for a .git folder"},
		{"Git's folder after a backslash", named(`a\.git\hooks`), "could be taken for a .git folder"},
		{"Git's folder with what HFS+ ignores", named(".g\u200cit"), "could be taken for a .git folder"},
		{"Git's folder with another that HFS+ ignores", named("\ufeff.git"), "could be taken for a .git folder"},
		{"a link and a folder of the same name", func(r *sourcetest.GitRepo, outside string) string {
			inner := tree(r, sourcetest.GitEntry{Mode: "100644", Name: "x", Hash: blob(r, "evil")})
			return tree(r, sourcetest.GitEntry{Mode: "120000", Name: "a", Hash: blob(r, outside)}, sourcetest.GitEntry{Mode: "40000", Name: "a", Hash: inner})
		}, "is there twice"},
		{"a link and a file of the same name", func(r *sourcetest.GitRepo, outside string) string {
			return tree(r, sourcetest.GitEntry{Mode: "120000", Name: "a", Hash: blob(r, outside+"/x")}, sourcetest.GitEntry{Mode: "100644", Name: "a", Hash: blob(r, "evil")})
		}, "is there twice"},
		{"links that lead out", func(r *sourcetest.GitRepo, outside string) string {
			return tree(r, sourcetest.GitEntry{Mode: "120000", Name: "a", Hash: blob(r, outside)}, sourcetest.GitEntry{Mode: "120000", Name: "b", Hash: blob(r, "../outside/x")})
		}, ""},
		{"a link in the place of .gitmodules", func(r *sourcetest.GitRepo, outside string) string {
			return tree(r, sourcetest.GitEntry{Mode: "120000", Name: ".gitmodules", Hash: blob(r, outside+"/x")})
		}, "is a link"},
		{"the mode of a device", func(r *sourcetest.GitRepo, _ string) string {
			return tree(r, sourcetest.GitEntry{Mode: "020666", Name: "a", Hash: blob(r, "")})
		}, "has the mode 20666"},
		{"a list of files that is none", func(r *sourcetest.GitRepo, _ string) string {
			return must[string](t)(r.Object("tree", []byte("100644 a\x00short")))
		}, "too"},
		{"a submodule whose repository is elsewhere", modules("../../outside", "sub"), "is not a safe name"},
		{"a submodule whose repository is Git's own", modules("x/.git/y", "sub"), "is not a safe name"},
		{"a submodule named like an option", modules("-x", "sub"), "is not a safe name"},
		{"a submodule elsewhere", modules("sub", "../outside"), ""}, // there is no such submodule in the tree
		{"a submodule behind a link", func(r *sourcetest.GitRepo, outside string) string {
			text := "[submodule \"x\"]\n\tpath = a/sub\n\turl = ../project.git\n"
			inner := tree(r, sourcetest.GitEntry{Mode: "160000", Name: "sub", Hash: s.main})
			return tree(r, sourcetest.GitEntry{Mode: "100644", Name: ".gitmodules", Hash: blob(r, text)},
				sourcetest.GitEntry{Mode: "120000", Name: "a", Hash: blob(r, outside)}, sourcetest.GitEntry{Mode: "40000", Name: "a", Hash: inner})
		}, "is there twice"},
		{"submodules whose repositories are in each other", func(r *sourcetest.GitRepo, _ string) string {
			text := "[submodule \"x\"]\n\tpath = a\n\turl = ../project.git\n[submodule \"x/hooks\"]\n\tpath = b\n\turl = ../project.git\n"
			return tree(r, sourcetest.GitEntry{Mode: "100644", Name: ".gitmodules", Hash: blob(r, text)},
				sourcetest.GitEntry{Mode: "160000", Name: "a", Hash: s.main}, sourcetest.GitEntry{Mode: "160000", Name: "b", Hash: s.main})
		}, "would be in each other"},
		{"a submodule on the disk of the job", func(r *sourcetest.GitRepo, _ string) string {
			text := "[submodule \"x\"]\n\tpath = a\n\turl = file://" + s.repos + "/project.git\n"
			return tree(r, sourcetest.GitEntry{Mode: "100644", Name: ".gitmodules", Hash: blob(r, text)}, sourcetest.GitEntry{Mode: "160000", Name: "a", Hash: s.main})
		}, "only repositories behind http and https"},
		{"a submodule that is an option", func(r *sourcetest.GitRepo, _ string) string {
			text := "[submodule \"x\"]\n\tpath = a\n\turl = --upload-pack=touch\n"
			return tree(r, sourcetest.GitEntry{Mode: "100644", Name: ".gitmodules", Hash: blob(r, text)}, sourcetest.GitEntry{Mode: "160000", Name: "a", Hash: s.main})
		}, "cannot begin with a dash"},
	} {
		name := fmt.Sprintf("hostile-%d", i)
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := newGitlessJob(t)
			outside := filepath.Join(filepath.Dir(j.dir), "outside")
			writeFile(t, filepath.Join(outside, "x"), "outside")
			r := s.repository(t, name)
			commit := must[string](t)(r.Commit(test.tree(r, outside), "hostile"))
			if err := r.Set("refs/heads/main", commit); err != nil {
				t.Fatal(err)
			}
			before := listed(t, filepath.Dir(j.dir), j.dir)
			_, err := j.run(map[string]any{"url": s.URL + "/" + name + ".git", "ref": "main", "submodules": "recursive"})
			if (err == nil) != (test.want == "") || err != nil && test.want != "too" && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if diff := cmp.Diff(before, listed(t, filepath.Dir(j.dir), j.dir)); diff != "" {
				t.Errorf("it wrote elsewhere:\n%s", diff)
			}
			if found, _ := filepath.Glob(filepath.Join(j.dir, ".git", "hooks", "*")); len(found) > 0 {
				t.Errorf("hooks: %s", found)
			}
		})
	}
}

// listed are the files of a folder with their contents, but for those below one in it and the file of outputs.
func listed(t *testing.T, folder, but string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		if path == but {
			return fs.SkipDir
		}
		if err != nil || e.IsDir() || e.Name() == "outputs" {
			return err
		}
		data, err := os.ReadFile(path)
		found[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestWithoutGitRefsOfAServerAreNotPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	r := s.repository(t, "refs")
	tip := must[string](t)(r.Push("main", "one", map[string]sourcetest.GitFile{"a": {}}))
	packed := "# pack-refs with: sorted \n" + tip + " refs/heads/a/b\n" + tip + " refs/heads/main\n"
	writeFile(t, filepath.Join(r.Dir, "packed-refs"), packed)
	j := newGitlessJob(t)
	j.must(map[string]any{"url": s.URL + "/refs.git", "sha": tip})
	if got, want := j.git("for-each-ref", "--format=%(refname)"), "refs/remotes/origin/a/b\nrefs/remotes/origin/main"; got != want {
		t.Errorf("refs %q", got)
	}
	for _, spec := range []string{"+refs/heads/main:refs/../../x", "+refs/heads/main:refs/heads/x.lock", "main:../x", "^refs/heads/main"} {
		if _, err := j.run(map[string]any{"url": s.URL + "/refs.git", "sha": tip, "refspecs": []string{spec}}); err == nil || !strings.Contains(err.Error(), "refspecs: ") {
			t.Errorf("%s: error %v", spec, err)
		}
	}
}

func TestWithoutGitNothingIsKept(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	j := newGitlessJob(t)
	in := map[string]any{"url": s.project(), "ref": "main", "clean_flags": []string{}}
	j.must(in)
	if out := j.output.String(); strings.Contains(out, "WARNING") {
		t.Errorf("the folder was empty:\n%s", out)
	}
	j.write("untracked", "x")
	j.must(in)
	j.wantFiles("a", "folder/b")
	if out := j.output.String(); !strings.Contains(out, "WARNING: without git, nothing of an earlier job can be updated") {
		t.Errorf("it does not say so:\n%s", out)
	}
}

func TestWhatNeedsGit(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	for name, more := range map[string]map[string]any{
		"object_format: ":              {"object_format": "sha256"},
		`"--filter=blob:none" means`:   {"fetch_flags": []string{"--filter=blob:none"}},
		`"--remote" means nothing`:     {"submodule_update_flags": []string{"--remote"}},
		"only repositories behind":     {"url": "ssh://git@127.0.0.1:1/project.git"},
		`submodule_paths: ":(glob)**"`: {"submodules": "normal", "submodule_paths": []string{":(glob)**"}, "url": s.URL + "/modules.git"},
	} {
		if name == `submodule_paths: ":(glob)**"` {
			must[string](t)(s.repository(t, "modules").Push("main", "one", map[string]sourcetest.GitFile{".gitmodules": {}}))
		}
		j := newGitlessJob(t)
		in := map[string]any{"url": s.project(), "ref": "main", "attempts": 3}
		for k, v := range more {
			in[k] = v
		}
		_, err := j.run(in)
		if err == nil || !strings.Contains(err.Error(), name) || !strings.HasSuffix(err.Error(), "use an image that has the program git") {
			t.Errorf("%s: error %v", name, err)
		}
		if strings.Contains(j.output.String(), "trying again") {
			t.Errorf("%s: another attempt would end the same:\n%s", name, j.output.String())
		}
	}
}

func TestWithoutGitAttributesHaveNoEffectAndThatIsSaid(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	r := s.repository(t, "attributes")
	must[string](t)(r.Push("main", "one", map[string]sourcetest.GitFile{
		".gitattributes": {Content: "# comment ident\n*.bin filter=lfs diff=lfs -text\n*.txt eol=crlf\n* text=auto\n"}, "x.txt": {Content: "a\nb\n"}, "x.bin": {Content: "version https://git-lfs.github.com/spec/v1\n"},
	}))
	in := map[string]any{"url": s.URL + "/attributes.git", "ref": "main"}
	j := newGitlessJob(t)
	j.must(in)
	want := "WARNING: files of Git LFS stay pointers: they are fetched only where the environment has git and git-lfs\n" +
		"WARNING: without git, files are as the commit has them: .gitattributes has no effect (eol=crlf)\n"
	if !strings.HasSuffix(j.output.String(), want) {
		t.Errorf("log:\n%s", j.output.String())
	}
	if text, err := os.ReadFile(filepath.Join(j.dir, "x.txt")); err != nil || string(text) != "a\nb\n" {
		t.Errorf("%q, %v", text, err)
	}
	if got := j.git("status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	in["lfs_skip_smudge"] = true
	j.must(in)
	if strings.Contains(j.output.String(), "LFS") {
		t.Errorf("pointers are what is wanted:\n%s", j.output.String())
	}
}

func TestWithoutGitAnAuthorityIsTrustedThatTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{TLS: true})
	file := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, file, string(s.Certificate()))
	in := map[string]any{"url": s.project(), "ref": "main"}
	for name, variables := range map[string][]string{
		"":                     {"SSL_CERT_FILE=" + file},
		"GIT_SSL_CAINFO":       {"GIT_SSL_CAINFO=" + file, "SSL_CERT_FILE=/nowhere"},
		"GIT_SSL_NO_VERIFY":    {"GIT_SSL_NO_VERIFY=true"},
		"unknown authority":    nil,
		"has no certificates":  {"SSL_CERT_FILE=" + s.repos + "/project.git/HEAD"},
		"SSL_CERT_FILE: open ": {"SSL_CERT_FILE=/nowhere"},
	} {
		j := newGitlessJob(t)
		j.env = append(j.env, variables...)
		_, err := j.run(in)
		if fails := strings.Contains(name, " "); fails != (err != nil) || err != nil && !strings.Contains(err.Error(), name) {
			t.Errorf("%v: error %v", variables, err)
		}
	}
}

func TestUntrackedFilesAreTheSameWithoutGit(t *testing.T) {
	t.Parallel()
	s := serve(t, sourcetest.GitOptions{})
	var found [][]string
	for _, j := range []*job{newJob(t), newGitlessJob(t)} {
		j.must(map[string]any{"url": s.project(), "ref": "main"})
		for _, name := range []string{"new", "folder/new", "other/x", "a"} {
			j.write(name, "x")
		}
		entries, err := selection.Find(t.Context(), &program.Call{WorkDir: j.dir, Env: j.env, Stdout: &j.output, Stderr: &j.output}, selection.Request{Untracked: true})
		if err != nil {
			t.Fatal(err)
		}
		names := selection.Names(entries)
		slices.Sort(names)
		found = append(found, names)
	}
	if diff := cmp.Diff(found[0], found[1]); diff != "" || len(found[1]) < 3 {
		t.Errorf("(-with git, +without) %q:\n%s", found[1], diff)
	}
}
