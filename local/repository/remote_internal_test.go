package repository

import (
	"bytes"
	"strings"
	"testing"
)

func TestParseRemote(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]struct{ server, ssh, project, clean string }{
		"https://gitlab.com/group/project.git":               {"https://gitlab.com", "gitlab.com:22", "group/project", "https://gitlab.com/group/project.git"},
		"https://oauth2:glpat-x@gitlab.com/g/s/p":            {"https://gitlab.com", "gitlab.com:22", "g/s/p", "https://gitlab.com/g/s/p"},
		"http://host:8080/g/p.git/":                          {"http://host:8080", "host:22", "g/p", "http://host:8080/g/p.git/"},
		"https://Host.Example:443/g/p?private_token=secret1": {"https://host.example", "host.example:22", "g/p", "https://Host.Example:443/g/p"},
		"git@gitlab.com:group/project.git":                   {"https://gitlab.com", "gitlab.com:22", "group/project", "git@gitlab.com:group/project.git"},
		"gitlab.com:group/project":                           {"https://gitlab.com", "gitlab.com:22", "group/project", "gitlab.com:group/project"},
		"git@[::1]:group/project":                            {"https://[::1]", "::1:22", "group/project", "git@[::1]:group/project"},
		"ssh://git@host:2222/group/project.git":              {"https://host", "host:2222", "group/project", "ssh://git@host:2222/group/project.git"},
		"ssh://git:secret@host/~group/project":               {"https://host", "host:22", "group/project", "ssh://git@host/~group/project"},
		"ssh://git@altssh.gitlab.com:443/g/p":                {"https://gitlab.com", "altssh.gitlab.com:443", "g/p", "ssh://git@altssh.gitlab.com:443/g/p"},
		"git://host/g/p.git":                                 {"https://host", "host:22", "g/p", "git://host/g/p.git"},
		"/srv/repositories/p.git":                            {"", "", "", "/srv/repositories/p.git"},
		"../p":                                               {"", "", "", "../p"},
		`C:\repositories\p`:                                  {"", "", "", `C:\repositories\p`},
		"file:///srv/p.git":                                  {"", "", "", "file:///srv/p.git"},
		"":                                                   {"", "", "", ""},
	} {
		server, project, clean := parseRemote(address)
		url, ssh := "", ""
		if server.Host != "" {
			url, ssh = server.URL(), server.SSHHost+":"+server.SSHPort
		}
		if url != want.server || ssh != want.ssh || string(project) != want.project || clean != want.clean {
			t.Errorf("parseRemote(%q) = %q, %q, %q, %q; want %+v", address, url, ssh, project, clean, want)
		}
	}
}

func FuzzParseRemote(f *testing.F) {
	for _, seed := range []string{"https://u:p@h/g/p", "git@h:g/p", "ssh://u:p@[::1]:2/g", "u:p@h:x", "https://u:pa/ss@h/g", "//", "a://%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, address string) {
		server, project, clean := parseRemote(address)
		if server.Host != "" && server.Port == "" {
			t.Errorf("%q: no port", address)
		}
		if strings.HasPrefix(string(project), "/") {
			t.Errorf("%q: the project begins with a slash: %q", address, project)
		}
		if i := strings.Index(address, "https://user:SECRET@"); i == 0 && strings.Contains(clean, "SECRET@") {
			t.Errorf("%q shows a password: %q", address, clean)
		}
	})
}

func TestLastDigits(t *testing.T) {
	t.Parallel()
	if got := lastDigits([32]byte(bytes.Repeat([]byte{0xaa}, 32))); got != "q517sa" {
		t.Errorf("lastDigits = %s, want q517sa", got)
	}
}
