package secrets

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/programtest"
	"github.com/rungci/rung/steps/catalog/transfer"
)

// TestMain lets clients wait for nothing.
func TestMain(m *testing.M) {
	clientHook = func(c *transfer.Client) { c.Wait = func(context.Context, time.Duration) error { return nil } }
	os.Exit(m.Run())
}

// inputs are those of a step that reads ops/production/db, with others over them.
func inputs(address string, more map[string]any) map[string]any {
	in := map[string]any{
		"server": address, "namespace": "", "ca_file": "", "jwt": identity, "auth_path": "gitlab/ci", "role": "deploy", "engine": "kv-v2", "engine_path": "ops",
		"path": "production/db", "field": "password", "file": false, "folder": "", "name": "",
	}
	maps.Copy(in, more)
	return in
}

var whole = []string{"POST /v1/auth/gitlab/ci/login", "GET /v1/ops/data/production/db", "POST /v1/auth/token/revoke-self"}

func TestASecretIsRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		server *server
		in     map[string]any
		want   string
	}{
		"of kv-v2, as it is":              {want: "pa$$ word\n"},
		"a number as it is written":       {in: map[string]any{"field": "big"}, want: "12345678901234567890"},
		"a truth value as JSON":           {in: map[string]any{"field": "open"}, want: "true"},
		"a list as JSON":                  {in: map[string]any{"field": "hosts"}, want: `["a","b"]`},
		"of kv-v1":                        {in: map[string]any{"engine": "kv-v1", "engine_path": "old", "path": "db"}, want: "from before"},
		"of a generic engine":             {in: map[string]any{"engine": "generic", "engine_path": "database", "path": "creds/app"}, want: "made now"},
		"by the default role":             {in: map[string]any{"role": ""}, want: "pa$$ word\n"},
		"in a namespace":                  {server: &server{namespace: "team/a"}, in: map[string]any{"namespace": "team/a/"}, want: "pa$$ word\n"},
		"with slashes at the paths' ends": {in: map[string]any{"auth_path": "/gitlab/ci/", "engine_path": "ops/", "path": "/production/db/"}, want: "pa$$ word\n"},
		"whose path has odd characters":   {in: map[string]any{"path": "a b/ü?"}, want: "odd"},
		"with space around the token":     {in: map[string]any{"jwt": identity + "\n"}, want: "pa$$ word\n"},
		"from a server that is busy":      {server: &server{broken: 2}, want: "pa$$ word\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.server == nil {
				tc.server = &server{}
			}
			r := programtest.Run(t, Vault, t.TempDir(), inputs(start(t, tc.server), tc.in))
			if r.Err != nil || r.Outputs["value"].Str() != tc.want || len(r.Exports) > 0 {
				t.Errorf("%q, %v, %v\n%s", r.Outputs["value"].Str(), r.Exports, r.Err, r.Log)
			}
			hidden(t, r, tc.want)
		})
	}
}

// hidden checks that neither the log nor the error holds what must be in neither.
func hidden(t *testing.T, r *programtest.Result, secrets ...string) {
	t.Helper()
	text := r.Log
	if r.Err != nil {
		text += r.Err.Error()
	}
	for _, secret := range append(secrets, identity, longLived) {
		if secret = strings.TrimSpace(secret); len(secret) > 4 && strings.Contains(text, secret) {
			t.Errorf("%q is shown: %s", secret, text)
		}
	}
}

func TestTheTokenIsRevoked(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, s *server, more map[string]any) *programtest.Result {
		t.Helper()
		r := programtest.Run(t, Vault, t.TempDir(), inputs(start(t, s), more))
		hidden(t, r)
		return r
	}
	t.Run("at the end", func(t *testing.T) {
		t.Parallel()
		s := &server{}
		if r := run(t, s, nil); r.Err != nil || s.live() {
			t.Errorf("%v", r.Err)
		}
		if diff := cmp.Diff(whole, s.calls()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("also when the secret is not there", func(t *testing.T) {
		t.Parallel()
		s := &server{}
		if r := run(t, s, map[string]any{"path": "nothing"}); r.Err == nil || s.live() {
			t.Errorf("%v", r.Err)
		}
	})
	t.Run("but not one of a batch, which cannot be", func(t *testing.T) {
		t.Parallel()
		s := &server{batch: true}
		if r := run(t, s, nil); r.Err != nil || strings.Contains(r.Log, "warning") || len(s.calls()) != 2 {
			t.Errorf("%v %q\n%s", r.Err, s.calls(), r.Log)
		}
	})
	t.Run("but not one that a secret made on demand ends with", func(t *testing.T) {
		t.Parallel()
		s := &server{}
		r := run(t, s, map[string]any{"engine": "generic", "engine_path": "database", "path": "creds/app"})
		if r.Err != nil || !s.live() || len(s.calls()) != 2 {
			t.Errorf("%v %q", r.Err, s.calls())
		}
	})
	t.Run("and that it is not is a warning", func(t *testing.T) {
		t.Parallel()
		r := run(t, &server{noRevoke: true}, nil)
		if r.Err != nil || !strings.Contains(r.Log, "warning: the token is not revoked, and expires in 15m0s: ") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
}

func TestWhereASecretGoes(t *testing.T) {
	t.Parallel()
	address := start(t, &server{})
	t.Run("into a variable, and into the output by which it is masked", func(t *testing.T) {
		t.Parallel()
		r := programtest.Run(t, Vault, t.TempDir(), inputs(address, map[string]any{"name": "DB_PASSWORD"}))
		if r.Err != nil || r.Exports["DB_PASSWORD"] != "pa$$ word\n" || r.Outputs["value"].Str() != "pa$$ word\n" {
			t.Errorf("%v %v", r.Exports, r.Err)
		}
	})
	t.Run("into a file for this user alone, whose path is the variable", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		r := programtest.Run(t, Vault, dir, inputs(address, map[string]any{"name": "DB_PASSWORD", "file": true, "folder": "tmp/files"}))
		want := filepath.Join(dir, "tmp", "files", "DB_PASSWORD")
		if r.Err != nil || r.Exports["DB_PASSWORD"] != want || r.Outputs["path"].Str() != want || r.Outputs["value"].Str() != "pa$$ word\n" {
			t.Fatalf("%v %v", r.Exports, r.Err)
		}
		checkFile(t, want)
	})
	t.Run("into a file without a name in the folder for temporary files", func(t *testing.T) {
		t.Parallel()
		temp := t.TempDir()
		r := programtest.Run(t, Vault, t.TempDir(), inputs(address, map[string]any{"file": true}), "TMPDIR="+temp)
		path := r.Outputs["path"].Str()
		if r.Err != nil || filepath.Dir(path) != temp || len(r.Exports) > 0 {
			t.Fatalf("%q %v", path, r.Err)
		}
		checkFile(t, path)
	})
	t.Run("in place of a link, not to where it leads", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		programtest.Write(t, dir, map[string]string{"elsewhere": "kept", "tmp/": ""})
		if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "tmp", "KEY")); err != nil {
			t.Skipf("needs symbolic links: %v", err)
		}
		r := programtest.Run(t, Vault, dir, inputs(address, map[string]any{"name": "KEY", "file": true, "folder": "tmp"}))
		if text, err := os.ReadFile(filepath.Join(dir, "elsewhere")); r.Err != nil || err != nil || string(text) != "kept" {
			t.Errorf("%q %v %v", text, err, r.Err)
		}
		checkFile(t, filepath.Join(dir, "tmp", "KEY"))
	})
	t.Run("one that is too short to be masked is a warning", func(t *testing.T) {
		t.Parallel()
		r := programtest.Run(t, Vault, t.TempDir(), inputs(address, map[string]any{"field": "pin"}))
		if r.Err != nil || !strings.Contains(r.Log, "cannot be masked") || strings.Contains(r.Log, "123") {
			t.Errorf("%v\n%s", r.Err, r.Log)
		}
	})
}

func checkFile(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "pa$$ word\n" {
		t.Errorf("%q %v", text, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestErrorsSayWhatAndWhere(t *testing.T) {
	t.Parallel()
	address := start(t, &server{})
	for name, tc := range map[string]struct {
		in   map[string]any
		want []string
	}{
		"a role that is not there": {map[string]any{"role": "admin"}, []string{
			"logging in to " + address + ` at gitlab/ci with the role "admin": POST `, "400 Bad Request", `role "admin" could not be found`}},
		"a token that is refused":         {map[string]any{"jwt": "a.wrong.token"}, []string{"400", "invalid signature of [MASKED]"}},
		"another place of authentication": {map[string]any{"auth_path": "jwt"}, []string{"403", "permission denied"}},
		"a secret that may not be read": {map[string]any{"path": "forbidden"}, []string{
			"the secret ops/forbidden of " + address + `, with the role "deploy": GET `, "403 Forbidden: 1 error occurred:  * permission denied", "policies"}},
		"a secret that is not there":  {map[string]any{"path": "nothing"}, []string{"the secret ops/nothing of ", "404", "there is no such secret"}},
		"a secret that is deleted":    {map[string]any{"path": "deleted"}, []string{"404", "its latest version is deleted"}},
		"a field that is not there":   {map[string]any{"field": "user"}, []string{`it has no field "user"; there are "big", "hosts"`}},
		"a field without a value":     {map[string]any{"field": "none"}, []string{`its field "none" is null`}},
		"an engine of kv-v1 as kv-v2": {map[string]any{"engine_path": "old", "path": "db"}, []string{"the answer is not that of the engine kv-v2; is it kv-v1?"}},
		"an engine of kv-v2 as kv-v1": {map[string]any{"engine": "kv-v1"}, []string{"404"}},
		"an answer that is not JSON":  {map[string]any{"engine": "generic", "engine_path": "html", "path": "x"}, []string{"404"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := programtest.Run(t, Vault, t.TempDir(), inputs(address, tc.in))
			if r.Err == nil || len(r.Outputs)+len(r.Exports) > 0 {
				t.Fatalf("no error; outputs %v", r.Outputs)
			}
			for _, want := range tc.want {
				if !strings.Contains(r.Err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, r.Err)
				}
			}
			hidden(t, r, "pa$$ word", "a.wrong.token")
		})
	}
}

func TestInputsThatCannotBe(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   map[string]any
		want string
	}{
		"no address":                 {map[string]any{"server": "vault.example.com"}, "server must be an address"},
		"an address with a password": {map[string]any{"server": "https://user:secret1@vault.example.com"}, "server must be an address without user"},
		"a way up in a path":         {map[string]any{"path": "../../sys/mounts"}, `path is "../../sys/mounts"; it must be names`},
		"an empty name in a path":    {map[string]any{"engine_path": "a//b"}, `engine_path is "a//b"`},
		"no path":                    {map[string]any{"path": "/"}, `path is ""`},
		"no token":                   {map[string]any{"jwt": " "}, "jwt is empty"},
		"no field":                   {map[string]any{"field": ""}, "field is empty"},
		"a name that leads out":      {map[string]any{"name": "../x", "file": true}, `the name "../x" is none for a variable`},
		"a name with a digit first":  {map[string]any{"name": "1X"}, "is none for a variable"},
		"no file of certificates":    {map[string]any{"ca_file": "none.pem"}, "ca_file: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := programtest.Run(t, Vault, t.TempDir(), inputs("https://vault.example.com", tc.in))
			if r.Err == nil || !strings.Contains(r.Err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", r.Err, tc.want)
			}
			hidden(t, r, "secret1")
		})
	}
}

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	answer := func(status int, header, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if name, v, ok := strings.Cut(header, ": "); ok {
				w.Header().Set(name, v)
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		want    string
		down    bool
	}{
		"one that is not a Vault":          {answer(200, "", "<html>hello"), "the answer is not JSON; is this the address of a Vault server?", false},
		"one without a token":              {answer(200, "", `{"data":{}}`), "the server answers without a token", false},
		"one that wants a second factor":   {answer(200, "", `{"auth":{"client_token":"","mfa_requirement":{"mfa_request_id":"1"}}}`), "a second factor", false},
		"one that answers without an end":  {answer(200, "", strings.Repeat(" ", maxAnswer+1)), "the answer is longer than", false},
		"one that is broken and stays so":  {answer(500, "", `{"errors":["internal error"]}`), "500 Internal Server Error: internal error", true},
		"one that sends us somewhere else": {answer(307, "Location: https://other.example/v1/auth/gitlab/ci/login", ""), "it sends us on to https://other.example: give that address", false},
		"one that is not there":            {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := httptest.NewServer(tc.handler)
			defer h.Close()
			r := programtest.Run(t, Vault, t.TempDir(), inputs(h.URL, nil))
			if r.Err == nil || !strings.Contains(r.Err.Error(), tc.want) {
				t.Errorf("the error is %v, want %q", r.Err, tc.want)
			}
			if down := errors.As(r.Err, new(*program.UnavailableError)); down != tc.down {
				t.Errorf("the server is to blame: %v, want %v", down, tc.down)
			}
			hidden(t, r)
		})
	}
}

func TestARedirectOnTheSameServerIsFollowed(t *testing.T) {
	t.Parallel()
	s := &server{t: t}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := strings.CutPrefix(r.URL.Path, "/front/"); ok {
			http.Redirect(w, r, "/"+path, http.StatusTemporaryRedirect)
			return
		}
		s.ServeHTTP(w, r)
	}))
	defer h.Close()
	r := programtest.Run(t, Vault, t.TempDir(), inputs(h.URL+"/front/", nil))
	if r.Err != nil || r.Outputs["value"].Str() != "pa$$ word\n" || !slices.Equal(s.calls(), whole) {
		t.Errorf("%v %q", r.Err, s.calls())
	}
}

func TestCertificatesOfAFileAreTrusted(t *testing.T) {
	t.Parallel()
	s := &server{t: t}
	h := httptest.NewUnstartedServer(s)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	defer h.Close()
	dir := t.TempDir()
	programtest.Write(t, dir, map[string]string{
		"ca.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})),
		"empty.pem": "nothing\n",
	})
	if r := programtest.Run(t, Vault, dir, inputs(h.URL, map[string]any{"ca_file": "ca.pem"})); r.Err != nil {
		t.Error(r.Err)
	}
	if r := programtest.Run(t, Vault, dir, inputs(h.URL, nil)); r.Err == nil || !strings.Contains(r.Err.Error(), "certificate") {
		t.Errorf("a server of nobody's is trusted: %v", r.Err)
	}
	if r := programtest.Run(t, Vault, dir, inputs(h.URL, map[string]any{"ca_file": "empty.pem"})); r.Err == nil || !strings.Contains(r.Err.Error(), "no certificate") {
		t.Errorf("the error is %v", r.Err)
	}
}

func TestPlainHTTPToAnotherMachineIsAWarning(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := programtest.RunContext(t, ctx, Vault, t.TempDir(), inputs("http://vault.example.com", nil))
	if !strings.Contains(r.Log, "warning: http://vault.example.com is not encrypted") || r.Err == nil {
		t.Errorf("%v\n%s", r.Err, r.Log)
	}
}
