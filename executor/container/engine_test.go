package container

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/container/engine"
)

// fakeEngine answers pings on a unix socket, as far as Detect asks.
func fakeEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rung-engine-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "docker.sock"))
	if err != nil {
		t.Skipf("needs unix sockets: %v", err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		w.Header().Set("Ostype", "linux")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + listener.Addr().String()
}

// writeFile writes a file below dir.
func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// writeContext makes a Docker context.
func writeContext(t *testing.T, dir, name, host string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	writeFile(t, dir, filepath.Join("contexts", "meta", hex.EncodeToString(sum[:]), "meta.json"), `{"Name":"`+name+`","Endpoints":{"docker":{"Host":"`+host+`"}}}`)
}

func TestDetect(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs unix sockets")
	}
	host := fakeEngine(t)
	config, empty := t.TempDir(), t.TempDir()
	writeContext(t, config, "mine", host)
	writeFile(t, config, "config.json", `{"currentContext":"mine"}`)
	runtimeDir := filepath.Dir(strings.TrimPrefix(host, "unix://"))
	for _, c := range []struct {
		name, from string
		env        []string
	}{
		{"by DOCKER_HOST", "DOCKER_HOST", []string{"DOCKER_HOST=" + host, "DOCKER_CONFIG=" + config}},
		{"by CONTAINER_HOST", "CONTAINER_HOST", []string{"CONTAINER_HOST=" + host, "DOCKER_CONFIG=" + empty}},
		{"by DOCKER_CONTEXT", "the Docker context mine", []string{"DOCKER_CONTEXT=mine", "DOCKER_CONFIG=" + config}},
		{"by Docker's current context", "the Docker context mine", []string{"DOCKER_CONFIG=" + config}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Detect(t.Context(), c.env)
			if err != nil || e.Host != host || e.From != c.from {
				t.Errorf("%+v %v", e, err)
			}
		})
	}
	t.Run("where rootless Docker listens", func(t *testing.T) {
		for _, place := range engine.Usual([]string{"XDG_RUNTIME_DIR=" + runtimeDir, "HOME=" + empty}) {
			if place.Host == host && place.Exists() && at(&place).ping(t.Context(), time.Minute) == nil {
				return
			}
		}
		t.Error("it is not found")
	})
	for _, c := range []struct {
		name, part string
		env        []string
	}{
		{"a named engine that does not answer is not replaced", "DOCKER_HOST names", []string{"DOCKER_HOST=unix:///nowhere/docker.sock", "XDG_RUNTIME_DIR=" + runtimeDir}},
		{"a context that is not there", "docker context ls", []string{"DOCKER_CONTEXT=other", "DOCKER_CONFIG=" + config}},
		{"ssh", "ssh", []string{"DOCKER_HOST=ssh://ann:secret@host"}},
		{"an address that is none", "nonsense", []string{"DOCKER_HOST=nonsense"}},
	} {
		t.Run(c.name+" is an error", func(t *testing.T) {
			e, err := Detect(t.Context(), c.env)
			if !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%v %v", e, err)
			}
		})
	}
}

func TestAnEngineThatTheConfigurationNamesIsCalledByItsKey(t *testing.T) {
	setup := executor.Setup{Env: []string{"DOCKER_HOST=tcp://127.0.0.1:1"}, EngineFrom: "runners.docker.host", State: t.TempDir()}
	_, err := New(t.Context(), setup, Options{})
	if !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), "at tcp://127.0.0.1:1, which runners.docker.host names") || strings.Contains(err.Error(), "DOCKER_HOST") {
		t.Error(err)
	}
	setup.HostEnv = []string{"DOCKER_HOST=tcp://127.0.0.1:2"} // it comes first, and no key has named it
	if _, err = New(t.Context(), setup, Options{}); err == nil || !strings.Contains(err.Error(), "at tcp://127.0.0.1:2, which DOCKER_HOST names") {
		t.Error(err)
	}
}

func TestAnEngineThatHangsIsGivenUp(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs unix sockets")
	}
	dir, err := os.MkdirTemp("", "rung-hang-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	listener, err := net.Listen("unix", filepath.Join(dir, "s")) // nobody accepts
	if err != nil {
		t.Skipf("needs unix sockets: %v", err)
	}
	defer listener.Close()
	e := &Engine{Host: "unix://" + listener.Addr().String()}
	if err := e.ping(t.Context(), 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not answer within 10ms") {
		t.Error(err)
	}
}
