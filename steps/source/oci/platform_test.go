package oci

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/source/oci/distribution"
)

func TestParsePlatform(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Platform{
		"linux/amd64":              {OS: "linux", Architecture: "amd64"},
		"Linux/x86_64":             {OS: "linux", Architecture: "amd64"},
		"linux/amd64/v1":           {OS: "linux", Architecture: "amd64"},
		"linux/amd64/v3":           {OS: "linux", Architecture: "amd64", Variant: "v3"},
		"linux/aarch64":            {OS: "linux", Architecture: "arm64"},
		"linux/arm64/v8":           {OS: "linux", Architecture: "arm64"},
		"linux/arm64/8":            {OS: "linux", Architecture: "arm64"},
		"linux/arm":                {OS: "linux", Architecture: "arm", Variant: "v7"},
		"linux/arm/6":              {OS: "linux", Architecture: "arm", Variant: "v6"},
		"linux/armhf":              {OS: "linux", Architecture: "arm", Variant: "v7"},
		"macos/arm64":              {OS: "darwin", Architecture: "arm64"},
		"windows/amd64:10.0.20348": {OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348"},
		"windows/amd64:10.0+b+a+b": {OS: "windows", Architecture: "amd64", OSVersion: "10.0", OSFeatures: []string{"a", "b"}},
		"windows/amd64+win32k":     {OS: "windows", Architecture: "amd64", OSFeatures: []string{"win32k"}},
		"generic":                  Generic,
		"generic/generic":          Generic,
		"freebsd/riscv64":          {OS: "freebsd", Architecture: "riscv64"},
		"linux/i686":               {OS: "linux", Architecture: "386"},
	} {
		got, err := ParsePlatform(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if again, err := ParsePlatform(got.String()); err != nil || !cmp.Equal(again, got) {
			t.Errorf("%s: its text %q is read as %v, %v", text, got, again, err)
		}
	}
	for text, why := range map[string]string{
		"": "empty", "linux": "no architecture", "linux/": "empty part", "/amd64": "empty part", "linux/arm/v7/x": "too many slashes",
		"linux/amd64:": "empty part", "linux/amd64:1:2": "too many colons", "linux/amd64+": "empty part", "linux//v7": "empty part",
	} {
		if _, err := ParsePlatform(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: got %v, want %q", text, err, why)
		}
	}
}

func TestChoosingForAPlatform(t *testing.T) {
	t.Parallel()
	entry := func(name string) distribution.Descriptor {
		d := distribution.Descriptor{Annotations: map[string]string{"name": name}}
		if name == "none" {
			return d
		}
		system, rest, _ := strings.Cut(name, "/")
		architecture, variant, _ := strings.Cut(rest, "/")
		architecture, version, _ := strings.Cut(architecture, ":")
		d.Platform = &distribution.Platform{OS: system, Architecture: architecture, Variant: variant, OSVersion: version}
		return d
	}
	for _, test := range []struct{ name, platform, entries, want string }{
		{"C121 linux/amd64", "linux/amd64", "windows/amd64 linux/arm64 linux/amd64", "linux/amd64"},
		{"C121 windows", "windows/amd64", "linux/amd64 windows/amd64", "windows/amd64"},
		{"C121 windows without a version before one with it", "windows/amd64", "windows/amd64:10.0.1 windows/amd64", "windows/amd64"},
		{"C121 windows with a version where there is no other", "windows/amd64", "linux/amd64 windows/amd64:10.0.1", "windows/amd64:10.0.1"},
		{"C121 arm64", "linux/arm64", "linux/amd64 linux/arm64", "linux/arm64"},
		{"C121 arm64 takes arm64/v8", "linux/arm64", "linux/amd64 linux/arm64/v8", "linux/arm64/v8"},
		{"C121 arm64/v8 takes arm64", "linux/arm64/v8", "linux/amd64 linux/arm64", "linux/arm64"},
		{"C121 arm64/v9 takes arm64", "linux/arm64/v9", "linux/arm64", "linux/arm64"},
		{"C121 generic where nothing else is", "linux/amd64", "linux/arm64 generic/generic", "generic/generic"},
		{"C121 generic without an architecture", "linux/amd64", "generic/", "generic/"},
		{"C121 the exact one before generic", "linux/amd64", "generic/generic linux/amd64", "linux/amd64"},
		{"C121 nothing", "linux/amd64", "linux/arm64 windows/amd64", ""},
		{"an entry without a platform comes last", "linux/amd64", "none generic/generic", "generic/generic"},
		{"an entry without a platform before nothing", "linux/amd64", "linux/arm64 none", "none"},
		{"the first of several", "linux/amd64", "none none", "none"},
		{"what attests an image is none", "linux/amd64", "unknown/unknown", ""},
		{"arm/v7 takes v6 before v5", "linux/arm/v7", "linux/arm/v5 linux/arm/v6", "linux/arm/v6"},
		{"arm/v6 does not take v7", "linux/arm/v6", "linux/arm/v7", ""},
		{"amd64 does not take v3", "linux/amd64", "linux/amd64/v3", ""},
		{"amd64/v3 takes amd64", "linux/amd64/v3", "linux/amd64", "linux/amd64"},
		{"no entries", "linux/amd64", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			platform, err := ParsePlatform(test.platform)
			if err != nil {
				t.Fatal(err)
			}
			var entries []distribution.Descriptor
			for _, name := range strings.Fields(test.entries) {
				entries = append(entries, entry(name))
			}
			chosen, _ := choose(platform, entries)
			got := ""
			if chosen != nil {
				got = chosen.Annotations["name"]
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
