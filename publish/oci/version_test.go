package oci

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTags(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, version, existing, want string }{
		{"C126 the first version", "3.5.1", "", "3.5.1 3.5 3 latest"},
		{"C126 the newest version", "3.5.1", "3 3.5 3.5.0 latest", "3.5.1 3.5 3 latest"},
		{"C126 the same again", "3.5.1", "3.5.1 3.5 3 latest", "3.5.1 3.5 3 latest"},
		{"C126 an old minor", "3.5.1", "3 3.6 3.6.0 3.5 3.5.0", "3.5.1 3.5"},
		{"C126 an old major", "2.1.2", "3 3.5 3.5.0 2 2.1 2.1.0 2.1.1", "2.1.2 2.1 2"},
		{"C126 an old patch", "2.1.2", "3.5.0 2.2.0 2.1.3 2.1.1", "2.1.2"},
		{"C126 an old minor of an old major", "1.1.5", "1.2.0 2.0.0 1.1.4", "1.1.5 1.1"},
		{"C126 a release candidate", "2.0.0-rc.1", "1.0.0", "2.0.0-rc.1"},
		{"C126 release candidates that are there do not count", "1.0.1", "2.0.0-rc.1 1.1.0-beta", "1.0.1 1.0 1 latest"},
		{"C126 malformed tags do not count", "1.0.1", "9 9.9 edge 09.1.1 9.9.9.9 9.9.9+build v9.9 -1.2.3 x9.9.9 9.9.x 99999999-abc sha256-abc", "1.0.1 1.0 1 latest"},
		{"C126 numbers are compared as numbers", "1.10.0", "1.9.0 1.2.0", "1.10.0 1.10 1 latest"},
		{"C126 very large numbers", "1.0.0", "99999999999999999999.0.0", "1.0.0 1.0 1"},
		{"with a v", "v1.2.3", "v1.2.2", "v1.2.3 v1.2 v1 latest"},
		{"with a v among those without", "v1.2.3", "1.3.0", "v1.2.3 v1.2"},
		{"no full version", "1.2", "1.1.0", "1.2"},
		{"another tag", "edge", "1.1.0", "edge"},
		{"latest", "latest", "1.1.0", "latest"},
		{"a zero in front", "01.2.3", "", "01.2.3"},
		{"version 0", "0.1.0", "", "0.1.0 0.1 0 latest"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := Tags(test.version, strings.Fields(test.existing))
			if diff := cmp.Diff(strings.Fields(test.want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for tag, want := range map[string]bool{"1.2.3": true, "v1.2.3": true, "1.2.3-rc.1": true, "1.2": false, "latest": false, "vv1.2.3": false, "1.2.3+b": false} {
		if IsVersion(tag) != want {
			t.Errorf("IsVersion(%q) is %t", tag, !want)
		}
	}
}
