package distribution

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/source"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"registry.example.com/a/b":            {"registry.example.com", "a/b"},
		"localhost:5000/a":                    {"localhost:5000", "a"},
		"[::1]:5000/a":                        {"[::1]:5000", "a"},
		"oci://host/a":                        {"host", "a"},
		"me:s3cr3t@host/a":                    {"host", "a"},
		"docker.io/alpine":                    {"docker.io", "library/alpine"}, // C124 Docker Hub
		"index.docker.io/alpine":              {"docker.io", "library/alpine"},
		"registry-1.docker.io/library/alpine": {"docker.io", "library/alpine"},
		"docker.io/me/tool":                   {"docker.io", "me/tool"},
	} {
		registry, name, err := Split(text)
		if err != nil || registry != want[0] || name != want[1] {
			t.Errorf("%s: %s, %s, %v", text, registry, name, err)
		}
	}
	for _, text := range []string{"", "host", "host/", "/a", "host/A", "host/a b", "host/a//b", "host/../a", "ho st/a", "host/a:1", "s3cr3t@/a"} {
		if _, _, err := Split(text); err == nil || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// hub has credentials for one registry, and notes what it was asked for.
type hub struct{ asked []string }

func (h *hub) Registry(_ context.Context, registry, repository string) (user, password string, ok bool, err error) {
	h.asked = append(h.asked, registry+" "+repository)
	return "me", "s3cr3t", true, nil
}

func TestDockerHub(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker.io/alpine", "index.docker.io/library/alpine", "registry-1.docker.io/library/alpine"} {
		t.Run("C124 Docker Hub as "+name, func(t *testing.T) {
			t.Parallel()
			h := &hub{}
			r, err := Open(context.Background(), Options{At: &source.Location{Name: name, URL: name}, Credentials: h})
			if err != nil {
				t.Fatal(err)
			}
			if r.base.String() != "https://registry-1.docker.io" || r.path("manifests", "1") != "/v2/library/alpine/manifests/1" {
				t.Error(r.base.String(), r.path("manifests", "1"))
			}
			if user, _, err := r.client.login(context.Background()); user != "me" || err != nil {
				t.Error(user, err)
			}
			if diff := cmp.Diff([]string{"docker.io library/alpine"}, h.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseChallenge(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Basic realm="a b"`: `basic map[realm:a b]`,
		`Bearer realm="https://h/t?x=1,2",service="s",scope="repository:a:pull,push"`: `bearer map[realm:https://h/t?x=1,2 scope:repository:a:pull,push service:s]`,
		`BEARER Realm="a\"b" , service=x`:                                             `bearer map[realm:a"b service:x]`,
		``:                                                                            ` map[]`,
		`Bearer realm="open`:                                                          `bearer map[realm:open]`,
		`Negotiate`:                                                                   `negotiate map[]`,
	} {
		scheme, params := parseChallenge(text)
		if got := fmt.Sprint(scheme, " ", params); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseChallenge(f *testing.F) {
	f.Add(`Bearer realm="https://h/t",service="s"`)
	f.Add(`Basic realm="\`)
	f.Fuzz(func(_ *testing.T, text string) { parseChallenge(text) })
}

func TestAPasswordIsNotSentWithoutEncryption(t *testing.T) {
	t.Parallel()
	var asked bool
	insecure := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer insecure.Close()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("WWW-Authenticate", `Bearer realm="`+insecure.URL+`"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer s.Close()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	loc := &source.Location{Name: "x", URL: u.Host + "/a", Access: source.Access{HTTP: s.Client()}}
	r, err := Open(context.Background(), Options{At: loc, Credentials: &hub{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(context.Background(), "1"); err == nil || asked || !strings.Contains(err.Error(), "without encryption") {
		t.Error(err, asked)
	}
}

func TestTagsComeInPages(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v2/a/tags/list":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Query().Get("last") == "":
			w.Header().Set("Link", `</v2/a/tags/list?last=2>; rel="next"`)
			_, _ = w.Write([]byte(`{"tags":["1","2"]}`))
		default:
			_, _ = w.Write([]byte(`{"tags":["3"]}`))
		}
	}))
	defer s.Close()
	for name, want := range map[string][]string{"a": {"1", "2", "3"}, "missing": nil} {
		loc := &source.Location{Name: "x", URL: strings.TrimPrefix(s.URL, "http://") + "/" + name, Access: source.Access{PlainHTTP: true}}
		r, err := Open(context.Background(), Options{At: loc})
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Tags(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDigests(t *testing.T) {
	t.Parallel()
	good := DigestOf([]byte("hello"))
	if good != "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" || good.Validate() != nil {
		t.Error(good)
	}
	for _, bad := range []Digest{"", "sha256:", "sha512:" + Digest(good.Hex()), good[:70], good + "0", Digest(strings.ToUpper(string(good))), "sha256:" + Digest(strings.ToUpper(good.Hex())), "sha256:../../../../../../../../../../../../../../../../../../../../etc/passw"} {
		if bad.Validate() == nil {
			t.Errorf("%q is taken for a digest", bad)
		}
	}
}

func TestWhatARegistrySaysShowsNoPartOfASecret(t *testing.T) {
	t.Parallel()
	masktest.Shortens(t, maxSaid, func(text string) string {
		return said(strings.NewReader(fmt.Sprintf(`{"errors": [{"message": %q}]}`, text)))
	})
}
