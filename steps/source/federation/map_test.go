package federation

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
	"github.com/rungci/rung/steps/plan"
	"github.com/rungci/rung/steps/source"
)

// world is a user's configuration folder and a project.
type world struct {
	dir  string
	opts Options
}

func newWorld(t testing.TB, user, project string, env ...string) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	w.opts = Options{ConfigDir: filepath.Join(w.dir, "config"), WorkDir: filepath.Join(w.dir, "project"), Home: filepath.Join(w.dir, "home"), Env: env, Version: "v1.2.3"}
	if user != "" {
		w.write(t, "config/rung/sources.toml", user)
	}
	if project != "" {
		w.write(t, "project/.rung/sources.toml", project)
	}
	return w
}

func (w *world) write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) load(t testing.TB) *Config {
	t.Helper()
	c, err := Load(w.opts)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// git, oci and archive are locations as the resolver makes them.
func git(url string) *source.Location {
	return &source.Location{Kind: plan.RefGit, Name: source.WithoutUserinfo(url), URL: url, Rev: "v1"}
}

func oci(image string) *source.Location {
	return &source.Location{Kind: plan.RefOCI, Name: "oci://" + image, URL: image, Rev: "1"}
}

func archive(url string) *source.Location {
	return &source.Location{Kind: plan.RefArchive, Name: source.WithoutUserinfo(url), URL: url}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	const simple = `[[source]]
match = "gitlab.com/"
replace = "http://127.0.0.1:8080/"
`
	for _, tc := range []struct {
		name, config string
		at           *source.Location
		want         string
		plain        bool
	}{
		{name: "at its simplest", config: simple, at: git("https://gitlab.com/group/project"), want: "http://127.0.0.1:8080/group/project"},
		{name: "a .git at the end stays", config: simple, at: git("https://gitlab.com/group/project.git"), want: "http://127.0.0.1:8080/group/project.git"},
		{name: "another host stays where it is", config: simple, at: git("https://gitlab.example/group/project"), want: "https://gitlab.example/group/project"},
		{name: "a host that ends alike stays", config: simple, at: git("https://notgitlab.com/group/project"), want: "https://notgitlab.com/group/project"},
		{name: "another port is another host", config: simple, at: git("https://gitlab.com:8443/g/p"), want: "https://gitlab.com:8443/g/p"},
		{name: "the scheme's own port is none", config: simple, at: git("https://gitlab.com:443/g/p"), want: "http://127.0.0.1:8080/g/p"},
		{name: "case does not count in hosts", config: simple, at: git("https://GitLab.com/Group/P"), want: "http://127.0.0.1:8080/Group/P"},
		{name: "nor does a dot at the end of one", config: simple, at: git("https://gitlab.com./g/p"), want: "http://127.0.0.1:8080/g/p"},
		{name: "over SSH", config: simple, at: git("ssh://git@gitlab.com/g/p.git"), want: "http://127.0.0.1:8080/g/p.git"},
		{name: "as SSH writes it", config: simple, at: git("git@gitlab.com:g/p.git"), want: "http://127.0.0.1:8080/g/p.git"},
		{name: "its author's credentials do not go along", config: simple, at: git("https://u:s3cr3t@gitlab.com/g/p"), want: "http://127.0.0.1:8080/g/p"},
		{name: "where nothing is mapped they stay", config: simple, at: git("https://u:s3cr3t@example.com/g/p"), want: "https://u:s3cr3t@example.com/g/p"},
		{name: "an archive keeps its query", config: simple, at: archive("https://gitlab.com/a/b%20c.zip?job=x"), want: "http://127.0.0.1:8080/a/b%20c.zip?job=x"},
		{name: "an image", config: simple, at: oci("gitlab.com/g/p"), want: "127.0.0.1:8080/g/p", plain: true},
		{name: "without a slash at the ends", config: "[[source]]\nmatch = \"gitlab.com\"\nreplace = \"https://mirror.example/x\"\n", at: git("https://gitlab.com/g/p"), want: "https://mirror.example/x/g/p"},
		{name: "a path is whole elements", config: "[[source]]\nmatch = \"gitlab.com/gro\"\nreplace = \"https://mirror.example\"\n", at: git("https://gitlab.com/group/p"), want: "https://gitlab.com/group/p"},
		{name: "a whole repository", config: "[[source]]\nmatch = \"gitlab.com/g/p\"\nreplace = \"https://mirror.example/q\"\n", at: git("https://gitlab.com/g/p.git"), want: "https://mirror.example/q"},
		{name: "to SSH", config: "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"ssh://git@h.example:2222/\"\n", at: git("https://gitlab.com/g/p"), want: "ssh://git@h.example:2222/g/p"},
		{name: "to a host without a scheme", config: "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"h.example/\"\n", at: git("https://gitlab.com/g/p"), want: "https://h.example/g/p"},
		{name: "an image to a folder of a registry", config: "[[source]]\nmatch = \"registry.example.com/\"\nreplace = \"127.0.0.1:5000/mirror/\"\n", at: oci("registry.example.com/g/p"), want: "127.0.0.1:5000/mirror/g/p"},
		{name: "an image over plain HTTP", config: "[[source]]\nmatch = \"registry.example.com/\"\nreplace = \"http://127.0.0.1:5000/mirror/\"\n", at: oci("registry.example.com/g/p"), want: "127.0.0.1:5000/mirror/g/p", plain: true},
		{name: "plain_http of the place itself", config: "[[source]]\nmatch = \"registry.example.com/\"\nplain_http = true\n", at: oci("registry.example.com/g/p"), want: "registry.example.com/g/p", plain: true},
		{name: "all hosts below one", config: "[[source]]\nmatch = \"*.example.com/\"\nreplace = \"https://m.example/\"\n", at: git("https://a.b.example.com/g/p"), want: "https://m.example/g/p"},
		{name: "which are not the one itself", config: "[[source]]\nmatch = \"*.example.com/\"\nreplace = \"https://m.example/\"\n", at: git("https://example.com/g/p"), want: "https://example.com/g/p"},
		{name: "the longest match", config: simple + "[[source]]\nmatch = \"gitlab.com/group/\"\nreplace = \"https://m.example/\"\n", at: git("https://gitlab.com/group/p"), want: "https://m.example/p"},
		{name: "a whole host before a part of one", config: "[[source]]\nmatch = \"*.com/\"\nreplace = \"https://m.example/\"\n" + simple, at: git("https://gitlab.com/g/p"), want: "http://127.0.0.1:8080/g/p"},
		{name: "is not followed twice", config: simple + "[[source]]\nmatch = \"127.0.0.1:8080/\"\nreplace = \"https://m.example/\"\n", at: git("https://gitlab.com/g/p"), want: "http://127.0.0.1:8080/g/p"},
		{name: "a match that maps nothing takes nothing back", config: simple + "[[source]]\nmatch = \"gitlab.com/group/\"\npinned = true\n", at: git("https://gitlab.com/group/p"), want: "http://127.0.0.1:8080/group/p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := newWorld(t, tc.config, "").load(t).Apply(tc.at); err != nil {
				t.Fatal(err)
			}
			if tc.at.URL != tc.want || tc.at.Access.PlainHTTP != tc.plain || tc.at.Access.HTTP == nil {
				t.Errorf("got %s (plain HTTP %v), want %s (%v)", tc.at.URL, tc.at.Access.PlainHTTP, tc.want, tc.plain)
			}
		})
	}
}

func TestReplaceByAFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", "")
	for _, dir := range []string{"g/plain/x", "g/bare.git/x", "g/none/x"} {
		w.write(t, "srv/"+dir, "")
	}
	srv := filepath.Join(w.dir, "srv")
	w.write(t, "config/rung/sources.toml", "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \""+fileURL(srv)+"/\"\n[[source]]\nmatch = \"relative.example/\"\nreplace = \"../../srv/\"\n")
	c := w.load(t)
	for _, tc := range []struct {
		at   *source.Location
		want string
	}{
		{git("https://gitlab.com/g/plain"), "g/plain"},
		{git("https://gitlab.com/g/plain.git"), "g/plain"},
		{git("https://gitlab.com/g/bare"), "g/bare.git"},
		{git("https://gitlab.com/g/bare.git"), "g/bare.git"},
		{git("https://gitlab.com/g/missing"), "g/missing"},
		{git("https://relative.example/g/bare"), "g/bare.git"},
		{archive("https://gitlab.com/g/a%20b.zip?x=y"), "g/a b.zip"},
	} {
		if _, err := c.Apply(tc.at); err != nil {
			t.Fatal(err)
		}
		if want := fileURL(filepath.Join(srv, filepath.FromSlash(tc.want))); tc.at.URL != want {
			t.Errorf("%s leads to %s, want %s", tc.at.Name, tc.at.URL, want)
		}
	}
}

func TestWhatCannotBeFetchedFromAPlaceIsAnErrorAtItsLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		replace string
		at      *source.Location
	}{
		{"file:///srv/", oci("gitlab.com/g/image")},
		{"ssh://git@h.example/", oci("gitlab.com/g/image")},
		{"ssh://git@h.example/", archive("https://gitlab.com/g/a.zip")},
	} {
		_, err := newWorld(t, "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \""+tc.replace+"\"\n", "").load(t).Apply(tc.at)
		if list := diag.Of(err); len(list) != 1 || list[0].Line != 3 {
			t.Errorf("%s to %s: %v", tc.at.Name, tc.replace, err)
		}
	}
}

func TestANameCannotLeaveWhatItIsMappedTo(t *testing.T) {
	t.Parallel()
	c := newWorld(t, "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"file:///srv/steps/\"\n", "").load(t)
	for _, url := range []string{"https://gitlab.com/../../etc", "https://gitlab.com/a/%2e%2e/%2e%2e/etc", "https://gitlab.com/a%2f..%2f..%2fb", "https://gitlab.com/a\\..\\b", "https://gitlab.com/%zz"} {
		var denied *source.DeniedError
		if _, err := c.Apply(git(url)); !errors.As(err, &denied) {
			t.Errorf("%s: %v, want a refusal", url, err)
		}
	}
}

func TestTheProjectsFileAndTheUsers(t *testing.T) {
	t.Parallel()
	entry := func(match, replace string) string {
		return "[[source]]\nmatch = \"" + match + "\"\nreplace = \"" + replace + "\"\n"
	}
	for _, tc := range []struct{ name, user, project, want string }{
		{"the user's alone", entry("a.example", "https://user.example"), "", "https://user.example/g/p"},
		{"the project's alone", "", entry("a.example", "https://project.example"), "https://project.example/g/p"},
		{"the project's when both are as long", entry("a.example", "https://user.example"), entry("a.example", "https://project.example"), "https://project.example/g/p"},
		{"the user's when it is longer", entry("a.example/g", "https://user.example"), entry("a.example", "https://project.example"), "https://user.example/p"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			at := git("https://a.example/g/p")
			if _, err := newWorld(t, tc.user, tc.project).load(t).Apply(at); err != nil {
				t.Fatal(err)
			}
			if at.URL != tc.want {
				t.Errorf("got %s, want %s", at.URL, tc.want)
			}
		})
	}
	t.Run("a file that is named is read alone, and as the user's own", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, entry("a.example", "https://user.example"), entry("a.example", "https://project.example"), "PW=s3cr3t")
		w.opts.File = w.write(t, "mine.toml", "[[source]]\nmatch = \"a.example\"\nusername = \"me\"\npassword_env = \"PW\"\n")
		c, at := w.load(t), git("https://a.example/g/p")
		if _, err := c.Apply(at); err != nil {
			t.Fatal(err)
		}
		if at.URL != "https://a.example/g/p" || at.Access.Username != "me" || at.Access.Password != "s3cr3t" {
			t.Errorf("got %s with %s", at.URL, at.Access.Username)
		}
		if diff := cmp.Diff([]string{w.opts.File}, c.Files()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("a file that is named and not there is an error", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "", "")
		w.opts.File = filepath.Join(w.dir, "none.toml")
		if _, err := Load(w.opts); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("no file at all", func(t *testing.T) {
		t.Parallel()
		at := git("https://a.example/g/p")
		trust, err := newWorld(t, "", "").load(t).Apply(at)
		if err != nil || at.URL != "https://a.example/g/p" || at.Access.HTTP == nil || trust.Verify != nil || trust.Pinned {
			t.Errorf("%+v, %v", at, err)
		}
	})
}

func TestSettingsOfAccess(t *testing.T) {
	t.Parallel()
	config := `
[[source]]
match = "gitlab.com/"
replace = "https://mirror.example/"
submodules = true
refresh = "1h"

[[source]]
match = "gitlab.com/group/"
refresh = "0s"

[[source]]
match = "mirror.example"
token_file = "token"
ssh_key = "~/.ssh/id"
known_hosts = "hosts"
`
	w := newWorld(t, config, "")
	w.write(t, "config/rung/token", "s3cr3t\n")
	at := git("https://gitlab.com/g/p")
	trust, err := w.load(t).Apply(at)
	if err != nil {
		t.Fatal(err)
	}
	at.Access.HTTP = nil
	want := source.Access{
		Username: "oauth2", Password: "s3cr3t", Submodules: true,
		SSHKey: filepath.Join(w.opts.Home, ".ssh/id"), KnownHosts: []string{filepath.Join(w.dir, "config/rung/hosts")},
	}
	if diff := cmp.Diff(want, at.Access); diff != "" {
		t.Error(diff)
	}
	if trust.Refresh != time.Hour {
		t.Errorf("names are believed for %s, want an hour", trust.Refresh)
	}
}

func TestCredentialsGoWithThePlaceAndNotTheName(t *testing.T) {
	t.Parallel()
	user := "[[source]]\nmatch = \"gitlab.com/\"\nusername = \"me\"\npassword_env = \"PW\"\n"
	project := "[[source]]\nmatch = \"gitlab.com/\"\nreplace = \"https://elsewhere.example/\"\n"
	at := git("https://gitlab.com/g/p")
	if _, err := newWorld(t, user, project, "PW=s3cr3t").load(t).Apply(at); err != nil {
		t.Fatal(err)
	}
	if at.Access.Username != "" || at.Access.Password != "" {
		t.Errorf("elsewhere.example is given the credentials for gitlab.com")
	}
}

func TestAPasswordThatCannotBeHad(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ line, want string }{
		"a variable that is not set": {`password_env = "NO_SUCH"`, "NO_SUCH"},
		"a variable that is empty":   {`token_env = "EMPTY"`, "EMPTY"},
		"a file that is not there":   {`password_file = "none"`, "none"},
		"a file with two lines":      {`password_file = "two"`, "one line"},
		"an empty file":              {`token_file = "empty"`, "one line"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "[[source]]\nmatch = \"a.example\"\n"+tc.line+"\n", "", "EMPTY=")
			w.write(t, "config/rung/two", "s3cr3t\ns3cr3t\n")
			w.write(t, "config/rung/empty", "")
			_, err := w.load(t).Apply(git("https://a.example/p"))
			if err == nil || !strings.Contains(err.Error(), "sources.toml:3:") || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("got %v", err)
			}
		})
	}
}
