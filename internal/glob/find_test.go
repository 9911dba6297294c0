package glob

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// project makes a folder with files. A name that ends in a slash is a folder; "link -> target" is a symbolic link.
func project(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case isLink:
			if err = os.Symlink(target, file); err != nil && runtime.GOOS == "windows" {
				t.Skip("needs the right to make symbolic links")
			}
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(file, 0o755)
		default:
			err = os.WriteFile(file, []byte(name), 0o644)
		}
		if err != nil {
			t.Skipf("needs a file system that can hold the name %q: %v", name, err)
		}
	}
	return dir
}

func find(t *testing.T, r Request) *Result {
	t.Helper()
	got, err := Find(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func paths(r *Result) []string {
	all := []string{}
	for _, e := range r.Entries {
		all = append(all, e.Path)
	}
	return all
}

func reasons(r *Result) []Reason {
	var all []Reason
	for _, w := range r.Warnings {
		all = append(all, w.Reason)
	}
	return all
}

func TestFind(t *testing.T) {
	t.Parallel()
	tree := []string{
		"root.txt", "foo/file.txt", "foo/xfile.txt", "foo/file.md", "foo/bar/file.txt", "foo/bar/xfile.txt",
		"foo/bar/baz/file.txt", "foo/bar/baz/xfile.txt", "foo/bar/baz/a.b.txt", "foo/.hidden",
	}
	for _, test := range []struct {
		name           string
		paths, exclude []string
		want           []string
		excluded       map[string]int
		reasons        []Reason
	}{
		{
			name: "case 61: a doublestar finds files at all depths", paths: []string{"foo/**/*.txt"},
			want: []string{"foo/bar/baz/a.b.txt", "foo/bar/baz/file.txt", "foo/bar/baz/xfile.txt", "foo/bar/file.txt", "foo/bar/xfile.txt", "foo/file.txt", "foo/xfile.txt"},
		},
		{
			name: "case 62: what is excluded is counted", paths: []string{"foo/**/*.txt"}, exclude: []string{"foo/**/x*.txt"},
			want:     []string{"foo/bar/baz/a.b.txt", "foo/bar/baz/file.txt", "foo/bar/file.txt", "foo/file.txt"},
			excluded: map[string]int{"foo/**/x*.txt": 3},
		},
		{name: "case 63: two slashes are one", paths: []string{"foo//*.txt"}, want: []string{"foo/file.txt", "foo/xfile.txt"}},
		{
			name: "case 63: also in what is excluded", paths: []string{"foo//*.txt"}, exclude: []string{"foo//x*"},
			want: []string{"foo/file.txt"}, excluded: map[string]int{"foo//x*": 1},
		},
		{
			name: "case 64: a doublestar and a star ask for a folder", paths: []string{"./foo/**//*/*.*"},
			want: []string{"foo/bar/baz/a.b.txt", "foo/bar/baz/file.txt", "foo/bar/baz/xfile.txt", "foo/bar/file.txt", "foo/bar/xfile.txt"},
		},
		{
			name: "case 65: a doublestar at the end finds folders, too", paths: []string{"foo/**"}, exclude: []string{"**/*file*"},
			want: []string{"foo", "foo/.hidden", "foo/bar", "foo/bar/baz", "foo/bar/baz/a.b.txt"}, excluded: map[string]int{"**/*file*": 7},
		},
		{name: "case 66: a whole path outside of the project is refused", paths: []string{"/**/root.txt"}, reasons: []Reason{Outside}},
		{name: "case 66: so is a relative one", paths: []string{"../../../root.txt", "..", "../*"}, reasons: []Reason{Outside, Outside, Outside}},
		{name: "case 66: and one that hides behind a star", paths: []string{"*/../../*"}, reasons: []Reason{Outside}},
		{
			name: "case 68: everything without everything is nothing, and no error", paths: []string{"**"}, exclude: []string{"**"},
			excluded: map[string]int{"**": 13}, reasons: []Reason{NoMatch},
		},
		{
			name: "a folder stands for all that is below it", paths: []string{"foo/bar/"}, exclude: []string{"foo/bar/baz"},
			want:     []string{"foo/bar", "foo/bar/baz/a.b.txt", "foo/bar/baz/file.txt", "foo/bar/baz/xfile.txt", "foo/bar/file.txt", "foo/bar/xfile.txt"},
			excluded: map[string]int{"foo/bar/baz": 1},
		},
		{name: "a folder that a star finds as well", paths: []string{"fo*/b?r/b[a]z"}, exclude: []string{"**/*file.txt"}, want: []string{"foo/bar/baz", "foo/bar/baz/a.b.txt"}, excluded: map[string]int{"**/*file.txt": 2}},
		{name: "braces hold alternatives", paths: []string{"{root,foo/file}.{txt,md}"}, want: []string{"foo/file.md", "foo/file.txt", "root.txt"}},
		{name: "an entry is found once", paths: []string{"root.txt", "*.txt", "./root.txt"}, want: []string{"root.txt"}},
		{name: "nothing of that name", paths: []string{"missing", "foo/*.zip", "root.txt/*"}, reasons: []Reason{NoMatch, NoMatch, NoMatch}},
		{name: "an empty pattern is not the whole project", paths: []string{""}, reasons: []Reason{Malformed}},
		{name: "brackets that are not closed", paths: []string{"foo/[a", "{a,b"}, reasons: []Reason{Malformed, Malformed}},
		{name: "a bomb of braces", paths: []string{strings.Repeat("{a,b}", 40)}, reasons: []Reason{Malformed}},
		{
			name: "an exclusion outside of the project does not hide the next one", paths: []string{"foo/*.txt"}, exclude: []string{"/etc/*", "foo/x*"},
			want: []string{"foo/file.txt"}, excluded: map[string]int{"foo/x*": 1}, reasons: []Reason{Outside},
		},
		{name: "many doublestars take no longer", paths: []string{strings.Repeat("**/", 60) + "a.b.txt"}, want: []string{"foo/bar/baz/a.b.txt"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := find(t, Request{Dir: project(t, tree...), Paths: test.paths, Exclude: test.exclude})
			if diff := cmp.Diff(append([]string{}, test.want...), paths(got)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if test.excluded == nil {
				test.excluded = map[string]int{}
			}
			if diff := cmp.Diff(test.excluded, got.Excluded); diff != "" {
				t.Errorf("excluded (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.reasons, reasons(got)); diff != "" {
				t.Errorf("warnings %v (-want +got):\n%s", got.Warnings, diff)
			}
			for _, w := range got.Warnings {
				if s := w.String(); s == "" || strings.Contains(s, "unknown") || strings.HasSuffix(s, "<nil>") {
					t.Errorf("a warning that says nothing: %s", s)
				}
			}
		})
	}
}

func TestFindWholePaths(t *testing.T) {
	t.Parallel()
	t.Run("case 66: a whole path inside of the project is fine", func(t *testing.T) {
		t.Parallel()
		dir := project(t, "file.thing", "foo/file.thing", "file2.thing")
		got := find(t, Request{Dir: dir, Paths: []string{dir + "/*.thing"}, Exclude: []string{dir + "/*2.thing"}})
		if diff := cmp.Diff([]string{"file.thing"}, paths(got)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("case 66: also by the name that the folder has without links", func(t *testing.T) {
		t.Parallel()
		dir := project(t, "real/file", "link -> real")
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "real"))
		if err != nil {
			t.Fatal(err)
		}
		got := find(t, Request{Dir: filepath.Join(dir, "link"), Paths: []string{filepath.ToSlash(real) + "/*"}})
		if diff := cmp.Diff([]string{"file"}, paths(got)); diff != "" {
			t.Error(diff, got.Warnings)
		}
	})
	t.Run("case 67: a path may leave the project and come back", func(t *testing.T) {
		t.Parallel()
		dir := project(t, "foo/file.txt", "foo/file2.txt")
		up := "../" + filepath.Base(dir) + "/foo/"
		got := find(t, Request{Dir: dir, Paths: []string{up + "*.txt"}, Exclude: []string{up + "*2.txt"}})
		if diff := cmp.Diff([]string{"foo/file.txt"}, paths(got)); diff != "" {
			t.Error(diff, got.Warnings)
		}
	})
	t.Run("a project's folder whose name looks like a pattern", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(project(t, "[a]{b}/x.txt", "[a]{b}/[1].txt"), "[a]{b}")
		got := find(t, Request{Dir: dir, Paths: []string{`\[1\].txt`, "x.*"}})
		if runtime.GOOS == "windows" {
			t.Skip("a backslash is not an escape there")
		}
		if diff := cmp.Diff([]string{"[1].txt", "x.txt"}, paths(got)); diff != "" {
			t.Error(diff, got.Warnings)
		}
	})
}

func TestFindUntracked(t *testing.T) {
	t.Parallel()
	const name = "неотслеживаемый_файл.txt"
	t.Run("case 69: untracked files with names in any script", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("git"); err != nil {
			t.Skip("needs git: it lists the files")
		}
		dir := project(t, name, "line\nbreak", "x.log")
		git(t, dir, "init", "-q")
		listed := strings.Split(strings.TrimSuffix(git(t, dir, "ls-files", "-o", "-z"), "\x00"), "\x00")
		got := find(t, Request{Dir: dir, Untracked: listed, Exclude: []string{"*.log"}})
		if diff := cmp.Diff([]string{"line\nbreak", name}, paths(got)); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a list cannot name what is outside, and may name what is gone", func(t *testing.T) {
		t.Parallel()
		got := find(t, Request{Dir: project(t, "a"), Untracked: []string{"../a", "gone", "a"}})
		if diff := cmp.Diff([]string{"a"}, paths(got)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]Reason{Outside}, reasons(got)); diff != "" {
			t.Error(diff)
		}
	})
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git %v: %v", args, err)
	}
	return string(out)
}

func TestFindNamesThatAreBytes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		t.Skip("needs a file system whose names are bytes")
	}
	dir := project(t, "d\xff/bad\xfe.txt", "new\nline/a.txt", "日本/語.txt")
	got := find(t, Request{Dir: dir, Paths: []string{"**/*.txt"}, Exclude: []string{"日*/?.txt"}})
	if diff := cmp.Diff([]string{"d\xff/bad\xfe.txt", "new\nline/a.txt"}, paths(got)); diff != "" {
		t.Error(diff, got.Warnings)
	}
	got = find(t, Request{Dir: dir, Paths: []string{"d?/bad?.txt"}})
	if diff := cmp.Diff([]string{"d\xff/bad\xfe.txt"}, paths(got)); diff != "" {
		t.Error(diff, got.Warnings)
	}
}

func TestFindAndSymbolicLinks(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := project(t, "real/file", "in -> real", "out -> "+outside, "loop -> .", "dead -> nowhere")
	for _, test := range []struct {
		name    string
		paths   []string
		want    []string
		reasons []Reason
	}{
		{"stars do not follow links", []string{"**"}, []string{"dead", "in", "loop", "out", "real", "real/file"}, nil},
		{"a link is found as itself", []string{"in"}, []string{"in"}, nil},
		{"a pattern may name a link that stays in the project", []string{"in/*"}, []string{"in/file"}, nil},
		{"but none that leads out of it", []string{"out/*", "out/secret"}, []string{}, []Reason{Unreadable, NoMatch, Unreadable, NoMatch}},
		{"not both a link and what is behind it", []string{"in", "in/*"}, []string{"in"}, []Reason{BehindLink}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := find(t, Request{Dir: dir, Paths: test.paths})
			if diff := cmp.Diff(test.want, paths(got)); diff != "" {
				t.Errorf("%s%v", diff, got.Warnings)
			}
			if diff := cmp.Diff(test.reasons, reasons(got)); diff != "" {
				t.Errorf("%s%v", diff, got.Warnings)
			}
		})
	}
}

func TestFindInGit(t *testing.T) {
	t.Parallel()
	t.Run("case 75: .git is told from folders that are called so", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]bool{
			".git": true, ".git/": true, "./.git/x": true, "././.git/.././.git/": true, "test/.git": false, "test/.git/x": false, ".gitignore": false,
		} {
			if got := InGit(name); got != want {
				t.Errorf("InGit(%q) = %t", name, got)
			}
		}
	})
	t.Run("case 75: a list with .git comes with one warning", func(t *testing.T) {
		t.Parallel()
		got := find(t, Request{Dir: project(t, ".git/config", ".git/HEAD", "a"), Paths: []string{"**"}})
		if diff := cmp.Diff([]Reason{Git}, reasons(got)); diff != "" {
			t.Error(diff)
		}
		if len(got.Entries) != 4 {
			t.Errorf("got %v", paths(got))
		}
	})
}

func TestFindStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Find(ctx, Request{Dir: project(t, "a"), Paths: []string{"**"}}); err == nil {
		t.Error("a canceled search found something")
	}
	if _, err := Find(context.Background(), Request{Dir: filepath.Join(t.TempDir(), "missing")}); err == nil {
		t.Error("no error for a project that is not there")
	}
}

// FuzzFind holds that no pattern finds anything that is not in the project, and that the entries are sorted and unique.
func FuzzFind(f *testing.F) {
	for _, seed := range []string{"**", "../**", "a/{b,c}/*", "/etc/passwd", "[a-z]/..", `\..`, "link/../../x", "{..,a}/*", "**/..", "a/**/b/**/c"} {
		f.Add(seed, "x*")
	}
	dir := f.TempDir()
	for _, name := range []string{"a/b/c", "a/c/x", "d"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(name)), 0o755); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, pattern, exclude string) {
		got, err := Find(context.Background(), Request{Dir: dir, Paths: []string{pattern}, Exclude: []string{exclude}})
		if err != nil {
			t.Fatal(err)
		}
		all := paths(got)
		if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
			t.Errorf("not sorted and unique: %q", all)
		}
		for _, p := range all {
			if !filepath.IsLocal(p) {
				t.Errorf("%q found %q", pattern, p)
			}
		}
	})
}
