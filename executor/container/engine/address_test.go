package engine

import (
	"strings"
	"testing"
)

func TestParseHost(t *testing.T) {
	for host, want := range map[string]address{
		"unix:///run/docker.sock":             {network: "unix", place: "/run/docker.sock"},
		"unix:///home/a@b/with space/d.sock":  {network: "unix", place: "/home/a@b/with space/d.sock"},
		"tcp://10.0.0.1:2376":                 {network: "tcp", place: "10.0.0.1:2376"},
		"tcp://builder":                       {network: "tcp", place: "builder:2375"},
		"tcp://[::1]:2375":                    {network: "tcp", place: "[::1]:2375"},
		"http://builder:80/engine/":           {network: "tcp", place: "builder:80", path: "/engine"},
		"https://builder.example.com/engines": {network: "tcp", place: "builder.example.com:2376", path: "/engines", secure: true},
	} {
		t.Run(host+" is an address", func(t *testing.T) {
			if got, err := parseHost(host); err != nil || got != want {
				t.Errorf("%+v, not %+v: %v", got, want, err)
			}
		})
	}
	for host, part := range map[string]string{
		"":                                "write unix:///PATH",
		"nonsense":                        "write unix:///PATH",
		"unix://":                         "the path of its socket is missing",
		"tcp://":                          "write tcp://HOST:PORT",
		"tcp://:2375":                     "write tcp://HOST:PORT",
		"tcp://host:port":                 "write tcp://HOST:PORT",
		"tcp://host:1?a=b":                "write tcp://HOST:PORT",
		"tcp://ann:secret@host:1":         "engines know no users",
		"tcp://ann:sec ret@secret@host:x": "write tcp://HOST:PORT",
		"ssh://ann:secret@host":           "ssh -L",
		"npipe:////./pipe/docker_engine":  "named pipes",
		"fd://":                           "fd:// is unknown",
	} {
		t.Run(host+" is refused", func(t *testing.T) {
			_, err := New(host, "")
			if err == nil || !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v", err)
			}
		})
	}
}

func FuzzParseHost(f *testing.F) {
	for _, host := range []string{"unix:///run/docker.sock", "tcp://a:1/b", "https://[::1]", "ssh://u:p@h", "tcp://u:p@h:1", "://", "@", "tcp://%zz", "a@://b@c"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		a, err := parseHost(host)
		switch {
		case err != nil && a != (address{}):
			t.Errorf("%q: both %+v and %v", host, a, err)
		case err == nil && (a.place == "" || a.network != "unix" && a.network != "tcp"):
			t.Errorf("%q: %+v", host, a)
		}
		if without := WithoutUser(host); !strings.HasPrefix(host, "unix://") && strings.Contains(without, "@") {
			t.Errorf("%q: %q has a user", host, without)
		}
	})
}
