package include

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/local/repository"
)

func FuzzParseLock(f *testing.F) {
	f.Add("version = 1\n[[include]]\nkind = 'remote'\nplace = 'https://h/a.yml'\npin = 'sha256:" + strings.Repeat("a", 64) + "'\n")
	f.Add("version = 1\n[[include]]\nkind = 'version'\nplace = 'h/g/p'\nref = '1'\npin = '1.0.0'\n")
	f.Add("version = 1\ninclude = 3")
	f.Fuzz(func(t *testing.T, text string) {
		read, err := parseLock("f", []byte(text))
		if err != nil {
			return
		}
		out, err := read.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseLock("f", out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		more, err := again.encode()
		if diff := cmp.Diff(string(out), string(more)); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"h/g/p/c@1", "h:8080/g/s/p/c@~latest", "a@b@c", "//@", "h/../c@1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		if strings.Contains("/"+a.project+"/", "/../") || strings.Contains(a.name, "/") || a.version == "" || a.host == "" {
			t.Errorf("%q: %+v", text, a)
		}
	})
}

func TestOverSSH(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]bool{
		"git@host:g/p": true, "ssh://git@host/g/p": true, "host:g/p": true, "https://host/g/p": false, "/srv/p": false, "../p": false, `C:\p`: false,
		"file:///srv/p": false, "": false,
	} {
		if got := overSSH(remote); got != want {
			t.Errorf("overSSH(%q) = %v", remote, got)
		}
	}
}

func TestLocations(t *testing.T) {
	t.Parallel()
	server := repository.Server{Protocol: "https", Host: "host", Port: "443", SSHHost: "ssh.host", SSHPort: "2222"}
	for name, c := range map[string]struct {
		r             *repository.Repository
		host, project string
		want          []string
	}{
		"as the remote is reached: over HTTPS": {
			&repository.Repository{RemoteURL: "https://host/g/p.git"}, "host", "a/b", []string{"https://host/a/b.git"},
		},
		"over SSH, and where that fails over HTTPS": {
			&repository.Repository{RemoteURL: "ssh://me@ssh.host:2222/g/p.git"}, "host", "a/b", []string{"ssh://me@ssh.host:2222/a/b.git", "https://host/a/b.git"},
		},
		"the user of SSH is git where the remote names none": {
			&repository.Repository{RemoteURL: "ssh.host:g/p"}, "host", "a/b", []string{"ssh://git@ssh.host:2222/a/b.git", "https://host/a/b.git"},
		},
		"another server is asked over HTTPS": {
			&repository.Repository{RemoteURL: "git@ssh.host:g/p"}, "other", "a/b", []string{"https://other/a/b.git"},
		},
		"the own project, where it has no server, is this repository": {
			&repository.Repository{Git: true, Root: "/srv/p", RemoteURL: "../p"}, "host", "G/P", []string{"file:///srv/p"},
		},
		"other projects are still on a server": {
			&repository.Repository{Git: true, Root: "/srv/p"}, "host", "a/b", []string{"https://host/a/b.git"},
		},
	} {
		c.r.Server, c.r.Project = server, "g/p"
		l := &Loader{o: Options{Repository: c.r}}
		var got []string
		for _, at := range l.locations(c.host, c.project, "main") {
			got = append(got, at.URL)
			if at.Name != "https://"+c.host+"/"+c.project {
				t.Errorf("%s: the name is %s", name, at.Name)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
