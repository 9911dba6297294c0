//go:build unix

package manager_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungci/rung/manager/gitlab"
)

// Jobs of a GitLab with a CA of its own, that asks for a certificate, reach it as the manager does. They have the files under the names that
// gitlab-runner gives them, and nobody reads the key in a log.
func TestJobsHaveTheCertificatesOfTheirGitLab(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewUnstartedServer(w.server)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	w.url = server.URL
	pair := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	both := filepath.Join(w.dir, "both.pem") // as a server's program wants it
	if err := os.WriteFile(both, []byte(certificate+key), 0o600); err != nil {
		t.Fatal(err)
	}
	w.start(w.configure("concurrent = 1\ncheck_interval = 1", fmt.Sprintf("tls-ca-file = %q\ntls-cert-file = %q\ntls-key-file = %q", both, both, both)))

	from := script(
		"printf artifact > file", `grep -c PRIVATE "$CI_SERVER_TLS_CA_FILE" "$CI_SERVER_TLS_CERT_FILE" || true`, `cat "$CI_SERVER_TLS_KEY_FILE"`,
		`ls -l "$CI_SERVER_TLS_KEY_FILE"`, `grep -h -v -e - "$CI_SERVER_TLS_CERT_FILE" | head -n 1`)
	from.Artifacts = []gitlab.Artifact{{Paths: []string{"file"}, Type: "archive", Format: "zip"}}
	first := w.server.Enqueue(from)
	r := w.result(first)
	if r.State != gitlab.Success || len(r.Artifacts) != 1 {
		t.Fatalf("%s, %d artifacts\n%s", r.State, len(r.Artifacts), r.Log)
	}
	for _, line := range strings.Split(strings.TrimSpace(key), "\n") {
		if strings.Contains(r.Log, line) {
			t.Errorf("the log has a line of the key, %q:\n%s", line, r.Log)
		}
	}
	for _, text := range []string{"CI_SERVER_TLS_CA_FILE:0", "CI_SERVER_TLS_CERT_FILE:0", "-rw-------", strings.Split(certificate, "\n")[1]} {
		if !strings.Contains(r.Log, text) {
			t.Errorf("the log does not have %q:\n%s", text, r.Log)
		}
	}
	from = script("cat file")
	from.Dependencies = []gitlab.Dependency{{ID: first.Ref().ID, Token: first.Ref().Token, Name: "first", ArtifactsFile: &gitlab.ArtifactsFile{Filename: "artifacts.zip"}}}
	if r := w.result(w.server.Enqueue(from)); r.State != gitlab.Success || !strings.Contains(r.Log, "\nartifact") {
		t.Errorf("%s\n%s", r.State, r.Log)
	}
}
