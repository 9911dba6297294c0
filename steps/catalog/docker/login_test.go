package docker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/rungci/rung/steps/catalog/docker"
	"github.com/rungci/rung/steps/catalog/program"
)

const password = "correct-horse-battery"

// newCall makes a call with the inputs over the defaults of a func.yml.
func newCall(t *testing.T, defaults, inputs map[string]any, env ...string) (*program.Call, *bytes.Buffer) {
	t.Helper()
	all := map[string]any{}
	for _, m := range []map[string]any{defaults, inputs} {
		for name, v := range m {
			all[name] = v
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	c := &program.Call{
		Inputs: text, WorkDir: dir, Stdout: &out, Stderr: &out,
		Env:        append([]string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, env...),
		OutputFile: filepath.Join(t.TempDir(), "out"), ExportFile: filepath.Join(t.TempDir(), "export"),
	}
	for _, file := range []string{c.OutputFile, c.ExportFile} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c, &out
}

var loginDefaults = map[string]any{"registry": "docker.io", "username": "", "password": "", "auth_config": "", "check": true}

// basicRegistry is a registry that asks for a password itself.
func basicRegistry(t *testing.T) string {
	t.Helper()
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "me" || given != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// tokenRegistry is one that sends clients to a token server, which asks for the password.
func tokenRegistry(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("/v2/", func(w http.ResponseWriter, r *http.Request) {
		if _, given, ok := r.BasicAuth(); ok || given != "" {
			t.Error("the password was shown to the registry, which did not ask for it")
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="it, self"`, server.URL))
		w.WriteHeader(http.StatusUnauthorized)
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, r *http.Request) {
		if user, given, _ := r.BasicAuth(); user != "me" || given != password || r.URL.Query().Get("service") != "it, self" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"token":"t"}`)
	})
	return strings.TrimPrefix(server.URL, "http://")
}

// configured returns the folder that the call exports, and the entries in it.
func configured(t *testing.T, c *program.Call) map[string]any {
	t.Helper()
	exports, err := os.ReadFile(c.ExportFile)
	if err != nil {
		t.Fatal(err)
	}
	var folder string
	for line := range strings.Lines(string(exports)) {
		var e struct{ Name, Value string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Name == "DOCKER_CONFIG" {
			folder = e.Value
		}
	}
	file := filepath.Join(folder, "config.json")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	text, _ := os.ReadFile(file)
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestLogin(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) string{"basic": basicRegistry, "token": tokenRegistry} {
		t.Run("a password that the registry accepts is kept, with the log-in "+name, func(t *testing.T) {
			t.Parallel()
			host := start(t)
			c, out := newCall(t, loginDefaults, map[string]any{"registry": host, "username": "me", "password": password})
			if err := docker.Login(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			auths := configured(t, c)["auths"].(map[string]any)
			if auths[host] == nil {
				t.Errorf("the entries are %v", auths)
			}
			if strings.Contains(out.String(), password) {
				t.Error("the log holds the password")
			}
		})
		t.Run("one that it does not accept is an error, with the log-in "+name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCall(t, loginDefaults, map[string]any{"registry": start(t), "username": "me", "password": "wrong-one"})
			err := docker.Login(t.Context(), c)
			if err == nil || !strings.Contains(err.Error(), "does not accept the password of me") || strings.Contains(err.Error(), "wrong-one") {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("keeps what an earlier login of the run has left", func(t *testing.T) {
		t.Parallel()
		earlier := t.TempDir()
		if err := os.WriteFile(filepath.Join(earlier, "config.json"), []byte(`{"auths":{"one.example.com":{"auth":"eDp5"}},"credsStore":"x"}`), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _ := newCall(t, loginDefaults, map[string]any{"registry": "two.example.com", "username": "me", "password": password, "check": false}, "DOCKER_CONFIG="+earlier)
		if err := docker.Login(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		config := configured(t, c)
		if auths := config["auths"].(map[string]any); len(auths) != 2 || config["credsStore"] != "x" {
			t.Errorf("the configuration is %v", config)
		}
	})
	t.Run("Docker's own registry has the name that docker looks for", func(t *testing.T) {
		t.Parallel()
		c, _ := newCall(t, loginDefaults, map[string]any{"username": "me", "password": password, "check": false})
		if err := docker.Login(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if auths := configured(t, c)["auths"].(map[string]any); auths["https://index.docker.io/v1/"] == nil {
			t.Errorf("the entries are %v", auths)
		}
	})
	t.Run("a whole configuration is taken as it is", func(t *testing.T) {
		t.Parallel()
		c, _ := newCall(t, loginDefaults, map[string]any{"auth_config": `{"auths":{"a.example.com":{"auth":"eDp5"}}}`})
		if err := docker.Login(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if auths := configured(t, c)["auths"].(map[string]any); auths["a.example.com"] == nil {
			t.Errorf("the entries are %v", auths)
		}
	})
	for name, in := range map[string]map[string]any{
		"no password":                         {"username": "me"},
		"a configuration that is none":        {"auth_config": "s3cret{"},
		"a configuration and a password":      {"auth_config": "{}", "username": "me", "password": "p"},
		"a registry with a password in it":    {"registry": "a:b@host", "username": "me", "password": "p", "check": false},
		"a registry that cannot be reached":   {"registry": "127.0.0.1:1", "username": "me", "password": "p"},
		"a configuration whose auths are odd": {"auth_config": `{"auths": "s3cret"}`},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			t.Parallel()
			c, _ := newCall(t, loginDefaults, in)
			if err := docker.Login(t.Context(), c); err == nil || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
