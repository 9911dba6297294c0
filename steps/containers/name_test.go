package containers

import (
	"strings"
	"testing"
)

func TestNamesOfImages(t *testing.T) {
	t.Parallel()
	digest := "sha256:" + strings.Repeat("01", 32)
	for name, want := range map[string]Name{
		"alpine":                                  {"docker.io", "library/alpine", "latest", ""},
		"docker.io/alpine:latest":                 {"docker.io", "library/alpine", "latest", ""},
		"index.docker.io/library/alpine":          {"docker.io", "library/alpine", "latest", ""},
		"group/tool:2":                            {"docker.io", "group/tool", "2", ""},
		"registry.example.com/a/b/c:1.2":          {"registry.example.com", "a/b/c", "1.2", ""},
		"group/tool:":                             {"docker.io", "group/tool", "", ""},
		"localhost/tool":                          {"localhost", "tool", "latest", ""},
		"127.0.0.1:5000/tool":                     {"127.0.0.1:5000", "tool", "latest", ""},
		"127.0.0.1:5000/tool:3@" + digest:         {"127.0.0.1:5000", "tool", "3", digest},
		"Registry.Example.com:443/tool@" + digest: {"registry.example.com:443", "tool", "", digest},
	} {
		if got := ParseName(name); got != want {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
	if !SameImage("alpine", "docker.io/library/alpine:latest") || SameImage("alpine:3", "alpine") || SameImage("alpine:", "alpine") || SameImage("a.example/alpine", "alpine") {
		t.Error("names are the same that are not, or are not that are")
	}
	for name, want := range map[string]string{"alpine": "alpine@", "alpine:3": "alpine@", "127.0.0.1:5000/tool:3": "127.0.0.1:5000/tool@", "127.0.0.1:5000/tool": "127.0.0.1:5000/tool@", "a:1@sha256:0": "a@"} {
		if got := WithDigest(name, digest); got != want+digest {
			t.Errorf("%s is %s by its digest", name, got)
		}
	}
}
