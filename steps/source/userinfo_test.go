package source_test

import (
	"testing"

	"github.com/rungci/rung/steps/source"
)

func TestWithoutUserinfo(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://user:secret@host/p@x":  "https://host/p@x",
		"https://secret@host":           "https://host",
		"https://host/a@b/c":            "https://host/a@b/c",
		"https://host:8080/a@b":         "https://host:8080/a@b",
		"https://[::1]:8080/a@b":        "https://[::1]:8080/a@b",
		"https://user:se/cret@host/p@x": "https://host/p@x",
		"ssh://git@host/p":              "ssh://git@host/p",
		"ssh://git:secret@host:22/p":    "ssh://git@host:22/p",
		"SSH+git://git@host/p":          "SSH+git://git@host/p",
		"git@host:p":                    "git@host:p",
		"file:///srv/x@y":               "file:///srv/x@y",
		"http://a:b@c@host:8080/p":      "http://host:8080/p",
	} {
		if got := source.WithoutUserinfo(url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

func TestMaskUserinfo(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`there is no step "https://user:secret@host/p@v1": looked`: `there is no step "https://user:[MASKED]@host/p@v1": looked`,
		"- step: 'http://secret@host/p@v1'\n        ^^^":           "- step: 'http://[MASKED]@host/p@v1'\n        ^^^",
		"{url: https://u:p/w@host/p, rev: v1}":                     "{url: https://u:[MASKED]@host/p, rev: v1}",
		"https://u:p@ host/x@v1 is not a URL":                      "https://u:[MASKED]@ host/x@v1 is not a URL",
		"user:secret@host/p@v1: it is not in the lock file":        "user:[MASKED]@host/p@v1: it is not in the lock file",
		"ssh://git@host/p and ssh://git:secret@host/p":             "ssh://git@host/p and ssh://git:[MASKED]@host/p",
		"host/p/-/x@v1, git@host:p and https://host:80/p@v1":       "host/p/-/x@v1, git@host:p and https://host:80/p@v1",
		"registry.example:5000/x/y:1@sha256 and a.example/b:1.2":   "registry.example:5000/x/y:1@sha256 and a.example/b:1.2",
		"action:octo/nothere@v1 and action:octo/a/b@topic/x":       "action:octo/nothere@v1 and action:octo/a/b@topic/x",
		"alpine:3.19@sha256:00ff and a.example:group/x@v1.2":       "alpine:3.19@sha256:00ff and a.example:group/x@v1.2",
		"user:se/cret@proxy.example.com:3128":                      "user:[MASKED]@proxy.example.com:3128",
		"first.last:ab/cd==@git.example.com":                       "first.last:[MASKED]@git.example.com",
		"action:tok:en@host/p":                                     "action:[MASKED]@host/p",
		"user:se/cret@host/p@v1":                                   "user:[MASKED]@host/p@v1",
		"file:///srv/x@y  --> steps.yml:2:3":                       "file:///srv/x@y  --> steps.yml:2:3",
	} {
		if got := source.MaskUserinfo(text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://user:secret@host/p@v1":      "secret",
		"https://glpat-0123456789abc@host/p": "glpat-0123456789abc",
		"https://git@host/p":                 "",
		"https://user:se/cret@host/p":        "se/cret",
		"ssh://git@host/p":                   "",
		"ssh://git:secret@host/p":            "secret",
		"https://host/p@v1":                  "",
		"git@host:p":                         "",
		"host/p@v1":                          "",
	} {
		if got := source.Password(url); got != want {
			t.Errorf("%s: got %q, want %q", url, got, want)
		}
	}
}
