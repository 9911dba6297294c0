package host

import "testing"

func TestPathsFollowTheHostsRules(t *testing.T) {
	for _, c := range []struct {
		os, call, want string
		got            func(Paths) string
	}{
		{"linux", "Join", "/a/c", func(p Paths) string { return p.Join("/a", "b", "", "../c") }},
		{"linux", "Join of a name with a backslash", `/a/b\c`, func(p Paths) string { return p.Join("/a", `b\c`) }},
		{"linux", "Dir", "/a/b", func(p Paths) string { return p.Dir("/a/b/c") }},
		{"linux", "Base", "c", func(p Paths) string { return p.Base("/a/b/c/") }},
		{"darwin", "ListSeparator", ":", Paths.ListSeparator},
		{"windows", "ListSeparator", ";", Paths.ListSeparator},
		{"windows", "Join", `C:\a\c`, func(p Paths) string { return p.Join(`C:\a`, "b", "", "../c") }},
		{"windows", "Join of nothing", "", func(p Paths) string { return p.Join("", "") }},
		{"windows", "Join with the root of a volume", `C:\a`, func(p Paths) string { return p.Join(`C:\`, "a") }},
		{"windows", "Clean of slashes", `C:\a\b`, func(p Paths) string { return p.Clean("C:/a//b/.") }},
		{"windows", "Clean of a relative path", `..\b`, func(p Paths) string { return p.Clean(`a\..\..\b`) }},
		{"windows", "Clean of the root", `C:\`, func(p Paths) string { return p.Clean(`C:\..`) }},
		{"windows", "Clean of a share", `\\server\share\a`, func(p Paths) string { return p.Clean(`//server/share/b/../a`) }},
		{"windows", "Base", "c", func(p Paths) string { return p.Base(`C:\a\b\c`) }},
		{"windows", "Dir", `C:\a`, func(p Paths) string { return p.Dir(`C:\a\b`) }},
	} {
		if got := c.got(PathsOf(c.os)); got != c.want {
			t.Errorf("%s on %s is %q, not %q", c.call, c.os, got, c.want)
		}
	}
}

func TestIsAbsFollowsTheHostsRules(t *testing.T) {
	for _, c := range []struct {
		os, path string
		want     bool
	}{
		{"linux", "/a", true}, {"linux", "a", false}, {"linux", `C:\a`, false},
		{"windows", `C:\a`, true}, {"windows", "C:/a", true}, {"windows", `C:a`, false}, {"windows", `\a`, false}, {"windows", "a", false},
		{"windows", `\\server\share\a`, true},
	} {
		if got := PathsOf(c.os).IsAbs(c.path); got != c.want {
			t.Errorf("%s on %s: %v", c.path, c.os, got)
		}
	}
}
