package hashfiles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// tree makes a workspace in which every file holds its own name.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"go.sum", "a/go.sum", "a/sub/go.sum", "b/x.txt", ".hid/y", "node_modules/x/package.json", "a.txt", "dir/z", "[x]",
	} {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// digest is what hashFiles says of the files in that order.
func digest(names string) string {
	if names == "" {
		return ""
	}
	all := sha256.New()
	for _, name := range strings.Fields(names) {
		one := sha256.Sum256([]byte(name))
		all.Write(one[:])
	}
	return hex.EncodeToString(all.Sum(nil))
}

func TestSum(t *testing.T) {
	dir := tree(t)
	outside := filepath.Dir(dir)
	for _, c := range []struct{ name, patterns, want string }{
		{"a file", "go.sum", "go.sum"},
		{"nothing", "none", ""},
		{"no pattern", "# comment\n\n", ""},
		{"any folder", "**/go.sum", "a/go.sum a/sub/go.sum go.sum"},
		{"a folder stands for what is in it", "a", "a/go.sum a/sub/go.sum"},
		{"with a slash too", "a/", "a/go.sum a/sub/go.sum"},
		{"a file is not a folder", "go.sum/", ""},
		{"a file and what is below it", "go.sum/**", "go.sum"},
		{"a star is not a slash", "*.txt", "a.txt"},
		{"and finds folders, with what is in them", "*", ".hid/y [x] a/go.sum a/sub/go.sum a.txt b/x.txt dir/z go.sum node_modules/x/package.json"},
		{"hidden files count", ".*/*", ".hid/y"},
		{"two patterns in their order", "b/*\na/*", "b/x.txt a/go.sum a/sub/go.sum"},
		{"in another order", "a/*\nb/*", "a/go.sum a/sub/go.sum b/x.txt"},
		{"one below the other", "a/sub\na", "a/go.sum a/sub/go.sum"},
		{"without", "**/*.txt\n!b", "a.txt"},
		{"the last one decides", "!a\na/sub", "a/sub/go.sum"},
		{"without, and with again", "**\n!**\n**/z", "dir/z"},
		{"twice without is with", "!!go.sum", "go.sum"},
		{"one character", "?.txt", "a.txt"},
		{"one of a set", "[a-c].txt", "a.txt"},
		{"none of a set", "[!b-z]/*.sum", "a/go.sum"},
		{"a set of one is that character", "[[]x]", "[x]"},
		{"from this folder", "./b", "b/x.txt"},
		{"a whole path", dir + "/b", "b/x.txt"},
		{"a path above", outside + "/**/x.txt", "b/x.txt"},
		{"outside of the workspace", "/etc/*", ""},
		{"spaces and an empty line", "\n  go.sum  \n", "go.sum"},
		{"two stars in a name are one", "**o.sum", "go.sum"},
		{"several folders", "**/sub/**", "a/sub/go.sum"},
		{"braces are text", "{a,b}.txt", ""},
		{"a set without end is text", "[x", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Sum(context.Background(), dir, []string{c.patterns})
			if err != nil || got != digest(c.want) {
				t.Errorf("%q: %s (%v), want that of %s", c.patterns, got, err, c.want)
			}
		})
	}
	t.Run("several arguments are several patterns", func(t *testing.T) {
		if got, err := Sum(context.Background(), dir, []string{"b/*", "go.sum"}); err != nil || got != digest("b/x.txt go.sum") {
			t.Error(got, err)
		}
	})
}

func TestMistakes(t *testing.T) {
	dir := tree(t)
	for arguments, want := range map[string]string{
		"../x":         `a folder in it must not be ".."`,
		"a/./b":        `must not be "."`,
		"!":            "is empty",
		"--nonsense|a": `unknown option "--nonsense"; there is --follow-symbolic-links`,
	} {
		if _, err := Sum(context.Background(), dir, strings.Split(arguments, "|")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
	stopped, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := Sum(stopped, dir, []string{"**"}); err == nil || err.Error() != "enough" {
		t.Error(err)
	}
}

func TestSymbolicLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links: on Windows they need a privilege")
	}
	dir := tree(t)
	for link, target := range map[string]string{"l1": "a.txt", "l2": "b", "a/sub/up": ".."} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, pattern, plain, followed string
	}{
		{"a link to a file is the file", "l1", "a.txt", "a.txt"},
		{"a link to a folder is nothing, or the folder", "l2", "", "b/x.txt"},
		{"and so is what is behind it", "l2/*", "", "b/x.txt"},
		{"a circle is passed once", "a", "a/go.sum a/sub/go.sum", "a/go.sum a/sub/go.sum"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := Sum(context.Background(), dir, []string{c.pattern}); err != nil || got != digest(c.plain) {
				t.Errorf("%s, %v", got, err)
			}
			if got, err := Sum(context.Background(), dir, []string{"--Follow-Symbolic-Links", c.pattern}); err != nil || got != digest(c.followed) {
				t.Errorf("followed: %s, %v", got, err)
			}
		})
	}
	t.Run("a link that leads nowhere is an error, or nothing", func(t *testing.T) {
		if err := os.Symlink("nowhere", filepath.Join(dir, "broken")); err != nil {
			t.Fatal(err)
		}
		if _, err := Sum(context.Background(), dir, []string{"broken"}); err == nil {
			t.Error("it is none")
		}
		if got, err := Sum(context.Background(), dir, []string{followOption, "broken"}); err != nil || got != "" {
			t.Error(got, err)
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"**/a*/[!b]?", "!./x/", "[[]x]", `\*`, "~/a", "/a//b/**", "[z-a]", "[]", "**/**/**", "a**b"} {
		f.Add(seed, "a/b/c")
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		patterns, err := parse(filepath.FromSlash("/work"), text)
		if err != nil {
			return
		}
		names := strings.Split("/work/"+path, "/")
		for _, p := range patterns {
			if !p.match(names) {
				continue
			}
			for i := range names { // what is found is on a way that is walked
				if !p.leadsTo(names[:i]) {
					t.Fatalf("%q stands for %q, and does not lead to it from %q", text, names, names[:i])
				}
			}
		}
	})
}
