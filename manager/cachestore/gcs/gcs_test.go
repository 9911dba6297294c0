package gcs

import (
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungci/rung/internal/sigv4"
	"github.com/rungci/rung/manager/cachestore/cachestoretest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
)

// robot is the account that the store of the tests knows.
const robot = "robot@project.iam.gserviceaccount.com"

// keyFile writes the key file of a service account, and returns its private key, too.
func keyFile(t *testing.T) (path, private string, public *rsa.PublicKey) {
	t.Helper()
	text, public := buckettest.Account(t)
	path = filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var file map[string]string
	if err := json.Unmarshal([]byte(text), &file); err != nil {
		t.Fatal(err)
	}
	return path, file["private_key"], public
}

// cloud stands for Google's services that sign for an account.
func cloud(t *testing.T, private string) *httptest.Server {
	t.Helper()
	account, err := sigv4.NewAccount(robot, private)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/service-accounts/default/email"):
			w.Header().Set("Metadata-Flavor", "Google")
			fmt.Fprint(w, robot)
		case strings.HasSuffix(r.URL.Path, "/service-accounts/default/token"):
			w.Header().Set("Metadata-Flavor", "Google")
			fmt.Fprint(w, `{"access_token": "t0ken", "expires_in": 3600, "token_type": "Bearer"}`)
		case r.Method == http.MethodPost && r.URL.Path == "/v1/projects/-/serviceAccounts/"+robot+":signBlob":
			var in struct{ Payload []byte }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("Authorization") != "Bearer t0ken" {
				http.Error(w, `{"error": {"message": "who are you?"}}`, http.StatusForbidden)
				return
			}
			signature, err := account.Sign(in.Payload)
			if err != nil {
				t.Error(err)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"keyId": "1", "signedBlob": signature})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestConformance(t *testing.T) {
	path, private, public := keyFile(t)
	services := cloud(t, private)
	t.Setenv("GCE_METADATA_HOST", strings.TrimPrefix(services.URL, "http://"))
	t.Setenv("HOME", t.TempDir())
	for name, c := range map[string]config.CacheGCS{
		"a file":                        {CredentialsFile: path},
		"a key":                         {AccessID: robot, PrivateKey: private},
		"the machine":                   {},
		"the machine, and another name": {AccessID: robot},
	} {
		for _, maxSize := range []int64{0, 1 << 20} {
			c.BucketName = "runner-cache"
			t.Run(fmt.Sprintf("%s, %d", name, maxSize), func(t *testing.T) {
				t.Parallel()
				cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
					s, err := New(c, maxSize)
					if err != nil {
						t.Fatal(err)
					}
					if s.base != sigv4.GoogleEndpoint {
						t.Errorf("the service is at %s", s.base)
					}
					s.base = buckettest.GCS(t, public).URL
					if r, ok := s.signer.(*remote); ok {
						r.endpoint = services.URL
					}
					return cachestoretest.Place{Signer: s, Headers: true}
				})
			})
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	path, _, _ := keyFile(t)
	s, err := New(config.CacheGCS{CredentialsFile: path, BucketName: "bucket", UniverseDomain: "cloud.example"}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Put(t.Context(), "project/7/main", nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(a.URL)
	if !strings.HasPrefix(a.URL, "https://storage.cloud.example/bucket/project/7/main?") || u.Query().Get("X-Goog-SignedHeaders") != "content-type;host;x-goog-content-length-range" {
		t.Errorf("got %s", a.URL)
	}
	// As gitlab-runner has it (cache/gcs/adapter_test.go).
	if a.Headers["X-Goog-Content-Length-Range"] != "0,1000" || a.Headers["Content-Type"] != "application/octet-stream" {
		t.Errorf("got %v", a.Headers)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	wrong := filepath.Join(t.TempDir(), "user.json")
	if err := os.WriteFile(wrong, []byte(`{"type": "authorized_user", "client_secret": "s3cr3t"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]config.CacheGCS{
		"BucketName is missing":                        {},
		"AccessID is missing":                          {BucketName: "b", PrivateKey: "s3cr3t"},
		"PrivateKey: its private_key is not in PEM":    {BucketName: "b", AccessID: robot, PrivateKey: "s3cr3t"},
		"CredentialsFile: open /nowhere":               {BucketName: "b", CredentialsFile: "/nowhere"},
		"it is not the key file of a service account:": {BucketName: "b", CredentialsFile: wrong},
	} {
		if _, err := New(c, 0); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
