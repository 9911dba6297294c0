package signature_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script writes the shell script of docs/signatures.md whose second line begins as given into dir.
func script(t *testing.T, dir, begins string) string {
	t.Helper()
	for _, program := range []string{"sh", "openssl", "sha256sum", "grep", "sed"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("needs %s", program)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "signatures.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(page), "\r\n", "\n")
	_, rest, found := strings.Cut(text, "```sh\n#!/bin/sh\n# "+begins)
	body, _, closed := strings.Cut(rest, "\n```")
	if !found || !closed {
		t.Fatalf("docs/signatures.md has no script %q", begins)
	}
	name := filepath.Join(dir, strings.Fields(begins)[0])
	write(t, name, "#!/bin/sh\n# "+begins+body+"\n", 0o700)
	return name
}

func write(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestOpenSSLAloneVerifies runs the script that the documents give to those who have no other verifier.
func TestOpenSSLAloneVerifies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	verify := script(t, dir, "verify.sh")
	other, key := newKey(t, "ed25519"), newKey(t, "ECDSA P-256")
	public, err := key.Public().MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "key.pub"), string(public), 0o600)
	const payload = `{"_type":"x","a":"ü"}`
	envelope := string(signed(t, payload, other, key).Encode())
	run := func(text string) (string, error) {
		write(t, filepath.Join(dir, "e.dsse"), text, 0o600)
		out, err := exec.Command("sh", verify, filepath.Join(dir, "e.dsse"), filepath.Join(dir, "key.pub")).Output()
		return string(out), err
	}
	if out, err := run(envelope); err != nil || out != payload {
		t.Errorf("it prints %q, %v", out, err)
	}
	if out, err := run(strings.Replace(envelope, `"payload":"e`, `"payload":"f`, 1)); err == nil {
		t.Errorf("it takes another payload, and prints %q", out)
	}
	if out, err := run(string(signed(t, payload, other).Encode())); err == nil {
		t.Errorf("it takes the signature of another key, and prints %q", out)
	}
}
