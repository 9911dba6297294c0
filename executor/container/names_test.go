package container

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/containers"
)

func TestAliasesAreThoseOfGitLab(t *testing.T) {
	for name, want := range map[string][]string{
		"postgres":                              {"postgres"},
		"postgres:16":                           {"postgres"},
		"postgres@sha256:abc":                   {"postgres"},
		"tutum/wordpress:latest":                {"tutum__wordpress", "tutum-wordpress"},
		"registry.example.com/a/b:tag":          {"registry.example.com__a__b", "registry.example.com-a-b"},
		"registry.example.com:5000/a/b:tag":     {"registry.example.com__a__b", "registry.example.com-a-b"},
		"registry.example.com:5000/a@sha256:ab": {"registry.example.com__a", "registry.example.com-a"},
		"localhost:5000/a":                      {"localhost__a", "localhost-a"},
	} {
		if diff := cmp.Diff(want, (&containers.Service{Image: containers.Image{Name: name}}).Names()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got := (&containers.Service{Image: containers.Image{Name: "postgres:16"}, Aliases: []string{"db", "postgres", "db", ""}}).Names()
	if diff := cmp.Diff([]string{"postgres", "db"}, got); diff != "" {
		t.Errorf("with names of its own (-want +got):\n%s", diff)
	}
}

func TestImageNamesAndPlatformsThatAreWrongAreTheJobsMistake(t *testing.T) {
	for _, name := range []string{"", "two words", "a\nb", "https://registry.example.com/a", "a:", "a@"} {
		if checkImageName(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
	for _, text := range []string{"linux/", "a/b/c/d", "/"} {
		if _, err := parsePlatform(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
	for text, want := range map[string]string{"linux/arm64": "linux arm64 ", "Linux/aarch64/v8": "linux arm64 v8", "arm64": "linux arm64 ", "linux/arm/v7": "linux arm v7"} {
		p, err := parsePlatform(text)
		if err != nil || p.OS+" "+p.Architecture+" "+p.Variant != want {
			t.Errorf("%s: %+v %v", text, p, err)
		}
	}
}
