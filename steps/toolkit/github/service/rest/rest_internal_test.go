package rest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseChanges(t *testing.T) {
	t.Parallel()
	const a, b = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	tests := []struct {
		name, out string
		want      []changedFile
	}{
		{"nothing", "", []changedFile{}},
		{"a changed file", ":100644 100644 " + a + " " + b + " M\x00x\x003\t1\tx\x00", []changedFile{{SHA: b, Name: "x", Status: "modified", Additions: 3, Deletions: 1, Changes: 4}}},
		{"a removed file has the ID that it had", ":100644 000000 " + a + " " + b + " D\x00x\x000\t1\tx\x00", []changedFile{{SHA: a, Name: "x", Status: "removed", Deletions: 1, Changes: 1}}},
		{"a renamed file", ":100644 100644 " + a + " " + b + " R090\x00old\x00new\x001\t1\t\x00old\x00new\x00", []changedFile{{SHA: b, Name: "new", Previous: "old", Status: "renamed", Additions: 1, Deletions: 1, Changes: 2}}},
		{"a name with a tab and a colon", ":000000 100644 " + a + " " + b + " A\x00a\tb\x00-\t-\ta\tb\x00", []changedFile{{SHA: b, Name: "a\tb", Status: "added"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, parseChanges(tt.out)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzParseChanges(f *testing.F) {
	f.Add(":100644 100644 1 2 R090\x00old\x00new\x001\t1\t\x00old\x00new\x00")
	f.Add(":::: : :\x00\t\t\x00")
	f.Fuzz(func(t *testing.T, out string) {
		if files := parseChanges(out); len(files) > len(out) {
			t.Errorf("%d files", len(files))
		}
	})
}

// FuzzValidRef looks for names that are more than names: options and expressions of revisions.
func FuzzValidRef(f *testing.F) {
	for _, ref := range []string{"main", "feature/x", "--all", "a..b", "a~1", "@{-1}", ":/x", "v1^{}", "é", "a.lock", "HEAD", "/a", "a//b", "\x00"} {
		f.Add(ref)
	}
	f.Fuzz(func(t *testing.T, ref string) {
		if validRef(ref) && (strings.HasPrefix(ref, "-") || strings.ContainsAny(ref, "~^:\x00\n") || strings.Contains(ref, "..") || strings.Contains(ref, "@{")) {
			t.Errorf("%q is more than a name", ref)
		}
	})
}
