package cachekey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestSanitize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		keys map[string]string // "" is an error
	}{
		{"case 52: what is at the end is taken off", map[string]string{
			`fallback_key/ \ `: "fallback_key", "fallback_key/": "fallback_key", "key \t\r": "key", `key\`: "key", "a / b ": "a / b", "\t a ": "\t a",
		}},
		{"case 53: a key does not lead upwards", map[string]string{"../foo/bar": "foo/bar", "/foo/bar": "foo/bar", "./foo/bar": "foo/bar", "//foo": "foo"}},
		{"case 54: two dots take back the name before them", map[string]string{
			"foo/bar/..": "foo", "a/b/c/../../d": "a/d", "foo/bar/../../../.././blerp": "blerp", "foo/./bar": "foo/bar",
		}},
		{"case 55: a backslash is a slash", map[string]string{`foo\bar`: "foo/bar", `\\foo\..\bar`: "bar", `..\foo`: "foo"}},
		{"case 56: slashes and dots may be written as in an address", map[string]string{
			"some%2f../job/some/ref/.": "job/some/ref", "a %2F b": "a / b", "%2E%2e/x": "x",
		}},
		{"case 57: nothing is left", map[string]string{
			"%2E%2E": "", ".": "", "..": "", "/": "", `\`: "", " ": "", " / ": "", " \t\r\n": "", "../.": "", "foo/..": "", `//\`: "", ".%2E": "",
		}},
		{"case 58: more than two dots are a name, and so is an escaped backslash", map[string]string{
			"...": "...", ".../....": ".../....", "%2E%2E%2E": "...", "%5C": "%5C", "%5c": "%5c",
		}},
		{"case 59: a blank name is kept inside, and taken off at the end", map[string]string{"foo/ /bar": "foo/ /bar", "foo/ /": "foo", "foo/ / /": "foo"}},
		{"spaces that come off can leave something to take back", map[string]string{"a/.. ": "", "a/b/.. ": "a", "a/.. /x": "a/.. /x", "a/. ": "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for raw, want := range test.keys {
				got, err := Sanitize(raw)
				if got != want || (want == "") != errors.Is(err, ErrEmpty) {
					t.Errorf("%q: got %q, %v", raw, got, err)
				}
			}
		})
	}
	if got, err := Sanitize(""); got != "" || err != nil {
		t.Errorf("no key: got %q, %v", got, err)
	}
}

func TestKeysThatNobodyWrote(t *testing.T) {
	t.Parallel()
	if got := Default("build: [a]", "feature/x"); got != "build: [a]/feature/x" {
		t.Errorf("got %q", got)
	}
	for want, got := range map[string]string{
		"default-protected":     Suffixed(DefaultServer, 0, true, false),
		"default-non_protected": Suffixed(DefaultServer, 0, false, false),
		"key-3-protected":       Suffixed("key", 3, true, false),
		"key-1-non_protected":   Suffixed("key", 1, true, true),
		"key-2-non_protected":   Suffixed("key", 2, false, true),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		key       string
		fallbacks []string
		global    string
		want      []string
		problems  int
	}{
		{"the key comes first, the global one last", "k", []string{"f1", "f2"}, "g", []string{"k", "f1+", "f2+", "g+"}, 0},
		{"each once", "k", []string{"./k", "f", "f/"}, "f", []string{"k", "f+"}, 0},
		{"a wrong one is left out", "..", []string{"f", "/"}, "", []string{"f+"}, 2},
		{"the global one cannot be that of protected branches", "k", nil, "main-protected", []string{"k"}, 1},
		{"nor in disguise", "k", nil, `main-protected/ \`, []string{"k"}, 1},
		{"one that is not protected can", "k", nil, "main-non_protected", []string{"k", "main-non_protected+"}, 0},
		{"a cache's own fallback keys are GitLab's concern", "k", []string{"main-protected"}, "", []string{"k", "main-protected+"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			all, problems := Candidates(test.key, test.fallbacks, test.global)
			var got []string
			for _, c := range all {
				if c.Fallback {
					c.Key += "+"
				}
				got = append(got, c.Key)
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(problems) != test.problems {
				t.Errorf("%v%s", problems, diff)
			}
		})
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	own := Location{Runner: "longtoke", Project: "10"}
	for _, test := range []struct {
		name string
		at   Location
		key  string
		want string
	}{
		{"case 60: a runner has its own caches", own, "key", "runner/longtoke/project/10/key"},
		{"case 60: unless they are shared", Location{Runner: "longtoke", Project: "10", Shared: true}, "key", "project/10/key"},
		{"case 60: a path is before all", Location{Path: "some/path", Runner: "longtoke", Project: "10"}, "a/b", "some/path/runner/longtoke/project/10/a/b"},
		{"case 60: a key may leave and come back", own, "../10/key", "runner/longtoke/project/10/key"},
		{"case 60: it may not lead to what only begins like the project", own, "../10-outside", ""},
		{"case 60: nor to another project", own, "../11/key", ""},
		{"case 60: nor anywhere else", own, "../../../../key", ""},
		{"case 60: nor be all of the project", own, ".", ""},
		{"case 60: there is no cache without a key", own, "", ""},
		{
			"case 60: a hash is in one of 256 folders", own, Sharded(Hash("key")),
			"runner/longtoke/project/10/2c/2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.at.Object(test.key)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if got := Sharded("a"); got != "a" {
		t.Errorf("got %q", got)
	}
}

// commit is a Repository of paths, each with the IDs of its content and of the commit that changed it.
type commit map[string][2]string

func (c commit) Files() ([]string, error) {
	var all []string
	for p := range c {
		all = append(all, p)
	}
	return all, nil
}
func (c commit) Blob(p string) (string, error)       { return c[p][0], nil }
func (c commit) LastCommit(p string) (string, error) { return c[p][1], nil }

func TestKeysOfFiles(t *testing.T) {
	t.Parallel()
	in := commit{"Gemfile.lock": {"bb", "c1"}, "a/package.json": {"aa", "c2"}, "b/package.json": {"aa", "c3"}}
	prefix := func(s string) *string { return &s }
	const sumBB = "9a900f538965a426994e1e90600920aff0b4e8d2" // of "bb"
	for _, test := range []struct {
		name  string
		files Files
		index int
		want  string
	}{
		{"one file", Files{Files: []string{"Gemfile.lock"}}, 0, "0_Gemfile-" + sumBB},
		{"the number tells caches apart", Files{Files: []string{"Gemfile.lock"}}, 2, "2_Gemfile-" + sumBB},
		{"a prefix", Files{Files: []string{"Gemfile.lock"}, Prefix: prefix("ruby")}, 0, "ruby-" + sumBB},
		{"a prefix that is empty", Files{Files: []string{"Gemfile.lock"}, Prefix: prefix("")}, 0, sumBB},
		{"a pattern, and one content under two names", Files{Files: []string{"**/package.json", "Gemfile.lock"}, Prefix: prefix("p")}, 0, "p-" + digestOf([]string{"aa", "bb"})},
		{"no such file", Files{Files: []string{"missing.txt", "*.none"}}, 0, "0_missing_*-default"},
		{"the commits that changed it", Files{Commits: []string{"Gemfile.lock"}, Prefix: prefix("p")}, 0, "p-" + digestOf([]string{"c1"})},
		{"the commits that changed it, without a prefix", Files{Commits: []string{"Gemfile.lock"}}, 1, "1-" + digestOf([]string{"c1"})},
		{"a name that begins with a dot", Files{Files: []string{".tool-versions"}}, 1, "1_-default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := test.files.Key(test.index, in)
			if err != nil || got != test.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	t.Run("more files than there can be", func(t *testing.T) {
		t.Parallel()
		if _, err := (Files{Files: []string{"a", "b", "c"}}).Key(0, in); err == nil {
			t.Error("no error")
		}
	})
}

// FuzzSanitize holds what is true of every clean key.
func FuzzSanitize(f *testing.F) {
	for _, seed := range []string{"a/b", `..\%2f%2E%2e`, "a/.. ", "%2%2e", " / ", "...", "%%2e2e/x", "a\u00a0", "%2\\e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		key, err := Sanitize(raw)
		if err != nil || key == "" {
			if key != "" || (err == nil) != (raw == "") {
				t.Fatalf("%q: got %q, %v", raw, key, err)
			}
			return
		}
		if again, err := Sanitize(key); err != nil || again != key {
			t.Errorf("%q became %q, and that %q, %v", raw, key, again, err)
		}
		if strings.HasPrefix(key, "/") || strings.HasSuffix(key, "/") || strings.Contains(key, `\`) || strings.TrimRightFunc(key, unicode.IsSpace) != key {
			t.Errorf("%q became %q", raw, key)
		}
		if names := strings.Split(key, "/"); slices.Contains(names, ".") || slices.Contains(names, "..") || slices.Contains(names, "") {
			t.Errorf("%q became %q", raw, key)
		}
		at := Location{Project: "1", Shared: true}
		if name, err := at.Object(key); err != nil || name != fmt.Sprintf("project/1/%s", key) {
			t.Errorf("%q is kept at %q, %v", key, name, err)
		}
	})
}
