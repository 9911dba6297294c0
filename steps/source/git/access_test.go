package git

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/rungci/rung/steps/source"
	"github.com/rungci/rung/steps/source/sourcetest"
)

// finder has the same credentials for every place, and notes for which it was asked.
type finder struct {
	user, password string
	err            error
	asked          []string
}

func (f *finder) Git(_ context.Context, url string) (user, password string, ok bool, err error) {
	f.asked = append(f.asked, url)
	return f.user, f.password, f.user != "", f.err
}

func TestHTTPAccess(t *testing.T) {
	const secret = "s3cr3t-passw0rd"
	private := func(t *testing.T) *sourcetest.GitHTTP {
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": "private"})
		return serve(t, sourcetest.GitOptions{Repos: repos, User: "me", Password: secret})
	}
	userinfo := func(url, user string) string { return strings.Replace(url, "://", "://"+user+"@", 1) }

	for _, c := range []struct {
		name    string
		prepare func(f *Fetcher, at *source.Location, s *sourcetest.GitHTTP)
		first   string // the user of the first request
		asks    string // what the credentials are asked for, after the scheme
	}{
		{"that sources.toml gives are sent at once", func(_ *Fetcher, at *source.Location, _ *sourcetest.GitHTTP) {
			at.Access.Username, at.Access.Password = "me", secret
		}, "me", ""},
		{"in the address are sent at once", func(_ *Fetcher, at *source.Location, s *sourcetest.GitHTTP) {
			at.URL = userinfo(s.URL+"/project.git", "me:"+secret)
		}, "me", ""},
		{"from elsewhere are asked for when the server wants some", func(f *Fetcher, _ *source.Location, _ *sourcetest.GitHTTP) {
			f.Credentials = &finder{user: "me", password: secret}
		}, "", "127.0.0.1"},
		{"from elsewhere add the password to a user in the address", func(f *Fetcher, at *source.Location, s *sourcetest.GitHTTP) {
			at.URL = userinfo(s.URL+"/project.git", "me")
			f.Credentials = &finder{user: "me", password: secret}
		}, "me", "me@127.0.0.1"},
	} {
		t.Run("credentials "+c.name, func(t *testing.T) {
			s := private(t)
			f, at := newFetcher(t), location(s.URL+"/project.git", "main")
			c.prepare(f, at, s)
			got, err := load(t, f, at)
			if err != nil || got["step.yml"] != "private" {
				t.Errorf("got %v, %v", got, err)
			}
			if asked, ok := f.Credentials.(*finder); ok && (len(asked.asked) != 2 || !strings.HasPrefix(asked.asked[0], "http://"+c.asks)) {
				t.Errorf("credentials were asked for %q", asked.asked)
			}
			if requests := s.Requests(); requests[0].User != c.first {
				t.Errorf("the server was asked %+v", requests)
			}
		})
	}

	for _, c := range []struct {
		name    string
		prepare func(f *Fetcher, at *source.Location, s *sourcetest.GitHTTP)
		want    string
	}{
		{"a private repository without credentials", func(f *Fetcher, _ *source.Location, _ *sourcetest.GitHTTP) {
			f.Credentials = &finder{}
		}, "asks for credentials, and there are none for it"},
		{"a wrong password in sources.toml", func(_ *Fetcher, at *source.Location, _ *sourcetest.GitHTTP) {
			at.Access.Username, at.Access.Password = "me", "wr0ng"
		}, `does not accept the credentials from sources.toml (user "me")`},
		{"a wrong password in the address", func(_ *Fetcher, at *source.Location, s *sourcetest.GitHTTP) {
			at.URL = userinfo(s.URL+"/project.git", "me:wr0ng")
		}, `does not accept the credentials from the address (user "me")`},
		{"a wrong password from a helper", func(f *Fetcher, _ *source.Location, _ *sourcetest.GitHTTP) {
			f.Credentials = &finder{user: "me", password: "wr0ng"}
		}, `does not accept the credentials from netrc or a credential helper (user "me")`},
		{"a helper that fails", func(f *Fetcher, _ *source.Location, _ *sourcetest.GitHTTP) {
			f.Credentials = &finder{err: errors.New("the helper died")}
		}, "the helper died"},
	} {
		t.Run(c.name+" is denied, and no secret is shown", func(t *testing.T) {
			s := private(t)
			f, at := newFetcher(t), location(s.URL+"/project.git", "main")
			c.prepare(f, at, s)
			_, err := f.Resolve(t.Context(), at)
			var denied *source.DeniedError
			if !errors.As(err, &denied) || !strings.Contains(denied.Why, c.want) || !strings.Contains(denied.Hint, "sources.toml") {
				t.Fatalf("got %#v", err)
			}
			if text := err.Error() + denied.Hint; strings.Contains(text, "wr0ng") || strings.Contains(text, secret) {
				t.Errorf("the secret is in %q", text)
			}
		})
	}

	t.Run("a redirect is followed, but takes no credentials to another host", func(t *testing.T) {
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": "moved"})
		var sent atomic.Bool
		target := serve(t, sourcetest.GitOptions{Repos: repos, Handle: func(w http.ResponseWriter, r *http.Request, serve http.Handler) {
			sent.Store(sent.Load() || r.Header.Get("Authorization") != "")
			serve.ServeHTTP(w, r)
		}})
		from := serve(t, sourcetest.GitOptions{Repos: repos, User: "me", Password: secret, Handle: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, target.URL+strings.Replace(r.URL.RequestURI(), "/old", "/project", 1), http.StatusMovedPermanently)
		}})
		f, at := newFetcher(t), location(from.URL+"/old.git", "main")
		at.Access.Username, at.Access.Password = "me", secret
		got, err := load(t, f, at)
		if err != nil || got["step.yml"] != "moved" {
			t.Errorf("got %v, %v", got, err)
		}
		if sent.Load() {
			t.Error("the credentials were sent to the other host")
		}
	})

	t.Run("a redirect from https to http is refused", func(t *testing.T) {
		s := serve(t, sourcetest.GitOptions{TLS: true, Handle: func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			http.Redirect(w, r, "http://127.0.0.1:1"+r.URL.RequestURI(), http.StatusFound)
		}})
		at := location(s.URL+"/project.git", "main")
		at.Access.HTTP = s.Client
		_, err := newFetcher(t).Resolve(t.Context(), at)
		if err == nil || !strings.Contains(err.Error(), "not encrypted") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("a certificate of an unknown authority is an error", func(t *testing.T) {
		s := serve(t, sourcetest.GitOptions{TLS: true, Repos: t.TempDir()})
		_, err := newFetcher(t).Resolve(t.Context(), location(s.URL+"/project.git", "main"))
		var failed *source.FetchError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), "certificate") || failed.Hint == "" {
			t.Errorf("got %v", err)
		}
		if len(s.Requests()) != 0 {
			t.Error("the server was asked")
		}
	})

	t.Run("https to a server that speaks http is an error that says so", func(t *testing.T) {
		s := serve(t, sourcetest.GitOptions{Repos: t.TempDir()})
		_, err := newFetcher(t).Resolve(t.Context(), location(strings.Replace(s.URL, "http:", "https:", 1)+"/project.git", "main"))
		var failed *source.FetchError
		if !errors.As(err, &failed) || failed.Hint == "" && !strings.Contains(err.Error(), "HTTP response to HTTPS client") {
			t.Errorf("got %v", err)
		}
	})
}

func TestSSHAccess(t *testing.T) {
	start := func(t *testing.T) (*sourcetest.GitSSH, sshAccess, *source.Location) {
		repos := t.TempDir()
		newRepo(t, repos, "group/project").push("main", files{"step.yml": "over ssh"})
		s, access := serveSSH(t, repos)
		at := location("ssh://git@"+s.Addr+"/group/project.git", "main")
		at.Access.KnownHosts = []string{access.knownHosts}
		home := t.TempDir()
		t.Setenv("HOME", home)
		t.Setenv("USERPROFILE", home)
		t.Setenv("SSH_AUTH_SOCK", "")
		if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
			t.Fatal(err)
		}
		return s, access, at
	}
	home := func(name string) string { return filepath.Join(os.Getenv("HOME"), ".ssh", name) }
	works := func(t *testing.T, at *source.Location) {
		t.Helper()
		if got, err := load(t, newFetcher(t), at); err != nil || got["step.yml"] != "over ssh" {
			t.Errorf("got %v, %v", got, err)
		}
	}
	denied := func(t *testing.T, at *source.Location) *source.DeniedError {
		t.Helper()
		_, err := newFetcher(t).Resolve(t.Context(), at)
		var denied *source.DeniedError
		if !errors.As(err, &denied) {
			t.Fatalf("got %v", err)
		}
		return denied
	}
	copyFile := func(t *testing.T, from, to string) {
		t.Helper()
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}

	t.Run("the key in the home folder and the user's known hosts are used", func(t *testing.T) {
		_, access, at := start(t)
		copyFile(t, access.key, home("id_ed25519"))
		copyFile(t, access.knownHosts, home("known_hosts"))
		at.Access.KnownHosts = nil
		works(t, at)
	})
	t.Run("the agent's keys are used", func(t *testing.T) {
		_, access, at := start(t)
		text, err := os.ReadFile(access.key)
		if err != nil {
			t.Fatal(err)
		}
		key, err := ssh.ParseRawPrivateKey(text)
		if err != nil {
			t.Fatal(err)
		}
		ring := agent.NewKeyring()
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
		socket := filepath.Join(t.TempDir(), "agent")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Skip("needs unix sockets: " + err.Error())
		}
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				go func() { _ = agent.ServeAgent(ring, conn) }()
			}
		}()
		t.Setenv("SSH_AUTH_SOCK", socket)
		works(t, at)
	})
	t.Run("the SSH configuration says where a host is, and who to be there", func(t *testing.T) {
		s, access, at := start(t)
		host, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		text := "Host short\n  HostName " + host + "\n  Port " + port + "\n  User git\n  IdentityFile " + access.key + "\n"
		if err := os.WriteFile(home("config"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at.URL = "short:group/project.git"
		works(t, at)
		if got := s.Commands(); got[0] != "git-upload-pack 'group/project.git'" {
			t.Errorf("the server was asked to run %q", got)
		}
	})
	t.Run("a password is used where one was configured", func(t *testing.T) {
		needsGit(t)
		repos := t.TempDir()
		newRepo(t, repos, "project").push("main", files{"step.yml": "over ssh"})
		_, _, at := start(t)
		s, err := sourcetest.StartGitSSH(sourcetest.GitOptions{Repos: repos, Password: "pass"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := os.WriteFile(home("known_hosts"), []byte(s.KnownHosts()), 0o600); err != nil {
			t.Fatal(err)
		}
		at.URL, at.Access = "ssh://"+s.Addr+"/project.git", source.Access{Password: "pass"}
		works(t, at)
	})
	t.Run("an unknown host is denied, with its fingerprint and what to do", func(t *testing.T) {
		s, access, at := start(t)
		at.Access.SSHKey, at.Access.KnownHosts = access.key, nil
		err := denied(t, at)
		if !strings.Contains(err.Why, ssh.FingerprintSHA256(s.HostKey)) || !strings.Contains(err.Hint, "ssh-keyscan -p ") {
			t.Errorf("got %#v", err)
		}
		if len(s.Commands()) != 0 {
			t.Error("the host was used")
		}
	})
	t.Run("a host whose key has changed is denied", func(t *testing.T) {
		s, access, at := start(t)
		_, other := writeKey(t, t.TempDir(), "other")
		text := strings.Replace(s.KnownHosts(), string(ssh.MarshalAuthorizedKey(s.HostKey)), string(ssh.MarshalAuthorizedKey(other)), 1)
		if text == s.KnownHosts() {
			t.Fatalf("the key is not in %q", text)
		}
		if err := os.WriteFile(access.knownHosts, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at.Access.SSHKey = access.key
		if err := denied(t, at); !strings.Contains(err.Why, "has changed") || !strings.Contains(err.Why, "Someone may be intercepting") {
			t.Errorf("got %#v", err)
		}
	})
	t.Run("a key that the host does not know is denied, and says what was tried", func(t *testing.T) {
		_, _, at := start(t)
		key, _ := writeKey(t, filepath.Dir(home("x")), "id_ed25519")
		private, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		block, err := ssh.MarshalPrivateKeyWithPassphrase(private, "", []byte("passphrase"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(home("id_rsa"), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		got := denied(t, at)
		if !strings.Contains(got.Hint, "tried "+key) || !strings.Contains(got.Hint, home("id_rsa")+" needs a passphrase: add it to the SSH agent") {
			t.Errorf("got %#v", got)
		}
	})
	t.Run("a key that is not there is said to be missing", func(t *testing.T) {
		_, _, at := start(t)
		at.Access.SSHKey = filepath.Join(t.TempDir(), "nowhere")
		if err := denied(t, at); !strings.Contains(err.Hint, "nowhere") {
			t.Errorf("got %#v", err)
		}
	})
	t.Run("a host that cannot be reached is an error", func(t *testing.T) {
		_, _, at := start(t)
		at.URL = "ssh://127.0.0.1:1/project.git"
		_, err := newFetcher(t).Resolve(t.Context(), at)
		var failed *source.FetchError
		if !errors.As(err, &failed) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a host that says nothing is given up", func(t *testing.T) {
		_, _, at := start(t)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		at.URL = "ssh://" + listener.Addr().String() + "/project.git"
		f := newFetcher(t)
		f.idle = 50 * time.Millisecond
		_, err = f.Resolve(t.Context(), at)
		if !errors.Is(err, errIdle) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a path is one word for the host's shell", func(t *testing.T) {
		for path, want := range map[string]string{"/a b": "'/a b'", "/it's": `'/it'\''s'`, "/$(x)`y`;z": "'/$(x)`y`;z'", "/a!b": `'/a'\!'b'`} {
			if got := shellQuote(path); got != want {
				t.Errorf("%s is quoted as %s, want %s", path, got, want)
			}
		}
	})
}
