package glob

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPatternMatchesAsRubyDoes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"cat", "cat", true},
		{"cat", "category", false},
		{"cat", "CAT", false},
		{"c?t", "cat", true},
		{"c??t", "cat", false},
		{"c*", "cats", true},
		{"*c*a*t*s*", "cats", true},
		{"*abc", "abcabz", false},
		{"*abz", "abcabz", true},
		{"a*bc", "abcd", false},
		{"*?", "a", true},
		{"*/", "a/", true},
		{"*", ".profile", true},
		{"*", "dave/.profile", false},
		{"*/*", "dave/.profile", true},
		{"foo*", "foo/boo", false},
		{"foo?boo", "foo/boo", false},
		{"foo[/]boo", "foo/boo", false},
		{"**/foo", "a/.b/c/foo", true},
		{"**/foo", "/foo", true},
		{"**/foo", "foo", true},
		{"**/foo", "a/foo/b", false},
		{"**foo", "a/foo", false},
		{"a/**", "a/b/c", false}, // a doublestar that no slash follows is a star
		{"a/**", "a/b", true},
		{"a/**/*", "a/b/c", true},
		{"a/**/*", "a/b", true},
		{"a/**/b/**/c", "a/x/b/y/b/z/c", true},
		{"a/**/b/**/c", "a/x/y/c", false},
		{"**/**/**/c", "a/b/c", true},
		{"[a-c]at", "bat", true},
		{"[!a-c]at", "bat", false},
		{"[^a-c]at", "rat", true},
		{"[a-", "a", false},
		{"[]", "a", false},
		{`[a\-c]`, "-", true},
		{`[a\-c]`, "b", false},
		{`\[1\]`, "[1]", true},
		{`\*`, "*", true},
		{`\*`, "cats", false},
		{`\a`, "a", true},
		{"{.g,t}*", ".gem", true},
		{"{a,b/{c,d}}/x", "b/d/x", true},
		{"{a,b/{c,d}}/x", "b/x", false},
		{"*.{js,ts}", "a.ts", true},
		{"{,a}b", "b", true},
		{"{a", "{a", false}, // Ruby never asks about braces that are not closed
		{"a}", "a}", true},
		{`\{a,b\}`, "{a,b}", true},
		{"[a-\u3042]*", "\u3042", true},
		{"[a-\u3042]*", "\u3043", false},
		{"?.txt", "\u3042.txt", true},
		{"?.txt", "\xff.txt", true},
		{"*.txt", "line\nbreak.txt", true},
		{"Docker*", "docker/Dockerfile", false},
		{"", "", true},
		{"", "a", false},
	} {
		t.Run(fmt.Sprintf("%q and %q", test.pattern, test.path), func(t *testing.T) {
			t.Parallel()
			p, err := Compile(test.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Match(test.path); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	t.Parallel()
	many := make([]string, MaxComparisons/2+1)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for _, test := range []struct {
		name            string
		patterns, files []string
		want            Verdict
	}{
		{"one of the files", []string{"docs/*", "*.md"}, []string{"src/a.go", "README.md"}, Verdict{Match: true, Pattern: "*.md", File: "README.md"}},
		{"none of them", []string{"docs/*"}, []string{"docs/a/b"}, Verdict{}},
		{"no files", []string{"**/*"}, nil, Verdict{}},
		{"no patterns", nil, []string{"a"}, Verdict{}},
		{"as many comparisons as there may be", []string{"x"}, many, Verdict{}},
		{"more are taken for a match", []string{"x", "y"}, many, Verdict{Match: true, Assumed: true}},
		{"a pattern that stands twice counts once", []string{"x", "x"}, many, Verdict{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Changes(test.patterns, test.files)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestExists(t *testing.T) {
	t.Parallel()
	files := make([]string, MaxComparisons+1)
	for i := range files {
		files[i] = fmt.Sprintf("f%06d.txt", i)
	}
	few := []string{".gitignore", "Dockerfile", "docs/a.md", "src/main.go"}
	for _, test := range []struct {
		name            string
		patterns, files []string
		want            Verdict
	}{
		{"a plain name", []string{"Dockerfile"}, few, Verdict{Match: true, Pattern: "Dockerfile", File: "Dockerfile"}},
		{"a plain name that is not there", []string{"dockerfile", "docs"}, few, Verdict{}},
		{"the end of a name", []string{"**/*.go"}, few, Verdict{Match: true, Pattern: "**/*.go", File: "src/main.go"}},
		{"a pattern", []string{"docs/*"}, few, Verdict{Match: true, Pattern: "docs/*", File: "docs/a.md"}},
		{"plain names and ends are found among any number", []string{"f050000.txt"}, files, Verdict{Match: true, Pattern: "f050000.txt", File: "f050000.txt"}},
		{"and not found, either", []string{"**/*.go", "x"}, files, Verdict{}},
		{"a pattern is taken to match where there are too many", []string{"x*"}, files, Verdict{Match: true, Assumed: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Exists(test.patterns, test.files)
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestRulesHaveLimits(t *testing.T) {
	t.Parallel()
	patterns := slices.Repeat([]string{"a"}, MaxPatterns+1)
	var many *TooManyError
	if _, err := Changes(patterns, []string{"a"}); !errors.As(err, &many) || many.Count != MaxPatterns+1 {
		t.Errorf("got %v", err)
	}
	if _, err := Exists(patterns[:MaxPatterns], []string{"a"}); err != nil {
		t.Errorf("got %v", err)
	}
	if _, err := Exists([]string{strings.Repeat("{a,b}", 64)}, []string{"a"}); !errors.Is(err, errMany) {
		t.Errorf("got %v", err)
	}
}

func TestWildcard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, file string
		want          bool
	}{
		{"*.lock", "a.lock", true},
		{"*.lock", "a/b.lock", false},
		{"**/*.lock", "a/b/c.lock", true},
		{"**/*.lock", "c.lock", false}, // as GitLab has it: there must be a slash
		{"**.lock", "a/b.lock", true},
		{"a.lock", "a.lock", true},
		{"a?.[b]", "a?.[b]", true},
		{"*.a+b", "x.a+b", true},
		{"*", "new\nline", true},
	} {
		if got := Wildcard(test.pattern)(test.file); got != test.want {
			t.Errorf("%q and %q: got %t", test.pattern, test.file, got)
		}
	}
}

// FuzzPattern holds that matching ends, and that a name without special characters matches itself alone.
func FuzzPattern(f *testing.F) {
	f.Add("**/{a,b}*[c-d]", "x/ac")
	f.Add(strings.Repeat("**/a*", 20), strings.Repeat("a/", 50))
	f.Add(`[\`, "a")
	f.Add("{a,{b,", "b")
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		got := p.Match(path)
		if !strings.ContainsAny(pattern, `*?[{\`) && got != (pattern == path) {
			t.Errorf("%q and %q: got %t", pattern, path, got)
		}
	})
}
