package sshclient

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]*Target{
		"build-1":                    {Host: "build-1"},
		"ann@build-1":                {User: "ann", Host: "build-1"},
		"ann@build-1:2222":           {User: "ann", Host: "build-1", Port: "2222"},
		"ssh://ann@build-1:2222/":    {User: "ann", Host: "build-1", Port: "2222"},
		"ann@corp@build-1":           {User: "ann@corp", Host: "build-1"},
		"[2001:db8::1]:22":           {Host: "2001:db8::1", Port: "22"},
		"ann@[2001:db8::1]":          {User: "ann", Host: "2001:db8::1"},
		"2001:db8::1":                {Host: "2001:db8::1"},
		"":                           nil,
		"ann@":                       nil,
		"@build-1":                   nil,
		"ann:secret@build-1":         nil,
		"build-1:":                   nil,
		"-oProxyCommand=x":           nil,
		"build 1":                    nil,
		"ssh://build-1/path":         nil,
		"ssh://ann:secret@build-1:2": nil,
	} {
		got, err := ParseTarget(text)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		} else if diff := cmp.Diff(want, got); diff != "" && want != nil {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestTheConfigurationFillsInWhatATargetLeavesOut(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	text := "Host short\n  HostName %h.example.com\n  User ann\n  Port 2222\n  ProxyJump a,b\nHost direct\n  ProxyJump none\nHost *\n  User everyone\n  ProxyJump c\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type got struct{ HostPort, User, Jump string }
	for _, c := range []struct {
		name   string
		target Target
		want   got
	}{
		{"an alias", Target{Host: "short"}, got{"short.example.com:2222", "ann", "a,b"}},
		{"what the target says wins", Target{Host: "short", Port: "22", User: "bob", Jump: "d"}, got{"short.example.com:22", "bob", "d"}},
		{"no jump host", Target{Host: "direct"}, got{"direct:22", "everyone", ""}},
		{"no jump host asked for", Target{Host: "short", Jump: "none"}, got{"short.example.com:2222", "ann", ""}},
		{"a jump host for all, which is the jump host", Target{Host: "c"}, got{"c:22", "everyone", ""}},
		{"a default user comes last", Target{Host: "other", DefaultUser: "git"}, got{"other:22", "everyone", "c"}},
	} {
		c.target.Config = []string{config}
		s := readSettings(&c.target)
		if diff := cmp.Diff(c.want, got{s.hostPort, s.user, s.jump}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if s := readSettings(&Target{Host: "other", DefaultUser: "git", Config: []string{}}); s.user != "git" {
		t.Errorf("without a configuration the user is %q", s.user)
	}
}
