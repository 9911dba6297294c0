package enginetest

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The user of Registry.
const (
	RegistryUser     = "rung"
	RegistryPassword = "letmein"
)

// Registry starts Distribution's registry at an address of this machine, without TLS. It has one user, and returns its host and port.
func Registry(t testing.TB, address string) string {
	t.Helper()
	program := Program(t, "docker-registry")
	listener, err := net.Listen("tcp4", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"users":      RegistryUser + ":$2b$04$IIYBAzT5DEx5S6HPdkuvNOo2/S2HAIx6bQgWBrRSbFPeMV0z2mLkG\n",
		"config.yml": fmt.Sprintf("version: 0.1\nlog: {level: warn}\nstorage: {inmemory: {}}\nhttp: {addr: %q}\nauth: {htpasswd: {realm: test, path: %q}}\n", address, filepath.Join(dir, "users")),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	said := &strings.Builder{}
	command := exec.Command(program, "serve", filepath.Join(dir, "config.yml"))
	command.Stdout, command.Stderr = said, said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	for until := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/v2/")
		if err == nil {
			_ = response.Body.Close()
			return address
		}
		if time.Now().After(until) {
			t.Fatalf("the registry does not start: %v", err)
		}
	}
}
