package s3

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/manager/cachestore"
	"github.com/rungci/rung/manager/cachestore/cachestoretest"
	"github.com/rungci/rung/manager/config"
	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
)

func host(address string) string { return strings.TrimPrefix(address, "http://") }

func opened(t *testing.T, c config.CacheS3) *Store {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.CacheS3){
		"plain": func(*config.CacheS3) {},
		"encrypted with a key": func(c *config.CacheS3) {
			c.ServerSideEncryption, c.ServerSideEncryptionKeyID = "KMS", "arn:aws:kms:eu:1:key/2"
		},
		"a temporary key": func(c *config.CacheS3) { c.SessionToken = buckettest.SessionToken },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cachestoretest.Run(t, func(t *testing.T) cachestoretest.Place {
				c := config.CacheS3{
					AccessKey: buckettest.AccessKey, SecretKey: buckettest.SecretKey, BucketName: "runner-cache", BucketLocation: "eu-central-1", Insecure: true,
				}
				change(&c)
				c.ServerAddress = host(buckettest.S3(t, c.BucketLocation, c.SessionToken != "").URL)
				return cachestoretest.Place{Signer: opened(t, c), Secrets: []string{c.SecretKey}, Headers: true}
			})
		})
	}
}

// TestAddresses has the expectations of gitlab-runner's own tests (cache/s3v2/s3_test.go, cache/s3/minio_test.go) for where a bucket is.
func TestAddresses(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, tc := range map[string]struct {
		config config.CacheS3
		want   string
	}{
		"Amazon":                    {config.CacheS3{BucketLocation: "us-west-2"}, "https://test-bucket.s3.dualstack.us-west-2.amazonaws.com/object"},
		"Amazon, named":             {config.CacheS3{ServerAddress: "s3.amazonaws.com", BucketLocation: "us-west-2"}, "https://test-bucket.s3.dualstack.us-west-2.amazonaws.com/object"},
		"Amazon, IPv4 alone":        {config.CacheS3{BucketLocation: "us-west-2", DualStack: &no}, "https://test-bucket.s3.us-west-2.amazonaws.com/object"},
		"Amazon, accelerated":       {config.CacheS3{BucketLocation: "us-west-2", Accelerate: true, DualStack: &no}, "https://test-bucket.s3-accelerate.amazonaws.com/object"},
		"Amazon, accelerated, both": {config.CacheS3{BucketLocation: "us-west-2", Accelerate: true}, "https://test-bucket.s3-accelerate.dualstack.amazonaws.com/object"},
		"Amazon, accelerated host":  {config.CacheS3{ServerAddress: "s3-accelerate.amazonaws.com", BucketLocation: "us-west-2"}, "https://test-bucket.s3-accelerate.amazonaws.com/object"},
		"Amazon, in the path":       {config.CacheS3{BucketLocation: "us-west-2", PathStyle: &yes, DualStack: &no}, "https://s3.us-west-2.amazonaws.com/test-bucket/object"},
		"Amazon, China":             {config.CacheS3{BucketLocation: "cn-north-1", DualStack: &no}, "https://test-bucket.s3.cn-north-1.amazonaws.com.cn/object"},
		"Amazon, dots":              {config.CacheS3{BucketName: "a.b", BucketLocation: "us-west-2", DualStack: &no}, "https://s3.us-west-2.amazonaws.com/a.b/object"},
		"Google":                    {config.CacheS3{ServerAddress: "storage.googleapis.com", BucketLocation: "auto"}, "https://test-bucket.storage.googleapis.com/object"},
		"MinIO":                     {config.CacheS3{ServerAddress: "minio.example.com:9000", BucketLocation: "us-east-1"}, "https://minio.example.com:9000/test-bucket/object"},
		"MinIO, insecure":           {config.CacheS3{ServerAddress: "minio.example.com:80", Insecure: true, BucketLocation: "us-east-1"}, "http://minio.example.com/test-bucket/object"},
		"MinIO, port of https":      {config.CacheS3{ServerAddress: "minio.example.com:443", BucketLocation: "us-east-1"}, "https://minio.example.com/test-bucket/object"},
		"MinIO, in the host":        {config.CacheS3{ServerAddress: "minio.example.com:9000", PathStyle: &no, BucketLocation: "us-east-1"}, "https://test-bucket.minio.example.com:9000/object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tc.config
			if c.BucketName == "" {
				c.BucketName = "test-bucket"
			}
			c.AccessKey, c.SecretKey, c.AuthenticationType = "AKIA", "secret", "access-key"
			a, err := opened(t, c).Get(t.Context(), "object", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(a.URL)
			if err != nil {
				t.Fatal(err)
			}
			query := u.Query()
			if u.RawQuery = ""; u.String() != tc.want {
				t.Errorf("got %s, want %s", u, tc.want)
			}
			if query.Get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" || query.Get("X-Amz-Expires") != "3600" || !strings.Contains(query.Get("X-Amz-Credential"), "/"+c.BucketLocation+"/s3/aws4_request") {
				t.Errorf("got %v", query)
			}
		})
	}
}

func TestEncryption(t *testing.T) {
	t.Parallel()
	const kind, key = "X-Amz-Server-Side-Encryption", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
	for _, tc := range []struct{ kind, key, wantKind, wantKey string }{
		{"", "", "", ""}, {"S3", "", "AES256", ""}, {"aes256", "unused", "AES256", ""}, {"KMS", "alias/a", "aws:kms", "alias/a"},
		{"aws:kms", "", "aws:kms", ""}, {"DSSE-KMS", "b", "aws:kms:dsse", "b"}, {"aws:kms:dsse", "b", "aws:kms:dsse", "b"},
	} {
		s := opened(t, config.CacheS3{
			BucketName: "bucket", BucketLocation: "eu-west-1", AuthenticationType: "access-key", AccessKey: "a", SecretKey: "b",
			ServerSideEncryption: tc.kind, ServerSideEncryptionKeyID: tc.key,
		})
		a, err := s.Put(t.Context(), "object", cachestore.Metadata{"cachekey": "main"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if a.Headers[kind] != tc.wantKind || a.Headers[key] != tc.wantKey || a.Headers["X-Amz-Meta-cachekey"] != "main" {
			t.Errorf("%q, %q: got %v", tc.kind, tc.key, a.Headers)
		}
		if got, err := s.Get(t.Context(), "object", time.Hour); err != nil || got.Headers != nil || strings.Contains(got.URL, "encryption") {
			t.Errorf("%q: getting has %v, %v", tc.kind, got, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]config.CacheS3{
		"BucketName is missing":                  {},
		`AuthenticationType is "ldap"`:           {BucketName: "bucket", AuthenticationType: "ldap"},
		"AccessKey or SecretKey is missing":      {BucketName: "bucket", AuthenticationType: "access-key", AccessKey: "a"},
		`ServerSideEncryption is "rot13"`:        {BucketName: "bucket", ServerSideEncryption: "rot13"},
		`ServerAddress "http://minio:9000" cann`: {BucketName: "bucket", ServerAddress: "http://minio:9000", AccessKey: "a", SecretKey: "s3cr3t"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// cloud is the metadata server of a machine, and the service that roles are assumed at. Keys hold for as long as it says.
type cloud struct {
	*httptest.Server
	life    time.Duration
	issued  atomic.Int32
	assumed atomic.Value // the role, and the key that asked
}

func newCloud(t *testing.T, life time.Duration) *cloud {
	t.Helper()
	c := &cloud{life: life}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expiry := time.Now().Add(c.life).UTC().Format(time.RFC3339)
		switch {
		case r.Method == http.MethodPost:
			_ = r.ParseForm()
			c.assumed.Store(r.PostForm.Get("RoleArn") + " by " + strings.Split(r.Header.Get("Authorization"), "/")[0])
			n := c.issued.Add(1)
			fmt.Fprintf(w, `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials><AccessKeyId>ASIAROLE%d</AccessKeyId>`+
				`<SecretAccessKey>%s</SecretAccessKey><SessionToken>of-the-role</SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>`, n, buckettest.SecretKey, expiry)
		case r.URL.Path == "/container":
			n := c.issued.Add(1)
			_ = json.NewEncoder(w).Encode(map[string]string{"Code": "Success", "AccessKeyId": fmt.Sprintf("ASIATASK%d", n), "SecretAccessKey": buckettest.SecretKey, "Token": "of-the-task", "Expiration": expiry})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// signedBy is the key that an address is signed with.
func signedBy(t *testing.T, a cachestore.Address, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(u.Query().Get("X-Amz-Credential"), "/")
	return key + " " + u.Query().Get("X-Amz-Security-Token")
}

func TestTheRoleOfTheMachineSigns(t *testing.T) {
	for name, tc := range map[string]struct {
		life time.Duration
		want [3]string
	}{
		"a key that holds":    {time.Hour, [3]string{"ASIATASK1 of-the-task", "ASIATASK1 of-the-task", "ASIATASK1 of-the-task"}},
		"a key that soon end": {time.Minute, [3]string{"ASIATASK2 of-the-task", "ASIATASK3 of-the-task", "ASIATASK4 of-the-task"}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := newCloud(t, tc.life)
			t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", machine.URL+"/container")
			t.Setenv("HOME", t.TempDir())
			s := opened(t, config.CacheS3{BucketName: "bucket", BucketLocation: "eu-west-1"})
			for _, want := range tc.want {
				a, err := s.Put(t.Context(), "object", nil, 2*time.Hour)
				if got := signedBy(t, a, err); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
}

func TestRolesAreAssumed(t *testing.T) {
	for name, tc := range map[string]struct {
		role, upload, wantGet, wantPut, assumed string
	}{
		"for uploads":         {"", "arn:aws:iam::1:role/up", "AKIDEXAMPLE ", "ASIAROLE1 of-the-role", "arn:aws:iam::1:role/up by AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE"},
		"for both":            {"arn:aws:iam::1:role/all", "", "ASIAROLE1 of-the-role", "ASIAROLE1 of-the-role", "arn:aws:iam::1:role/all by AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE"},
		"both, and one alone": {"arn:aws:iam::1:role/all", "arn:aws:iam::1:role/up", "ASIAROLE1 of-the-role", "ASIAROLE1 of-the-role", "arn:aws:iam::1:role/all by AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE"},
	} {
		t.Run(name, func(t *testing.T) {
			sts := newCloud(t, time.Hour)
			t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)
			s := opened(t, config.CacheS3{
				ServerAddress: "s3.amazonaws.com", AccessKey: buckettest.AccessKey, SecretKey: buckettest.SecretKey, BucketName: "bucket", BucketLocation: "eu-west-1",
				RoleARN: tc.role, UploadRoleARN: tc.upload,
			})
			for range 2 { // once, and kept
				get, err := s.Get(t.Context(), "object", 2*time.Hour)
				if got := signedBy(t, get, err); got != tc.wantGet {
					t.Errorf("getting: got %s, want %s", got, tc.wantGet)
				}
				put, err := s.Put(t.Context(), "object", nil, 2*time.Hour)
				if got := signedBy(t, put, err); got != tc.wantPut {
					t.Errorf("putting: got %s, want %s", got, tc.wantPut)
				}
			}
			if got := sts.assumed.Load(); got != tc.assumed {
				t.Errorf("got %v, want %s", got, tc.assumed)
			}
		})
	}
}

func TestTheRegionIsFound(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError) // it is asked again the next time
			return
		}
		if !r.URL.Query().Has("location") {
			t.Errorf("got %s", r.URL)
		}
		_, _ = fmt.Fprint(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/">eu-south-1</LocationConstraint>`)
	}))
	defer server.Close()
	s := opened(t, config.CacheS3{ServerAddress: host(server.URL), Insecure: true, AccessKey: "a", SecretKey: "b", BucketName: "bucket"})
	for _, want := range []string{"/us-east-1/", "/eu-south-1/", "/eu-south-1/"} {
		a, err := s.Get(t.Context(), "object", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if u, _ := url.Parse(a.URL); !strings.Contains(u.Query().Get("X-Amz-Credential"), want) {
			t.Errorf("got %s, want %s", u.Query().Get("X-Amz-Credential"), want)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("it was asked %d times", n)
	}
}
