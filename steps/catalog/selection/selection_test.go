package selection

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/programtest"
)

func TestFind(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work")
	programtest.Write(t, dir, map[string]string{"a.txt": "a", "sub/b.txt": "b", "sub/c.log": "c", "keep/store/d.txt": "d", "keeper.txt": "e", "../outside.txt": "x"})
	for _, tc := range []struct {
		name string
		r    Request
		want []string
		log  []string
	}{
		{"what patterns find is counted", Request{Paths: []string{"*.txt", "sub"}}, []string{"a.txt", "keeper.txt", "sub", "sub/b.txt", "sub/c.log"}, []string{"*.txt: 2 files and folders\n", "sub: 3 files and folders\n"}},
		{"what is left out is counted", Request{Paths: []string{"sub/**"}, Exclude: []string{"**/*.log"}}, []string{"sub", "sub/b.txt"}, []string{"**/*.log: leaves out 1 file or folder\n"}},
		{"a folder of the step's own is not part of it", Request{Paths: []string{"keep*"}, Without: []string{"keep/store", ""}}, []string{"keep", "keeper.txt"}, nil},
		{"also when it is written as a whole path", Request{Paths: []string{"keep*"}, Without: []string{filepath.Join(dir, "keep")}}, []string{"keeper.txt"}, nil},
		{"a folder outside takes nothing away", Request{Paths: []string{"a.txt"}, Without: []string{"..", "../a.txt", dir}}, []string{"a.txt"}, nil},
		{"what is outside is refused", Request{Paths: []string{"../outside.txt"}}, []string{}, []string{`warning: "../outside.txt" is ignored: `}},
		{"what is not there is a warning", Request{Paths: []string{"none\n"}}, []string{}, []string{`warning: "none\n": no matching files`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			entries, err := Find(t.Context(), &program.Call{WorkDir: dir, Stdout: &log, Stderr: &log}, tc.r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, Names(entries)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
			for _, line := range tc.log {
				if !strings.Contains(log.String(), line) {
					t.Errorf("the log has no %q:\n%s", line, log.String())
				}
			}
		})
	}
}

func TestACancelledSearchEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	if _, err := Find(ctx, &program.Call{WorkDir: t.TempDir(), Stdout: &log, Stderr: &log}, Request{Paths: []string{"**"}, Untracked: true}); err == nil {
		t.Error("it does not end")
	}
}

func TestUntrackedFilesAreFoundWithoutGit(t *testing.T) {
	t.Parallel()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("needs git: the work tree is one of Git")
	}
	for _, version := range []string{"2", "3", "4"} {
		for _, format := range []string{"sha1", "sha256"} {
			t.Run("version "+version+" "+format, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				programtest.Write(t, dir, map[string]string{".gitignore": "out/", "a": "a", "sub/with a longer name": "b", "sub/with a longer name 2": "b", "sub/intended": "i"})
				run := func(args ...string) string {
					cmd := exec.Command(git, args...)
					cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_INDEX_VERSION="+version)
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("git %v: %v\n%s", args, err, out)
					}
					return string(out)
				}
				run("init", "-q", "--object-format="+format)
				run("add", ".gitignore", "sub/with a longer name", "sub/with a longer name 2")
				run("add", "--intent-to-add", "sub/intended")
				if version != "3" { // which git writes by itself, for what is to be added
					run("update-index", "--index-version="+version)
				}
				programtest.Write(t, dir, map[string]string{"out/built": "x", "sub/new": "y", "own/.git/HEAD": "ref: x", "own/file": "z"})
				if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				names, err := untracked(t.Context(), &program.Call{WorkDir: dir, Env: []string{"PATH=" + t.TempDir()}, Stdout: &log, Stderr: &log})
				if err != nil {
					t.Fatal(err)
				}
				want := strings.Fields(strings.ReplaceAll(run("ls-files", "--others", "-z"), "\x00", "\n"))
				if os.RemoveAll(filepath.Join(dir, "own")) == nil { // Git lists a broken repository in its own way
					names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, "own/") })
					want = slices.DeleteFunc(want, func(n string) bool { return strings.HasPrefix(n, "own/") })
				}
				slices.Sort(names)
				slices.Sort(want)
				if diff := cmp.Diff(want, names); diff != "" || len(want) < 3 {
					t.Errorf("git (-), without it (+):\n%s", diff)
				}
			})
		}
	}
}

// FuzzIndex holds the reader to one promise: whatever is in a work tree's index, it returns.
func FuzzIndex(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00" + strings.Repeat("x", 20)))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01" + strings.Repeat("\x00", 62) + "\x00a\x00" + strings.Repeat("x", 20)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = parseIndex(data, sha1Size)
	})
}

func TestUntrackedFilesStartNoMonitorOfTheJob(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("needs git: %v", err)
	}
	dir, ran := t.TempDir(), filepath.Join(t.TempDir(), "ran")
	programtest.Write(t, dir, map[string]string{"a": "a"})
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "a"}, {"config", "core.fsmonitor", "touch '" + ran + "'; false"}} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	programtest.Write(t, dir, map[string]string{"b": "b"})
	var log bytes.Buffer
	names, err := untracked(t.Context(), &program.Call{WorkDir: dir, Env: os.Environ(), Stdout: &log, Stderr: &log})
	if err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("%q, %v: %s", names, err, log.String())
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("it ran what the job configured")
	}
}
