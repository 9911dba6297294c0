package git

import (
	"bytes"
	"crypto/sha1"
	"errors"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/source"
)

func TestAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"https://host/p":                 "https://host/p",
		"HTTPS://HOST/P/":                "https://host/P",
		"https://host:443/p.git":         "https://host/p.git",
		"http://host:8080/a%20b":         "http://host:8080/a%20b",
		"https://user:pass@host/p":       "https://host/p",
		"http://[::1]:80/p":              "http://[::1]/p",
		"ssh://git@host/g/p.git":         "ssh://git@host/g/p.git",
		"ssh://git@host:22/g/p.git":      "ssh://git@host/g/p.git",
		"ssh://git:pass@host:2222/p":     "ssh://git@host:2222/p",
		"ssh://host/~me/p":               "ssh://host/~me/p",
		"git+ssh://host/p":               "ssh://host/p",
		"git@host:g/p.git":               "git@host:g/p.git",
		"host:/srv/p.git":                "ssh://host/srv/p.git",
		"git@[::1]:p":                    "git@[::1]:p",
		"file:///srv/p.git":              "file:///srv/p.git",
		"file:///srv/../etc/a%20b/./p":   "file:///etc/a b/p",
		"file://localhost/srv/p.git":     "file:///srv/p.git",
		"/srv/p.git/":                    "file:///srv/p.git",
		"https://tok:PW@host/x.git":      "https://host/x.git",
		"https://host/group/sub/project": "https://host/group/sub/project",
	} {
		if runtime.GOOS == "windows" && strings.HasPrefix(want, "file:") {
			continue
		}
		a, err := parseAddress(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := a.url(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"":                         "no address",
		"-oProxyCommand=evil":      "begin with a dash",
		"ext::sh -c evil":          `the helper "ext"`,
		"fd::3":                    `the helper "fd"`,
		"git://host/p":             "neither encrypted nor authenticated",
		"ftp://host/p":             `not over "ftp"`,
		"ext://x/y":                `not over "ext"`,
		"ssh://-oProxyCommand=x/p": "begin with a dash",
		"ssh://-evil@host/p":       "begin with a dash",
		"-evil@host:p":             "begin with a dash",
		"host:-p":                  "begin with a dash",
		"git@-host:p":              "begin with a dash",
		"https://host":             "no repository",
		"https://host/":            "no repository",
		"https:///p":               "names no host",
		"https://host/p?x=y":       "neither a ? nor a #",
		"https://host/p#x":         "neither a ? nor a #",
		"https://host/a\nb":        "control characters",
		"ssh://host/a%0ab":         "control characters",
		"https://host:99999/p":     "port",
		"https://us er:pw@host/p":  "not a URL",
		"file://host/p":            "three slashes",
		"relative/path":            "neither a URL",
		"host":                     "neither a URL",
		"https://host/" + strings.Repeat("a", maxURL): "longer than",
	} {
		a, err := parseAddress(text)
		if err == nil {
			t.Errorf("%q is %s", text, a.url())
		} else if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestAnAddressThatCannotBeUsedIsDenied(t *testing.T) {
	for _, url := range []string{"ext::sh -c evil", "git://host/p"} {
		f := newFetcher(t)
		_, err := f.Resolve(t.Context(), location(url, "main"))
		var denied *source.DeniedError
		if !errors.As(err, &denied) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestRevisionsThatCannotBe(t *testing.T) {
	for rev, want := range map[string]string{
		"":                        "names no revision",
		"-x":                      "begin with a dash",
		"a..b":                    "ranges",
		"main@{yesterday}":        "times",
		"v1^{}":                   "cannot have",
		"HEAD~1":                  "cannot have",
		"a b":                     "cannot have",
		"a\nb":                    "cannot have",
		strings.Repeat("a", 2000): "longer than",
	} {
		_, err := newFetcher(t).Resolve(t.Context(), location("https://127.0.0.1:1/p", rev))
		var missing *source.NotFoundError
		if !errors.As(err, &missing) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", rev, err, want)
		}
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"https://u:p@host:1/p?x#y", "git@host:p", "ssh://host/~u/p", "file:///a/../b", "ext::sh", "[::1]:p", "/a/b", "a@b@c:d", "http://[::1%25eth0]/p"} {
		f.Add(seed, "main")
	}
	f.Fuzz(func(t *testing.T, text, rev string) {
		if checkRevision(rev) == nil && (rev == "" || rev[0] == '-' || strings.ContainsAny(rev, " \n\x00")) {
			t.Errorf("%q is taken for a revision", rev)
		}
		a, err := parseAddress(text)
		if err != nil {
			return
		}
		if a.scheme != "file" && (a.host == "" || a.host[0] == '-' || a.path == "" || a.path[0] == '-') {
			t.Errorf("%q is %+v", text, a)
		}
		url := a.url()
		if a.password != "" && len(a.password) > 8 && strings.Contains(url, a.password) && !strings.Contains(a.path+a.host+a.user, a.password) {
			t.Errorf("the password of %q is in %q", text, url)
		}
		again, err := parseAddress(url)
		if a.scheme == "file" && strings.ContainsAny(a.path, "%?#") || a.scheme == "ssh" {
			return // shown as it is, for people
		}
		if err != nil || again.url() != url {
			t.Errorf("%q is %q, which is %v, %v", text, url, again, err)
		}
	})
}

func FuzzReadRefs(f *testing.F) {
	f.Add([]byte("001e# service=git-upload-pack\n0000"), true)
	f.Add([]byte("003d"+strings.Repeat("ab", 20)+" refs/heads/main\x00\n0000"), false)
	f.Fuzz(func(t *testing.T, data []byte, overHTTP bool) {
		r, err := readRefs(newPackets(bytes.NewReader(data)), overHTTP)
		if err == nil && len(r.names) == 0 {
			t.Error("no refs, and no error")
		}
	})
}

func FuzzParseTree(f *testing.F) {
	f.Add([]byte("100644 a\x0012345678901234567890"))
	f.Add([]byte("40000 a/b\x0012345678901234567890"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseTree(data)
		if err != nil {
			return
		}
		for _, e := range entries {
			if checkName("folder", e.name) == nil && (strings.ContainsAny(e.name, "/\\\x00\n") || e.name == ".." || strings.EqualFold(e.name, ".git")) {
				t.Errorf("%q is taken for a name", e.name)
			}
		}
	})
}

func FuzzReceivePack(f *testing.F) {
	unsigned := func(pack []byte) []byte { return pack[:len(pack)-sha1.Size] }
	f.Add(unsigned(packOf(packed{typ: 3, content: []byte("x")})))
	f.Add(unsigned(packOf(packed{typ: 3, content: []byte("x")}, packed{typ: 7, content: []byte{1, 1, 1, 'x'}, base: unhex(nameOf("blob", []byte("x")))})))
	m, err := openMirror(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sum := sha1.Sum(data)
		got, err := receivePack(filepath.Join(m.dir, packsDir), bytes.NewReader(append(data, sum[:]...)), ofComponents, func(int64) {})
		if err == nil {
			_ = got.store(m.dir)
		}
	})
}
