package bucket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/steps/catalog/cache/bucket/buckettest"
	"github.com/rungci/rung/steps/catalog/transfer"
)

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func quick() *transfer.Client {
	return &transfer.Client{Wait: func(context.Context, time.Duration) error { return nil }}
}

// content is what Put sends.
func content(text, mark string) Content {
	sum := sha256.Sum256([]byte(text))
	return Content{
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil },
		Size: int64(len(text)), SHA256: hex.EncodeToString(sum[:]), Mark: mark,
	}
}

// names are objects whose names are odd.
var names = []string{"main", "feature/a b", "ä-日本-non_protected", "100%", "a+b=c&d?e#f", "it's(1)!*~", "\xff"}

// roundTrip puts objects, and gets them again.
func roundTrip(t *testing.T, b *Bucket) {
	t.Helper()
	for _, name := range names {
		if _, err := b.Mark(t.Context(), name); !errors.Is(err, ErrNotFound) {
			t.Fatalf("%q: before there is one, its mark gives %v", name, err)
		}
		if err := b.Put(t.Context(), name, content("content of "+name, "mark1")); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if mark, err := b.Mark(t.Context(), name); err != nil || mark != "mark1" {
			t.Errorf("%q: the mark is %q, %v", name, mark, err)
		}
		f, err := os.Create(filepath.Join(t.TempDir(), "object"))
		if err != nil {
			t.Fatal(err)
		}
		n, err := b.Get(t.Context(), name, f)
		f.Close()
		text, _ := os.ReadFile(f.Name())
		if err != nil || string(text) != "content of "+name || n != int64(len(text)) {
			t.Errorf("%q: got %q, %v", name, text, err)
		}
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "object"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := b.Get(t.Context(), "nothing", f); !errors.Is(err, ErrNotFound) {
		t.Errorf("an object that is not there gives %v", err)
	}
}

func TestS3(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, region string
		session      bool
	}{
		{name: "with a key of a user", region: "us-east-1"},
		{name: "with a key of a session, in another region", region: "eu-central-1", session: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			store := buckettest.S3(t, tc.region, tc.session)
			pairs := []string{"AWS_ACCESS_KEY_ID", buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY", buckettest.SecretKey}
			if tc.session {
				pairs = append(pairs, "AWS_SESSION_TOKEN", buckettest.SessionToken)
			}
			b, err := Open("s3://bucket/some/prefix?region="+tc.region+"&endpoint="+store.URL, Config{Getenv: environment(pairs...), Client: quick()})
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, b)
			if _, ok := store.Objects()["/bucket/some/prefix/feature/a b"]; !ok {
				t.Errorf("the objects are %v", store.Objects())
			}
		})
	}
}

func TestAWrongKeyIsRefusedWithoutShowingIt(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "us-east-1", false)
	b, err := Open("s3://bucket?endpoint="+store.URL, Config{Getenv: environment("AWS_ACCESS_KEY_ID", buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY", "another-s3cret"), Client: quick()})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "main", content("x", ""))
	if !transfer.IsStatus(err, http.StatusForbidden) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v", err)
	}
}

func TestGoogle(t *testing.T) {
	t.Parallel()
	t.Run("with a service account", func(t *testing.T) {
		t.Parallel()
		file, key := buckettest.Account(t)
		store := buckettest.GCS(t, key)
		b, err := Open("gs://bucket/prefix?endpoint="+store.URL, Config{Getenv: environment("GOOGLE_APPLICATION_CREDENTIALS_JSON", file), Client: quick()})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, b)
		if _, ok := store.Objects()["/bucket/prefix/main"]; !ok {
			t.Errorf("the objects are %v", store.Objects())
		}
	})
	t.Run("with a key for interoperability", func(t *testing.T) {
		t.Parallel()
		store := buckettest.S3(t, "auto", false)
		b, err := Open("gs://bucket?endpoint="+store.URL, Config{Getenv: environment("AWS_ACCESS_KEY_ID", buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY", buckettest.SecretKey), Client: quick()})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, b)
	})
}

func TestAzure(t *testing.T) {
	t.Parallel()
	t.Run("with the account's key", func(t *testing.T) {
		t.Parallel()
		store := buckettest.Azure(t, "", sharedKeyOf)
		b, err := Open("azblob://devstoreaccount1/container/prefix?endpoint="+store.URL+"/devstoreaccount1", Config{Getenv: environment("AZURE_STORAGE_KEY", emulatorKey), Client: quick()})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, b)
		if _, ok := store.Objects()["/devstoreaccount1/container/prefix/main"]; !ok {
			t.Errorf("the objects are %v", store.Objects())
		}
	})
	t.Run("with a shared access signature", func(t *testing.T) {
		t.Parallel()
		const sas = "sv=2021-08-06&se=2030-01-01T00%3A00%3A00Z&sr=c&sp=rcw&sig=Z%2FRHIX5Xcg0Mq2rqI3OlWTjEg2tYkboXr1P9ZUXDtkk%3D"
		store := buckettest.Azure(t, sas, nil)
		b, err := Open("azblob://account/container?endpoint="+store.URL, Config{Getenv: environment("AZURE_STORAGE_SAS", "?"+sas), Client: quick()})
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, b)
	})
}

// sharedKeyOf is what the page "Authorize with Shared Key" says, for the requests of this package.
func sharedKeyOf(r *http.Request) string {
	length, kind, blob, mark := "", "", "", ""
	if r.Method == http.MethodPut {
		length, kind = r.Header.Get("Content-Length"), "application/octet-stream"
		blob, mark = "x-ms-blob-type:BlockBlob\n", "x-ms-meta-rungmark:"+r.Header.Get("X-Ms-Meta-Rungmark")+"\n"
	}
	text := r.Method + "\n\n\n" + length + "\n\n" + kind + "\n\n\n\n\n\n\n" + blob + "x-ms-date:" + r.Header.Get("X-Ms-Date") + "\n" + mark +
		"x-ms-version:" + r.Header.Get("X-Ms-Version") + "\n/devstoreaccount1" + r.RequestURI
	key, _ := base64.StdEncoding.DecodeString(emulatorKey)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return "SharedKey devstoreaccount1:" + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

func TestUploadsAreRepeatedWhole(t *testing.T) {
	t.Parallel()
	store := buckettest.S3(t, "us-east-1", false)
	var requests atomic.Int32
	store.Fail = func(w http.ResponseWriter, r *http.Request) bool {
		switch requests.Add(1) {
		case 1:
			_, _ = io.CopyN(io.Discard, r.Body, 3)
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	b, err := Open("s3://bucket?endpoint="+store.URL, Config{Getenv: environment("AWS_ACCESS_KEY_ID", buckettest.AccessKey, "AWS_SECRET_ACCESS_KEY", buckettest.SecretKey), Client: quick()})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0123456789", 100_000)
	if err := b.Put(t.Context(), "main", content(text, "m")); err != nil {
		t.Fatal(err)
	}
	if got := string(store.Objects()["/bucket/main"].Content); got != text {
		t.Errorf("%d bytes of %d came", len(got), len(text))
	}
}

func TestAddressesOfBuckets(t *testing.T) {
	t.Parallel()
	getenv := environment("AWS_ACCESS_KEY_ID", "AKID", "AWS_SECRET_ACCESS_KEY", "s3cret", "AZURE_STORAGE_KEY", emulatorKey)
	for address, want := range map[string]string{
		"s3://bucket":                                               "https://bucket.s3.us-east-1.amazonaws.com/k/e%20y",
		"s3://bucket/":                                              "https://bucket.s3.us-east-1.amazonaws.com/k/e%20y",
		"s3://bucket/a/b/?region=eu-west-1":                         "https://bucket.s3.eu-west-1.amazonaws.com/a/b/k/e%20y",
		"s3://bucket?region=cn-north-1":                             "https://bucket.s3.cn-north-1.amazonaws.com.cn/k/e%20y",
		"s3://with.dots":                                            "https://s3.us-east-1.amazonaws.com/with.dots/k/e%20y",
		"s3://bucket?endpoint=http://minio:9000":                    "http://minio:9000/bucket/k/e%20y",
		"s3://bucket?endpoint=https://host/sub/":                    "https://host/sub/bucket/k/e%20y",
		"s3://bucket?endpoint=https://host&path_style=false":        "https://bucket.host/k/e%20y",
		"gs://bucket/p":                                             "https://storage.googleapis.com/bucket/p/k/e%20y",
		"azblob://account1/container/p":                             "https://account1.blob.core.windows.net/container/p/k/e%20y",
		"azblob://account1/container?endpoint=http://127.0.0.1:1/a": "http://127.0.0.1:1/a/container/k/e%20y",
	} {
		b, err := Open(address, Config{Getenv: getenv})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if got := b.object("k/e y"); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
	for address, want := range map[string]string{
		"s3://":                                   "names no bucket",
		"s3://key:s3cret@bucket":                  "credentials are given as secrets",
		"s3://bucket?colour=red":                  `"colour" is not known here; known are region, endpoint, path_style`,
		"s3://bucket?region=a&region=b":           "appears 2 times",
		"s3://bucket?region=x/y":                  "is not a region",
		"s3://bucket?path_style=perhaps":          "must be true or false",
		"s3://bucket?endpoint=ftp://host":         "must be written as https://HOST",
		"s3://bucket?endpoint=https://u:s3cret@h": "a user, a query or a fragment",
		"azblob://account1":                       "names no container",
		"azblob://ACCOUNT-1/c":                    "small letters and digits",
		"ftp://bucket":                            "not s3, gs or azblob",
		"s3://bucket/%zz":                         "cannot be read",
	} {
		if _, err := Open(address, Config{Getenv: getenv}); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", address, err, want)
		}
	}
}

func TestCredentialsThatAreMissingOrWrong(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		address string
		env     []string
		want    string
	}{
		{"s3://bucket", nil, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not given"},
		{"gs://bucket", nil, "neither GOOGLE_APPLICATION_CREDENTIALS_JSON"},
		{"gs://bucket", []string{"GOOGLE_APPLICATION_CREDENTIALS_JSON", "/s3cret/path.json"}, "give the text of the key file, not its path"},
		{"gs://bucket", []string{"GOOGLE_APPLICATION_CREDENTIALS_JSON", `{"type":"authorized_user","client_email":"s3cret"}`}, "not the key file of a service account"},
		{"gs://bucket", []string{"GOOGLE_APPLICATION_CREDENTIALS_JSON", `{"type":"service_account","client_email":"a","private_key":"s3cret"}`}, "not in PEM form"},
		{"azblob://account/c", nil, "neither AZURE_STORAGE_KEY nor AZURE_STORAGE_SAS"},
		{"azblob://account/c", []string{"AZURE_STORAGE_KEY", "s3cret!"}, "not in Base64"},
		{"azblob://account/c", []string{"AZURE_STORAGE_SAS", "s3cret"}, "not a shared access signature"},
	} {
		if _, err := Open(tc.address, Config{Getenv: environment(tc.env...)}); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s with %q: got %v, want %q", tc.address, tc.env, err, tc.want)
		}
	}
}

func TestWhatIsTooLargeForOneRequestIsNotSent(t *testing.T) {
	t.Parallel()
	b, err := Open("s3://bucket?endpoint=http://127.0.0.1:1", Config{Getenv: environment("AWS_ACCESS_KEY_ID", "AKID", "AWS_SECRET_ACCESS_KEY", "s3cret")})
	if err != nil {
		t.Fatal(err)
	}
	err = b.Put(t.Context(), "main", Content{Size: MaxS3 + 1})
	if err == nil || !strings.Contains(err.Error(), "at most 5368709120") {
		t.Errorf("got %v", err)
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]bool{"s3://b": true, "GS://b": true, "azblob://a/c": true, "/cache": false, "cache": false, "c:\\cache": false, "http://host": false, "": false} {
		if Is(location) != want {
			t.Errorf("%q: got %v", location, !want)
		}
	}
}
