package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseAction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Action{
		"actions/checkout@v4":                    {URL: "https://github.com/actions/checkout", Rev: "v4"},
		"actions/cache/restore@refs/heads/x":     {URL: "https://github.com/actions/cache", Rev: "refs/heads/x", Path: "restore"},
		"a/b/c/d@0123456789":                     {URL: "https://github.com/a/b", Rev: "0123456789", Path: "c/d"},
		"https://git.example:3000/a/b@v1":        {URL: "https://git.example:3000/a/b", Rev: "v1"},
		"https://git.example/a/b/c@v1":           {URL: "https://git.example/a/b", Rev: "v1", Path: "c"},
		"https://git.example/a/b/c/-/d/e@v1":     {URL: "https://git.example/a/b/c", Rev: "v1", Path: "d/e"},
		"https://git.example/a/b/-/@v1":          {URL: "https://git.example/a/b", Rev: "v1"},
		"file:///srv/some/where/action@v1":       {URL: "file:///srv/some/where/action", Rev: "v1"},
		"file:///srv/action/-/sub@v1":            {URL: "file:///srv/action", Rev: "v1", Path: "sub"},
		"docker://alpine:3":                      {Image: "alpine:3"},
		"docker://ghcr.io/a/b@sha256:0123456789": {Image: "ghcr.io/a/b@sha256:0123456789"},
		"./a":                                    {Folder: "./a"},
		"../a":                                   {Folder: "../a"},
		"/srv/a":                                 {Folder: "/srv/a"},
		"C:/a":                                   {Folder: "C:/a"},
		"${{ work_dir }}/a":                      {Folder: "${{ work_dir }}/a"},
		"$/a/b":                                  {Folder: "a/b", Own: true},
		"$/":                                     {Own: true},
	} {
		got, err := ParseAction(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

func TestWhatIsNoAction(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "version is missing",
		"actions/checkout":            "version is missing",
		"actions/checkout@":           "version is missing",
		"checkout@v1":                 "owner and the repository are missing",
		"https://git.example/a@v1":    "owner and the repository are missing",
		"https://me:pw@host/a/b@v1":   "a user or a second @",
		"a/b@-x":                      "cannot be a tag",
		"a/b@x..y":                    "cannot be a tag",
		"a/b@v1@v2":                   "cannot be a tag",
		"a/../b@v1":                   "element that is empty",
		"a/b/../../c@v1":              "element that is empty",
		"a//b@v1":                     "element that is empty",
		"a/b\\c@v1":                   "character",
		"a/b?x@v1":                    "character",
		"ssh://host/a/b@v1":           "fetched over ssh",
		"docker://":                   "image is missing",
		"$/a@v1":                      "has no version",
		"$/../a":                      "element that is empty",
		"a b/c@v1":                    "white space",
		"https://git.example/-/a/@v1": "element that is empty",
	} {
		if got, err := ParseAction(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v, want %q", text, got, err, want)
		}
	}
}

func FuzzParseAction(f *testing.F) {
	for _, text := range []string{"a/b/c@v1", "https://h/a/b/-/c@v1", "./a", "$/a", "docker://a", "file:///a@b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseAction(text)
		if err != nil {
			return
		}
		kinds := 0
		for _, is := range []bool{a.Folder != "" || a.Own, a.Image != "", a.URL != ""} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Fatalf("%q is %+v", text, a)
		}
		if inside := "/" + a.Path + "/"; strings.Contains(inside, "/../") {
			t.Fatalf("%q leads out: %+v", text, a)
		}
	})
}
